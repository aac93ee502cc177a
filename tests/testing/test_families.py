"""Every family of programs runs."""

import pytest
from hypothesis import Phase, given, settings, strategies as st

from loopir.interp.interpret import interpret
from loopir.testing.generate.families import FAMILIES, forms
from loopir.testing.generate.strategies import arguments, sizes


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_runs(family: str) -> None:
    @settings(max_examples=8, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        func = data.draw(forms((family,), types=("float32", "int32", "uint32")))
        chosen = data.draw(sizes(func))
        interpret(func, data.draw(arguments(func, chosen)), chosen)

    run()
