"""Code generation: spell a lowered nest. Nothing is decided here, and no emitter knows an operator.

cuda/ emits CUDA C, llvm/ emits LLVM IR; host (what runs around the kernels, as Python), params and fast_division
(by what only the host knows) serve both.
"""
