"""The rules of the language at each stage of compilation."""
