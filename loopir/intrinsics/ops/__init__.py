"""Scalar operations: arithmetic, comparisons, functions, monoids."""
