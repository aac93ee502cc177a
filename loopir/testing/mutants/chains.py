"""Faults in the corrections of folds whose terms read another fold that goes on."""

from __future__ import annotations

from loopir.testing.generate.chains import chained_folds
from loopir.testing.mutants.hunts import steps
from loopir.testing.mutants.mutant import Mutant, family

ROLLING = steps("rolling_update", programs=chained_folds(), most=1)

CHAINS = family(
    "chained folds",
    Mutant(
        "corrected the other way", "a fold is scaled from what is to what was",
        "schedule.transform.corrections:_Corrected.updates",
        "[self.as_before(a) for a in found.atoms], found.atoms, b.dtype",
        "found.atoms, [self.as_before(a) for a in found.atoms], b.dtype", ROLLING,
    ),
    Mutant(
        "one fold uncorrected", "of several folds that read another one, the first alone is corrected",
        "schedule.transform.corrections:_Corrected.updates", "if make is None:", "if make is None or self.scales:",
        ROLLING,
    ),
    Mutant(
        "no copy for others", "who else reads a stage gets what its blocks were when they were made",
        "schedule.transform.duplicate:duplicated", "if not wanted:", "if True:", ROLLING,
    ),
    Mutant(
        "corrected too late", "a fold is corrected after its block, not before",
        "schedule.transform.corrections:_Corrected.done", "rest += extra", "block = (*block, *extra)", ROLLING,
    ),
    Mutant(
        "kept too late", "what a fold was is kept when it has gone on already",
        "schedule.transform.corrections:_Corrected.done", "body=(*head, *rest)", "body=(*rest[:1], *head, *rest[1:])",
        ROLLING,
    ),
)  # fmt: skip
