"""Lower a scheduled Func: `pipeline` is the table of passes, one file each, in order; `target` has the targets' limits.

common/ has the passes for every target, gpu/ those for GPUs, gpu/asynchronous/ those for asynchronous copies and
products.
"""
