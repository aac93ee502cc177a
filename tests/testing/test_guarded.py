"""What stands under guards runs at every size."""

from hypothesis import given, settings, strategies as st

from loopir.interp.interpret import interpret
from loopir.testing.generate.guarded import guarded
from loopir.testing.generate.strategies import arguments, sizes


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_stands_under_guards_runs_at_every_size(data: st.DataObject) -> None:
    func = data.draw(guarded())
    chosen = data.draw(sizes(func))
    interpret(func, data.draw(arguments(func, chosen)), chosen)
