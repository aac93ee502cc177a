"""Faults in bounds and footprints: regions too small, coverage that is not asked for, rings of too few rows."""

from __future__ import annotations

from loopir.testing.mutants.hunts import steps
from loopir.testing.mutants.mutant import Mutant, family
from loopir.testing.tiny import tiny, windows

STAGES = windows()
PLACE = steps("compute_at", "cache_read", programs=STAGES, most=1)
READ = steps("cache_read", programs=tiny(nests=1, temporaries="never"), most=1)
RING = steps("fold_storage", programs=STAGES, most=1)

BOUNDS = family(
    "bounds and footprints",
    Mutant(
        "box one short", "a region has one element less than from its first to its last", "analysis.regions:_spanned",
        "extent = plus(plus(high, low, -1), constant(1))", "extent = plus(high, low, -1)", PLACE,
    ),
    Mutant(
        "wrong end", "an index that falls as its loop rises is least at the loop's start",
        "analysis.regions:_linear_end", "if (c > 0) != least:", "if not least:",
        steps("cache_read", programs=tiny(nests=1, temporaries="never", mostly="mirrored"), most=1),
    ),
    Mutant(
        "last access only", "a region starts where the last of its accesses does", "analysis.regions:_spanned",
        "constant(min(ahead))", "constant(ahead[-1])", PLACE,
    ),
    Mutant(
        "nobody misses it", "a stage need not compute all that it did", "analysis.coverage:missing",
        "if not points:", "if True:", steps("compute_at", programs=STAGES, most=1),
    ),
    Mutant(
        "remainder one short", "a remainder is taken to be at most the divisor less 2", "analysis.regions:_atom_end",
        "return {} if least else plus(by, constant(-1))", "return {} if least else plus(by, constant(-2))", READ,
    ),
    Mutant(
        "window one late", "a sliding window starts one element after what it needs", "schedule.window:_edges",
        "constant(1 - step - extra)", "constant(2 - step - extra)", steps("compute_at", programs=STAGES, most=1),
    ),
    Mutant(
        "ring one short", "a window of n + 1 rows is taken to fit a ring of n", "analysis.lifetimes:moves_on",
        "stop = plus(start, constant(factor - 1))", "stop = plus(start, constant(factor))",
        steps("compute_at", "fold_storage", programs=STAGES, in_turn=True),
    ),
    Mutant(
        "ring one way", "a row is overwritten by later rows only, never by earlier ones", "analysis.lifetimes:_sharing",
        "for sign in (1, -1) if apart", "for sign in (1,) if apart", RING,
    ),
    Mutant(
        "starts below 0", "a loop that is cut to a region may start before its first iteration",
        "schedule.restriction:Restriction._restrict", "if not proved(start, ctx):", "if False:",
        steps("compute_at", programs=STAGES, most=1),
    ),
    Mutant(
        "past the end", "a loop that is rounded up may leave a buffer", "schedule.overrun:_require_inside",
        "if not all(", "if False and not all(",
        steps("split", programs=STAGES, most=1, tail="round_up"),
    ),
)  # fmt: skip
