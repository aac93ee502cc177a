"""Steps spell themselves as the Python source that takes them again."""

from hypothesis import given, strategies as st

import loopir as lp
from loopir.schedule.core.trace import Step, script, spell

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 64) + 1, (1 << 64) - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(VALUES)
def test_a_value_is_spelled_as_its_source(value: object) -> None:
    assert eval(spell(value)) == value


@given(st.text(alphabet=st.characters(exclude_characters="\"'\\", categories=("L", "N"))))
def test_a_text_is_in_double_quotes(value: str) -> None:
    assert spell(value) == f'"{value}"'


def test_a_script_takes_the_steps_again_and_shows_composites_as_comments() -> None:
    s = lp.Schedule(lp.parse('def f(A: "inout float32[8, 8]"):\n    for i, j in grid(8, 8):\n        A[i, j] = 0.0\n'))
    done = s.tile("i", "j", 4, 2).parallel("i_o")
    scope = {"s": s}
    exec(script(done.trace), scope)
    assert scope["s"].func == done.func
    composite = Step("both", steps=(Step("parallel", ("i",)),))
    assert script([composite]) == '# both():\ns = s.parallel("i")\n'
