"""What statements read, write and allocate, and the refusals of loops whose length or start would change."""

import pytest
from hypothesis import given, settings

from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Func, Load, Loop, Reduce, Store, Var
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import loop_of, nodes, statements
from loopir.schedule.legality.effects import allocates, reads, require_known_starts, require_stable_extent, writes
from loopir.testing.generate.trees import anything


@given(anything())
@settings(max_examples=20, deadline=None)
def test_they_are_those_of_all_nodes(func: Func) -> None:
    for body in (func.body, *((s,) for s in statements(func.body))):
        inside = list(statements(body))
        assert writes(body) == {b.name for s in inside if isinstance(s, Store | Reduce) for b in s.buffers}
        assert reads(body) == {n.buffer.name for s in body for n in nodes(s) if isinstance(n, Load)}
        assert allocates(body) == {s.buffer.name for s in inside if isinstance(s, Alloc)}


NEST = """
def f(n: "inout int32[1]", a: "float32[9, 9]", s: "inout float32[9]"):
    for i in range(min(n[0], 9)):
        for k in range(9):
            s[i] = sum(a[i, k], over=k, init=0.0)
    for j in range(min(n[0], 9)):
        n[0] = 3
"""


def loop(name: str) -> Loop:
    found = loop_of(parse(NEST), name)
    assert found is not None
    return found


def test_a_length_that_the_loop_writes_is_refused() -> None:
    require_stable_extent(loop("i"))
    for loops in ((loop("j"),), (loop("i"), loop("j"))):
        with pytest.raises(ScheduleError, match="runs is read from n, which the loop writes"):
            require_stable_extent(*loops)


def test_a_fold_that_starts_further_out_knows_its_elements() -> None:
    require_known_starts(loop("i"), Var("x"))
    require_known_starts(loop("k"), Var("k"))
    with pytest.raises(ScheduleError, match="starts before k, on which the iterations of 'i' would depend"):
        require_known_starts(loop("i"), Var("k") + 1)
