"""Primitives that move stages: compute_at, compute_inline, hoist, ..."""
