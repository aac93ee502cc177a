"""Index arithmetic without a solver: polynomials, simplification rules, proofs of inequalities."""
