"""Programs whose values are indices run at every size, and what they store is made of integers."""

from hypothesis import given, settings, strategies as st

from loopir.interp.interpret import interpret
from loopir.ir.grammar import Store
from loopir.ir.traverse.walk import leaf_paths
from loopir.testing.generate.index_values import index_values
from loopir.testing.generate.strategies import arguments, sizes


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_they_run_at_every_size_and_store_integers(data: st.DataObject) -> None:
    func = data.draw(index_values())
    chosen = data.draw(sizes(func))
    interpret(func, data.draw(arguments(func, chosen)), chosen)
    assert all(p.stmt.buffer.dtype.is_integer for p in leaf_paths(func.body) if isinstance(p.stmt, Store))
