"""Faults in tails and predicates: guards that are off by one, on the wrong loop or lost, tails that are cut wrong."""

from __future__ import annotations

from loopir.testing.generate.tiny import tiny
from loopir.testing.mutants.hunts import steps
from loopir.testing.mutants.mutant import Mutant, family

PLAIN = tiny(nests=1, temporaries="never")
SPLIT = steps("split", programs=PLAIN, most=1)

TAILS = family(
    "tails and predicates",
    Mutant(
        "one too many", "the guard of a split loop lets one iteration more through",
        "schedule.primitives.loops.split:Tiling.once", 'Cmp("<", self.position', 'Cmp("<=", self.position', SPLIT,
    ),
    Mutant(
        "guard on the wrong loop", "the guard of a split loop asks the inner loop alone",
        "schedule.primitives.loops.split:Tiling.once", 'Cmp("<", self.position', 'Cmp("<", Var(self.inner)', SPLIT,
    ),
    Mutant(
        "last tile lost", "the tile that is not full is left out", "schedule.primitives.loops.split:Tiling.once",
        "ceildiv(extent, self.factor)", "extent // self.factor", SPLIT,
    ),
    Mutant(
        "tail from the wrong place", "what is left over starts at the number of tiles",
        "schedule.primitives.loops.split:_peel", "start = extent // t.factor * t.factor", "start = extent // t.factor",
        SPLIT,
    ),
    Mutant(
        "repeats what it must not", "a tile that is moved back may repeat anything",
        "schedule.primitives.loops.split:_shift_inwards", "_require_repeatable(t)", "pass",
        steps("split", programs=PLAIN, most=1, tail="shift_inwards"),
    ),
    Mutant(
        "starts again", "each part of a loop starts the reductions over it", "schedule.transform.split_range:continued",
        "init=None", "init=s.init",
        steps("split", "peel", "partition", programs=tiny(nests=1, temporaries="never", mostly="folds"), most=1),
    ),
    Mutant(
        "half a guard", "a skewed loop is not guarded at its start", "schedule.primitives.loops.skew:_skewed",
        'conj(Cmp("<=", later, at), Cmp("<", at, facts.tidy(inner.extent + later)))',
        'conj(Cmp("<", at, facts.tidy(inner.extent + later)))',
        steps("skew", programs=PLAIN, most=1),
    ),
    Mutant(
        "ends too early", "a nest that lags ends when it would without the lag",
        "schedule.primitives.loops.fuse_loops:_runs_while", 'Cmp("<", Var(name), facts.tidy(extent + lag))',
        'Cmp("<", Var(name), extent)',
        steps("fuse_loops", programs=tiny(temporaries="never", guards=False), most=1, shift=1),
    ),
    Mutant(
        "begins where it ends", "the last iterations of stages that run later are the first ones again",
        "schedule.primitives.loops.retime:_pipelined", "end + Var(last), known", "Var(last), known",
        steps("retime", programs=tiny(nests=1, depth=1, temporaries="never", guards=False), most=1),
    ),
    Mutant(
        "later in no order", "whether stages may run later is not asked",
        "schedule.primitives.loops.retime:_retimed", "if clash is None:", "if True:",
        steps("retime", programs=tiny(nests=1, depth=1, temporaries="never", guards=False), most=1),
    ),
    Mutant(
        "cut one short", "the last iteration that a mask lets through is left out",
        "schedule.primitives.loops.trim:_end", "rest // -slope + 1", "rest // -slope",
        steps("trim", programs=tiny(nests=1, temporaries="never", mostly="folds"), most=1),
    ),
    Mutant(
        "guard between loops lost", "a guard between reordered loops is left out",
        "schedule.primitives.loops.reorder:Band.of", "steps.append(body[0])", "pass",
        steps("reorder", programs=tiny(nests=1, temporaries="never"), most=1),
    ),
    Mutant(
        "edge one short", "the interior of a partitioned loop ends one iteration late",
        "schedule.primitives.loops.partition:Interior.require", "rest // -slope + 1", "rest // -slope + 2",
        steps("partition", programs=PLAIN, most=1),
    ),
)  # fmt: skip
