"""Two clashing iterations drawn: each stands once on the grid, whatever the loops and the distance."""

from xml.etree import ElementTree

from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.witness import Witness

LOOPS = st.dictionaries(st.sampled_from("ijkl"), st.integers(-3, 40), max_size=4)


@settings(max_examples=200, deadline=None)
@given(LOOPS, LOOPS, st.sampled_from(["RAW", "WAR", "WAW"]))
def test_both_stand_on_the_grid_and_in_the_picture(first: dict[str, int], second: dict[str, int], kind: str) -> None:
    w = Witness(kind, "a", (1, 2), "s", first, "t", second, {"n": 4})
    lines = w.drawn().splitlines()
    assert [line[:2] for line in lines[-2:]] == ["A:", "B:"]
    grid = "".join(lines[2:-2])
    if first.keys() & second.keys():
        assert (grid.count("A"), grid.count("B")) == (1, 1)
        names = [x.text for x in ElementTree.fromstring(w.svg()).iter("{http://www.w3.org/2000/svg}text")]
        assert "A, B" in names or {"A", "B"} <= set(names)
    else:
        assert not grid
        assert w.svg() == ""


def test_a_refusal_is_drawn() -> None:
    func = lp.parse(
        "def f(n: 'size', a: 'float32[n]'):\n    for i in range(n - 20):\n        a[i + 20] = a[i] + float32(1.0)\n"
    )
    error = lp.Schedule(func).why("parallel", "i")
    assert error is not None
    assert error.witness is not None
    assert error.witness.drawn().splitlines() == [
        "  i",
        "   0   1   ~  19  20  21",
        "   A   .   ~   .   B   .",
        "A: a at (i=0) writes a[20]",
        "B: a at (i=20) reads it, after A as the program is now",
    ]
    page = error._repr_html_()
    assert "<svg" in page
    assert "parallel(&quot;i&quot;)" in page
