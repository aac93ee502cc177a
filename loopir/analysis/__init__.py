"""Program analysis: what steps, lowering and reports ask about a nest.

dependence/ has the dependence analysis, presburger/ the integer sets that it asks, regions/ footprints and bounds,
dataflow/ where values come from and whether two programs are the same, cost/ operations, trip counts and traffic.
Index arithmetic without a solver is in `loopir.arith`.
"""
