"""Answers kept with nodes: on a branch, or after undo, a step does what it does on a nest that is new."""

import re

import pytest

import loopir as lp
from loopir.arith.simplify import clear_caches
from loopir.errors import ScheduleError
from loopir.testing.generate import nests

BRANCHES = {
    "blur": ["s.compute_at('h', 'i_1')", "s.fuse_loops('i', 'i_1', shift=2)", "s.merge('i', 'i_1', side_by_side=True)"],
    "matmul": ["s.tile('i', 'j', 30, 32)", "s.unroll_and_jam('i', 2)", "s.parallel('k')", "s.reorder('k', 'i')"],
    "layernorm": ["s.reverse_compute_at('out', 'i_1')", "s.merge('i', 'i_1')", "s.fold_storage('sum', 0, 3)"],
    "attention": ["s.compute_inline('E')", "s.wavefront('h', 'i')", "s.reuse('P', 'S')", "s.peel('h', first=1)"],
}


def outcome(s: lp.Schedule, step: str) -> str:
    try:
        return str(eval(step, {"s": s}))
    except ScheduleError as error:
        return re.sub(r"; '\w+' was there until .*", "", str(error))  # which a nest that is new does not know


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_is_as_on_a_nest_that_is_new(name: str) -> None:
    start = lp.Schedule(nests.symbolic(name))
    for first in BRANCHES[name]:
        outcome(start, first)  # its answers stay with the nodes that the other branches share
        for then in BRANCHES[name]:
            clear_caches()
            fresh = lp.Schedule(lp.parse(lp.text(start.func)))
            assert outcome(start, then) == outcome(fresh, then)
            split = start.split(start.loops()[0], 4)
            assert split.undo() is start
            assert outcome(split, then) == outcome(lp.Schedule(lp.parse(lp.text(split.func))), then)
