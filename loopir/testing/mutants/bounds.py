"""Faults in bounds and footprints: regions too small, coverage that is not asked for, rings of too few rows."""

from __future__ import annotations

from loopir.testing.generate.tiny import tiny, windows
from loopir.testing.mutants.hunts import steps
from loopir.testing.mutants.mutant import Mutant, family

STAGES = windows()
PLACE = steps("compute_at", "cache_read", programs=STAGES, most=1)
READ = steps("cache_read", programs=tiny(nests=1, temporaries="never"), most=1)
RING = steps("fold_storage", programs=STAGES, most=1)

BOUNDS = family(
    "bounds and footprints",
    Mutant(
        "box one short", "a region has one element less than from its first to its last",
        "analysis.regions.footprint:_spanned",
        "extent = poly_add(poly_add(high, low, -1), constant_poly(1))", "extent = poly_add(high, low, -1)", PLACE,
    ),
    Mutant(
        "wrong end", "an index that falls as its loop rises is least at the loop's start",
        "analysis.regions.footprint:_linear_end", "if (c > 0) != least:", "if not least:",
        steps("cache_read", programs=tiny(nests=1, temporaries="never", mostly="mirrored"), most=1),
    ),
    Mutant(
        "last access only", "a region starts where the last of its accesses does",
        "analysis.regions.footprint:_spanned",
        "constant_poly(min(ahead))", "constant_poly(ahead[-1])", PLACE,
    ),
    Mutant(
        "nobody misses it", "a stage need not compute all that it did", "analysis.dataflow.coverage:find_missing",
        "if not points:", "if True:", steps("compute_at", programs=STAGES, most=1),
    ),
    Mutant(
        "remainder one short", "a remainder is taken to be at most the divisor less 2",
        "analysis.regions.footprint:_atom_end",
        "return {} if least else poly_add(by, constant_poly(-1))",
        "return {} if least else poly_add(by, constant_poly(-2))", READ,
    ),
    Mutant(
        "window one late", "a sliding window starts one element after what it needs",
        "schedule.transform.window:_edges",
        "constant_poly(1 - step - extra)", "constant_poly(2 - step - extra)", steps("compute_at", programs=STAGES,
        most=1),
    ),
    Mutant(
        "ring one short", "a window of n + 1 rows is taken to fit a ring of n",
        "analysis.dataflow.liveness:is_sliding_window",
        "stop = poly_add(start, constant_poly(factor - 1))", "stop = poly_add(start, constant_poly(factor))",
        steps("compute_at", "fold_storage", programs=STAGES, in_turn=True),
    ),
    Mutant(
        "ring one way", "a row is overwritten by later rows only, never by earlier ones",
        "analysis.dataflow.liveness:_sharing",
        "for sign in (1, -1) if apart", "for sign in (1,) if apart", RING,
    ),
    Mutant(
        "starts below 0", "a loop that is cut to a region may start before its first iteration",
        "schedule.transform.restriction:Restriction._restrict", "if not proved(start, ctx):", "if False:",
        steps("compute_at", programs=STAGES, most=1),
    ),
    Mutant(
        "past the end", "a loop that is rounded up may leave a buffer", "schedule.legality.overrun:_require_inside",
        "if not all(", "if False and not all(",
        steps("split", programs=STAGES, most=1, tail="round_up"),
    ),
)  # fmt: skip
