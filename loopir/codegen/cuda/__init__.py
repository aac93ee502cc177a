"""CUDA C from a lowered Func."""
