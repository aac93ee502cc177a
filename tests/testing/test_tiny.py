"""Tiny programs run at every size with all accesses in bounds, and their accesses meet."""

from hypothesis import given, settings, strategies as st

from loopir.interp.interpret import interpret
from loopir.ir.grammar import Int
from loopir.ir.traverse.walk import loops
from loopir.testing.generate.strategies import arguments, sizes
from loopir.testing.generate.tiny import MAX_EXTENT, tiny, windows


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_they_run_at_every_size(data: st.DataObject) -> None:
    func = data.draw(st.one_of(tiny(), windows()))
    chosen = data.draw(sizes(func))
    interpret(func, data.draw(arguments(func, chosen)), chosen)


@settings(max_examples=40, deadline=None)
@given(tiny(nests=1, depth=2, guards=False))
def test_loops_are_short_and_as_deep_as_asked(func) -> None:
    for loop in loops(func.body):
        assert not isinstance(loop.extent, Int) or loop.extent.value <= MAX_EXTENT + 2
        assert len([*loops((loop,))]) <= 2
