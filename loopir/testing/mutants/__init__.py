"""Faults that our tests have to find, so that we know that they can: `python -m loopir.testing.mutants`.

A mutant is a small patch of one of our own rules, applied while it runs (`patch`), in families of a
file each. It is hunted with the same random programs, schedules and oracles as the tests use (`hunts`), and counts as
killed if an oracle is against what comes out within 500 examples.
"""

from loopir.testing.mutants.algebra import ALGEBRA
from loopir.testing.mutants.bounds import BOUNDS
from loopir.testing.mutants.chains import CHAINS
from loopir.testing.mutants.dependences import DEPENDENCES
from loopir.testing.mutants.gpu import GPU
from loopir.testing.mutants.mutant import Mutant as Mutant
from loopir.testing.mutants.reductions import REDUCTIONS
from loopir.testing.mutants.run import Result as Result, hunted as hunted
from loopir.testing.mutants.tails import TAILS
from loopir.testing.mutants.warps import WARPS

MUTANTS: tuple[Mutant, ...] = (*DEPENDENCES, *BOUNDS, *TAILS, *ALGEBRA, *REDUCTIONS, *CHAINS, *GPU, *WARPS)
FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(m.family for m in MUTANTS))
