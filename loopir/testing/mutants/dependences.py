"""Faults in the dependence analysis: pairs of accesses that are overlooked, or taken to be ordered otherwise."""

from __future__ import annotations

from loopir.testing.generate.tiny import tiny
from loopir.testing.mutants.hunts import steps
from loopir.testing.mutants.mutant import Mutant, family

ORDER = steps("reorder", "fuse_loops", "distribute", "merge", programs=tiny(temporaries="never"), most=1)
KIND_STEPS = steps("parallel", "vectorize", "bind", programs=tiny(nests=1, temporaries="never"), most=1)

DEPENDENCES = family(
    "dependences",
    Mutant(
        "no WAR", "a read that a later write overwrites is no dependence", "analysis.dependence.depend:conflict_filter",
        "(a.write or b.write) and", "a.write and", ORDER,
    ),
    Mutant(
        "no WAW", "two writes of one element are no dependence", "analysis.dependence.depend:conflict_filter",
        "(a.write or b.write) and", "a.write != b.write and", ORDER,
    ),
    Mutant(
        "no RAW", "a read of what was written is no dependence", "analysis.dependence.depend:conflict_filter",
        "(a.write or b.write) and", "b.write and", ORDER,
    ),
    Mutant(
        "outermost loop only", "iterations that differ in an inner loop alone count as one",
        "analysis.dependence.depend:before",
        "return [*out, equal] if ties else out", "return [*out[:1], equal] if ties else out[:1]",
        steps("unroll_and_jam", programs=tiny(nests=1, temporaries="never"), most=1),
    ),
    Mutant(
        "all folds commute", "folds of different reductions may trade places",
        "analysis.dependence.depend:conflict_filter",
        "folds_commute and s.folds_with(t)", "folds_commute",
        steps("fuse_loops", "distribute", programs=tiny(temporaries="never", mostly="folds", guards=False), most=1),
    ),
    Mutant(
        "memory of inner loops", "memory is taken to be new in every iteration of the loops inside it, too",
        "analysis.dependence.access:_renewed",
        "elif kind is Alloc and around:\n            assert isinstance(s, Alloc)\n            kept = around",
        "elif kind is Alloc:\n            assert isinstance(s, Alloc)\n            kept = list(p.loops)",
        steps("parallel", "reorder", programs=tiny(nests=1), most=1),
    ),
    Mutant(
        "init after folds", "a reduction is taken to start after its folds", "analysis.dependence.access:_when_init",
        "out += (2 * n, nth)", "out += (2 * n + 2, nth)", ORDER,
    ),
    Mutant(
        "writes before reads", "a lane is taken to write before it reads", "analysis.dependence.depend:lockstep",
        "(*other, int(b.write)), (*one, int(a.write))", "(*other, int(a.write)), (*one, int(b.write))", KIND_STEPS,
    ),
    Mutant(
        "parallel folds", "iterations of a parallel loop may fold into one element",
        "analysis.dependence.depend:loop_carried",
        "folds_commute=together and loop in s.over and s.key == t.key", "folds_commute=True", KIND_STEPS,
    ),
    Mutant(
        "one index for all", "elements that a loop tells at one access are taken to be its own at every one",
        "analysis.dependence.depend:_indexed_by", "dims.get(a.buffer, here) & here", "dims.get(a.buffer, here) | here",
        KIND_STEPS,
    ),
    Mutant(
        "one digit too many", "elements whose low digits differ by a whole tile count as different",
        "analysis.presburger.infeasible:digits", "most + c < g", "most + c <= g",
        steps("parallel", programs=tiny(nests=1, temporaries="never", mostly="digits"), most=1),
    ),
)  # fmt: skip
