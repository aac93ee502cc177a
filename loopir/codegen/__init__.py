"""Code generation: emit a lowered nest as text. Nothing is decided here, and no operator is known by name.

cuda/ emits CUDA C, llvm/ emits LLVM IR. Both use host (the Python function that runs the kernels), params (the
parameters of a kernel), overflow (checks of 64-bit indices) and fast_division (by numbers that only the host knows).
"""
