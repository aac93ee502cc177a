"""unwrap: what wraps round a period is read where it was, at every size, offset and period; other remainders stay."""

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp
import schedules
from loopir.errors import ScheduleError
from loopir.schedule.primitives.arithmetic.unwrap import unwrap


@st.composite
def stencils(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A stencil on a torus of one or two dimensions, of known sizes and not; and its sizes."""
    rank = draw(st.integers(1, 2))
    sizes = draw(st.lists(st.sampled_from(("n", "m", "3", "5")), min_size=rank, max_size=rank))
    names = "ij"[:rank]
    terms: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        offsets = [draw(st.integers(-6, 6)) for _ in names]
        turns = [draw(st.sampled_from(("{v} + {o}", "{o} - {v}", "{v} * 2 + {o}"))) for _ in names]
        at = [f"({t.format(v=v, o=o)}) % {n}" for t, v, o, n in zip(turns, names, offsets, sizes, strict=True)]
        terms.append(f"A[{', '.join(at)}]")
    shape = ", ".join(sizes)
    symbols = [x for x in ("n", "m") if x in sizes]
    head = "".join(f'{x}: "size", ' for x in symbols)
    loops = "".join(
        f"{'    ' * (d + 1)}for {v} in range({n}):\n" for d, (v, n) in enumerate(zip(names, sizes, strict=True))
    )
    line = f"{'    ' * (rank + 1)}B[{', '.join(names)}] = {' - '.join(terms)}\n"
    return f'def f({head}A: "float32[{shape}]", B: "out float32[{shape}]"):\n{loops}{line}', symbols


@settings(max_examples=40, deadline=None)
@given(stencils(), st.integers(0, 9))
def test_neighbours_on_a_torus_are_read_as_before(program: tuple[str, list[str]], seed: int) -> None:
    source, symbols = program
    before = lp.parse(source)
    try:
        after = unwrap(before, "B")
    except ScheduleError:
        return
    for size in (0, 1, 2, 7):
        assert_same(before, after, dict.fromkeys(symbols, size), seed)


def test_neighbours_are_taken_at_known_and_unknown_sizes() -> None:
    for source in (
        'def f(A: "float32[5]", B: "out float32[5]"):\n    for i in range(5):\n        B[i] = A[(i + 5) % 5]\n',
        'def f(A: "float32[5]", B: "out float32[5]"):\n    for i in range(5):\n        B[i] = A[(i - 5) % 5]\n',
        'def f(n: "size", A: "int8[n]", B: "out int8[n]"):\n    for i in range(n):\n        B[i] = A[(i - 1) % n]\n',
    ):
        before = lp.parse(source)
        after = unwrap(before, "B")
        assert "%" not in lp.text(after)
        assert_same(before, after, {"n": 4} if "size" in source else {})


@pytest.mark.parametrize("at", ["(i + 2) % n", "(i - 2) % n", "i * 3 % n", "(i + 1) % m"])
def test_what_may_be_further_away_is_refused(at: str) -> None:
    head = 'def f(n: "size", m: "size", A: "float32[n + m]", B: "out float32[n]"):'
    source = f"{head}\n    for i in range(n):\n        B[i] = A[{at}]\n"
    with pytest.raises(ScheduleError, match="no subscript of B wraps round within one period"):
        unwrap(lp.parse(source), "B")


def test_vectors_of_a_stencil_on_a_torus_divide_nothing() -> None:
    n = lp.symbol("n")
    x = lp.placeholder((n, n), "float32", name="x")
    t = lp.compute((n, n), lambda i, j: x[(i - 1) % n, j] + x[i, (j + 1) % n], name="t")
    s = schedules.auto(lp.Schedule(t), "llvm")
    assert " % " not in str(s)
    assert_same(lp.Schedule(t).func, s.func, {"n": 70})


def test_subscripts_from_memory_stay_what_they_are() -> None:
    head = 'def f(n: "size", ix: "int32[n]", A: "float32[n]", B: "out float32[n]"):\n    for i in range(n):\n        '
    before = lp.parse(f"{head}B[i] = A[ix[(i + 1) % n] % n] + A[(i + 1) % n]\n")
    after = unwrap(before, "B")
    assert "A[ix[(i + 1) % n] % n] + select(n <= i + 1" in lp.text(after)
    assert_same(before, after, {"n": 5})


def test_a_loop_over_quotient_and_remainder_is_left_to_views() -> None:
    head = 'def f(A: "float32[2, 64]", B: "out float32[128]"):'
    source = f"{head}\n    for j in range(128):\n        B[j] = A[j // 64, j % 64]\n"
    with pytest.raises(ScheduleError, match="no subscript of B wraps round within one period"):
        unwrap(lp.parse(source), "B")
