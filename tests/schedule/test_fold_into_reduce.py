"""fold_into_reduce: updates of every form keep their meaning, in random nests and by example; refusals by message."""

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

from loopir.errors import ScheduleError
from loopir.ir.grammar import Reduce
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import leaf_paths, leaf_paths_of
from loopir.schedule.primitives.reduction.fold_into_reduce import fold_into_reduce

LOOPS = (("i", "n"), ("j", "i + 1"), ("k", "4"))
UPDATES = (
    "{x} + {e}", "{e} + {x}", "{x} - {e}", "{x} - ({e} - {f})", "{e} + {x} - {f}", "{x} * {e}", "{e} * ({x} * {f})",
    "maximum({x}, {e})", "minimum({e}, {x})", "{e} - {x}", "{x} + {x}", "{x} * {e} + {f}", "{x}", "{e}",
)  # fmt: skip
ELEMENTS = ("a[i, j]", "a[j, i]", "a[k, j]", "b[i]", "b[j + 1]", "b[0]")


@st.composite
def updates(draw: st.DrawFn) -> str:
    """A nest around one update, under a guard perhaps, and perhaps a statement beside it."""
    element = st.sampled_from(ELEMENTS)
    x, e, f = draw(element), draw(element), draw(element)
    t = draw(st.sampled_from(("float32", "int32")))
    line = f'{x}: "s" = ' + draw(st.sampled_from(UPDATES)).format(x=x, e=f"{e} * 2", f=f)
    lines = [f"    {'    ' * d}for {v} in range({n}):" for d, (v, n) in enumerate(LOOPS)]
    inner = ["if j < k or i == 1:", f"    {line}"] if draw(st.booleans()) else [line]
    inner += [f"b[{draw(st.sampled_from('ijk'))}] = {draw(element)}"] * draw(st.booleans())
    head = f'def f(n: "size", a: "inout {t}[8, 8]", b: "inout {t}[8]"):'
    return "\n".join([head, *lines, *(f"{'    ' * 4}{x}" for x in inner)])


@settings(max_examples=40, deadline=None)
@given(updates(), st.integers(0, 9))
def test_an_update_as_a_reduction_is_the_same(source: str, seed: int) -> None:
    before = parse(source)
    try:
        after = fold_into_reduce(before, "s")
    except ScheduleError:  # no update by a monoid
        return
    (s,) = (p.stmt for p in leaf_paths_of(after) if p.stmt.label == "s")
    assert isinstance(s, Reduce)
    for n in (0, 1, 4):
        assert_same(before, after, {"n": n}, seed)


@pytest.mark.parametrize("update", UPDATES[:9])
def test_every_update_by_a_monoid_is_seen(update: str) -> None:
    line = update.format(x="c[0]", e="a[i]", f="a[0]")
    f = parse(f'def f(a: "float64[8]", c: "inout float64[1]"):\n    for i in range(8):\n        c[0] = {line}')
    (s,) = (p.stmt for p in leaf_paths(fold_into_reduce(f, "c").body))
    assert isinstance(s, Reduce)
    assert s.over == ("i",)


def test_an_update_that_is_a_reduction_is_over_the_loops_inside_its_memory() -> None:
    f = parse("""
def f(n: "size", a: "float32[n, 8]", c: "out float32[n]"):
    for i in range(n):
        with alloc("float32") as t:
            t = 0.0
            for k in range(8):
                t += a[i, k]
            c[i] = t
""")
    new = fold_into_reduce(f, "t_1")
    (over,) = (p.stmt.over for p in leaf_paths_of(new) if isinstance(p.stmt, Reduce))
    assert over == ("k",)
    with pytest.raises(ScheduleError, match=r"already is a reduction over all loops .* not depend on: k"):
        fold_into_reduce(new, "t_1")


def test_of_several_statements_one_is_to_be_named() -> None:
    f = parse('def f(c: "out float32[2]"):\n    c[0]: "one" = 1.0\n    c[1]: "two" = 1.0')
    with pytest.raises(ScheduleError, match="'c' is several statements: one and two"):
        fold_into_reduce(f, "c")


def test_numbers_without_negatives_are_not_taken_away() -> None:
    f = parse('def f(a: "uint8[8]", c: "inout uint8[1]"):\n    for i in range(8):\n        c[0] = c[0] - a[i]')
    with pytest.raises(ScheduleError, match=r"c does not update c\[0\]"):
        fold_into_reduce(f, "c")
