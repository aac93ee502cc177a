"""What a compiled program needs while it runs. Of the rest of loopir, this room knows errors and shapes alone.

A call: call (arrays in, arrays out), arrays (do they fit), checks (subscripts from memory), and the shorter ways for a
call like an earlier one: plans on any target, direct on a CPU, native on a GPU (in native.ll and by record).
A CPU: cpu, llvm_jit, pool (threads, in pool.ll), memory, tiles.
A GPU: nvrtc compiles; driver, launch, blocks (memory), maps, graphs run; machine and disassembler read machine code.
Compiled code is kept on disk by cache.
"""
