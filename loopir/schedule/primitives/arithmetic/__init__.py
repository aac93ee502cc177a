"""Primitives on the values that stages compute: scales, functions of less accuracy, other bases."""
