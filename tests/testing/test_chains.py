"""Programs of chained folds run at every size, and each fold but the first needs the end of another one."""

from hypothesis import given, settings, strategies as st

from loopir.interp.interpret import interpret
from loopir.ir.grammar import Reduce
from loopir.ir.traverse.walk import leaf_paths, loaded_buffers
from loopir.testing.generate.chains import chained_folds, partial_folds
from loopir.testing.generate.strategies import arguments, sizes


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_they_run_at_every_size(data: st.DataObject) -> None:
    func = data.draw(st.one_of(chained_folds(), partial_folds()))
    chosen = data.draw(sizes(func))
    interpret(func, data.draw(arguments(func, chosen)), chosen)


@settings(max_examples=25, deadline=None)
@given(chained_folds())
def test_a_fold_is_read_by_what_follows(func) -> None:
    leaves = [p.stmt for p in leaf_paths(func.body)]
    folded = {b.name for s in leaves if isinstance(s, Reduce) for b in s.buffers}
    assert any(loaded_buffers(s) & folded for s in leaves)
