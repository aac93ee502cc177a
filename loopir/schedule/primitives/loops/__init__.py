"""Primitives on loops: split, fuse, reorder, vectorize, unroll, ..."""
