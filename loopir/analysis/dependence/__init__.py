"""Dependences between statement instances, and whether a rewrite keeps their order."""
