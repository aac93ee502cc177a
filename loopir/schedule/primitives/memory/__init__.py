"""Primitives on buffers: caches, padding, layouts, scopes, folding."""
