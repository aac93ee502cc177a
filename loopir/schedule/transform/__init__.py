"""Rewrites that primitives share: placing nests, copies, resizing allocations."""
