"""Primitives on reductions: rfactor, decompose_reduction, scans, atomics."""
