"""Each family for late GPUs runs, with boxes of as few elements as the copy engine takes."""

import pytest
from hypothesis import Phase, given, settings, strategies as st

from loopir.interp.interpret import interpret
from loopir.testing.generate.families import FAMILIES, forms
from loopir.testing.generate.gpu_families import BOXES, FLOATS, GPU_FAMILIES
from loopir.testing.generate.strategies import arguments, sizes

NAMES = [f.__name__ for f in GPU_FAMILIES]


def test_they_are_among_all_families() -> None:
    assert {*NAMES, *BOXES, *FLOATS} <= FAMILIES.keys()


@pytest.mark.parametrize("family", NAMES)
def test_a_family_runs_at_every_size(family: str) -> None:
    @settings(max_examples=3, deadline=None, database=None, phases=[Phase.generate])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        func = data.draw(forms((family,), types=("float32",)))
        chosen = data.draw(sizes(func))
        interpret(func, data.draw(arguments(func, chosen)), chosen)

    run()
