"""What is known of a nest: the questions that steps, lowering and reports ask.

Which instances touch what, and in which order they have to stay:
  access (what each statement touches, when, under which guards: what the rest begins with), depend (pairs that depend
  on one another, and whether a step turns one round), moved (the same for a rewrite that moves iterations: what most
  primitives ask), relabel (iterations that are only called otherwise), bundles, offsets, example (what saves the solver
  work), moments, unfused, distance (the least shift behind another nest), multicast.
Where values come from and go:
  flow, running, between, constants, lifetimes (may elements share memory), coverage (is all of it done, and once),
  validate (are two programs the same: a proof by the above, and by none of the rules of the steps), fold_matching
  (which folds of theirs are the same), undefined (is memory used that nobody wrote),
  unread (values that nobody looks at), counterexample.
How much of a buffer, and whether it is inside:
  regions, bounds, upper, operands (of an instruction).
What a value is, and how it changes:
  signs (nonnegative, positive, defined), correction and correction_symbolic (of a fold whose terms read another one
  that goes on).
Indices, by rules and polynomials, with no solver:
  simplify, simplify_func, rules, statements (what a rule says, as the tests prove it), affine, premises,
  prove, samples.
Integer sets, by isl:
  system, bits; refute and corner answer what needs no solver.
What it costs:
  cost, counts, traffic, warps.
"""
