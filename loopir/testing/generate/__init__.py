"""Generators of programs, expressions and steps, as Hypothesis strategies."""
