"""Checks that primitives share, and the refusals that they raise."""
