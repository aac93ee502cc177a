"""LLVM IR from a lowered Func."""
