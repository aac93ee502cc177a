"""Code from a lowered nest: what is there is spelt, and nothing is decided. No emitter knows an operator.

CUDA C: cuda, with values (cuda_values, cuda_narrow), indices (cuda_index, cuda_offsets), memory
(cuda_atomic), barriers and tensor maps (cuda_rings), and branches that cost more than what they save (cuda_unasked).
LLVM IR: llvm, with values (llvm_values, llvm_ops), indices (llvm_index), loops (llvm_loops), threads (llvm_shared),
memory (llvm_atomic), instructions (llvm_issue, llvm_tiles); llvm_builder writes
lines, of what llvm_text has.
Both: host (what runs around the kernels, as Python), division (by what only the host knows), params, and
overflow (what 64 bits do not hold).
"""
