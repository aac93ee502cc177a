"""Faults in reductions: inits counted twice or lost, partial results that start wrong, folds done once only."""

from __future__ import annotations

from loopir.testing.generate.guarded import guarded
from loopir.testing.generate.tiny import tiny
from loopir.testing.mutants.hunts import steps
from loopir.testing.mutants.mutant import Mutant, family

FOLDS = tiny(nests=1, temporaries="never", mostly="folds")
STARTED = tiny(nests=1, temporaries="never", mostly="starts")
RFACTOR = steps("rfactor", programs=FOLDS, most=1)

REDUCTIONS = family(
    "reductions",
    Mutant(
        "init in every part", "partial results start from the init, not from the identity",
        "schedule.primitives.reduction.rfactor:_Parts.partial", "identity = reduce.monoid.identity",
        "identity = reduce.init or reduce.monoid.identity", steps("rfactor", programs=STARTED, most=1),
    ),
    Mutant(
        "init lost", "the fold of partial results starts from the identity",
        "schedule.primitives.reduction.rfactor:_Parts.nest",
        "over=(self.loop.var,))", "over=(self.loop.var,), init=reduce.monoid.identity)", RFACTOR,
    ),
    Mutant(
        "last value only", "a partial result is the last of its values",
        "schedule.primitives.reduction.rfactor:_Parts.of",
        "tuple(s.var for s in left), (loop, *again)", "(), (loop, *again)",
        RFACTOR,
    ),
    Mutant(
        "read too early", "a reduction may be folded after others have read it",
        "schedule.legality.reductions:require_delay",
        "if clash is not None:", "if False:", RFACTOR,
    ),
    Mutant(
        "folded twice", "a tile that is moved back may repeat folds that have an init",
        "schedule.primitives.loops.split:_require_repeatable", "(s.init is not None and set(s.over) <= inside)",
        "s.init is not None", steps("split", programs=STARTED, most=1, tail="shift_inwards"),
    ),
    Mutant(
        "init passes others", "the stores of an init may pass anything on their way out",
        "schedule.primitives.reduction.decompose_reduction:decompose_reduction",
        "_require_order(func, fold, explicit_init_of(func, label), new, target)", "pass",
        steps("decompose_reduction", programs=STARTED, most=1),
    ),
    Mutant(
        "over neither", "a fold over two loops that are fused starts in each iteration of the fused one",
        "schedule.primitives.loops.fuse:_refold", "a: (name,) if b in s.over else ()", "a: ()",
        steps("fuse", programs=FOLDS, most=1),
    ),
    Mutant(
        "starts in every tile", "a reduction over a split loop is over the inner one alone",
        "schedule.primitives.loops.split:Tiling.over", "(self.outer, self.inner)", "(self.inner,)",
        steps("split", programs=FOLDS, most=1),
    ),
    Mutant(
        "done once", "a fold that goes on from what was there may be hoisted out of its loop",
        "schedule.primitives.placement.hoist:_require_same",
        "(again or loop.var in s.over if s.init is None else not set(s.over) <= inner)", "False",
        steps("hoist", programs=FOLDS, most=1),
    ),
    Mutant(
        "whole folds", "a loop that is folded over may be fused with one that is not",
        "schedule.primitives.loops.fuse:fuse", "_whole_folds(a, b)", "\"\"", steps("fuse", programs=FOLDS, most=1),
    ),
    Mutant(
        "guards of others", "pad drops guards that others stand under, too",
        "schedule.primitives.memory.pad:_guards_one", "len([*leaf_paths((s,))]) == 1", "True",
        steps("pad", programs=guarded(plain=False), most=1),
    ),
    Mutant(
        "a start that is asked", "simplification lets a guard hold back the start of a reduction",
        "arith.simplify_func:starts_alike", "all(", "any(True for _ in spoken) or all(",
        steps("simplify", programs=guarded(plain=True), most=1),
    ),
)  # fmt: skip
