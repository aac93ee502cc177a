"""Lowering: `pipeline` is the table of passes, one file each, in order; `target` has the limits of targets.

common/ has the passes for every target, gpu/ those for GPUs, gpu/asynchronous/ those for asynchronous copies and
products.
"""
