"""What a compiled program needs while it runs. Of the rest of loopir, this package knows errors and shapes alone.

call (arrays in, arrays out), arrays (do they fit a signature), plans (repeated calls), bounds_report (subscripts from
memory), cache (compiled code on disk), llvm_jit and amx_permission (machine code for this CPU); cpu/ and cuda/ run
programs.
"""
