"""Stages placed row by row and in sliding windows: the same values, at any size, interpreted and on the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules

SIZES = [(8, 16), (7, 13), (1, 1), (5, 3)]
Size = Any


def blur(n: Size, m: Size) -> Any:
    A = lp.placeholder((n + 2, m + 2), "float32", name="A")
    h = lp.compute((n + 2, m), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], name="h")
    return lp.compute((n, m), lambda y, x: h[y, x] + h[y + 1, x] + h[y + 2, x], name="v")


def unsharp(n: Size, m: Size) -> Any:
    """Clamped borders; the image, sharpened by its difference from a blur of it."""
    A = lp.placeholder((n, m), "float32", name="A")
    h = lp.compute((n, m), lambda y, x: A[y, lp.maximum(x - 1, 0)] + A[y, x] + A[y, lp.minimum(x + 1, m - 1)], name="h")
    v = lp.compute((n, m), lambda y, x: h[lp.maximum(y - 1, 0), x] + h[y, x] + h[lp.minimum(y + 1, n - 1), x], name="v")
    ratio = lp.compute((n, m), lambda y, x: A[y, x] * 2.0 - v[y, x] / 9.0, name="ratio")
    return lp.compute((n, m), lambda y, x: ratio[y, x] * A[y, x], name="out")


def softmax(n: Size, m: Size) -> Any:
    A = lp.placeholder((n, m), "float32", name="A")
    e = lp.compute((n, m), lambda i, j: lp.exp(A[i, j] - lp.max(A, axis=1)[i]), name="e")
    return e / e.sum(axis=1)[:, None]


def layernorm(n: Size, m: Size) -> Any:
    A = lp.placeholder((n, m), "float32", name="A")
    d = A - lp.mean(A, axis=1)[:, None]
    return d * lp.rsqrt(lp.mean(d * d, axis=1) + 1e-5)[:, None]


def check(program: Callable[[Size, Size], Any], place: Callable[[lp.Schedule], lp.Schedule], symbolic: bool) -> None:
    """Over a ring exactly, and on the CPU as close as vectors of exp are."""
    for n, m in SIZES:
        sizes = {"n": n, "m": m} if symbolic else {}
        s = lp.Schedule(program(*(lp.symbol(x) if symbolic else v for x, v in (("n", n), ("m", m)))))
        placed = place(s)
        (a,) = (x for x in s.func.args if x.access == "in")
        extra = 2 if program is blur else 0
        rng = np.random.default_rng(n)
        array = rng.integers(0, 9, (n + extra, m + extra)).astype(np.float32)
        given = {a.buffer.name: array}
        want = lp.interpret(s.func, given, sizes, domain="ring")
        for one, other in zip(
            want.values(), lp.interpret(placed.func, given, sizes, domain="ring").values(), strict=True
        ):
            assert np.array_equal(one, other)
        (real,) = lp.interpret(s.func, given, sizes).values()
        np.testing.assert_allclose(placed.build("llvm")(array, **sizes), real, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("program", [softmax, layernorm])
def test_rows(program: Callable[[Size, Size], Any], symbolic: bool) -> None:
    check(program, lambda s: schedules.rows(s, lanes=4), symbolic)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("program", [blur, unsharp])
def test_windows(program: Callable[[Size, Size], Any], symbolic: bool) -> None:
    check(program, lambda s: schedules.windows(s, strip=4, lanes=4), symbolic)


def test_a_blur_keeps_three_rows() -> None:
    s = schedules.windows(lp.Schedule(blur(lp.symbol("n"), lp.symbol("m"))), strip=8)
    assert 'alloc("float32[3, m]") as h' in lp.text(s.func)
    assert s.loop("y_1_o").kind == "parallel"


def test_an_unsharp_mask_keeps_three_rows_and_one() -> None:
    s = schedules.windows(lp.Schedule(unsharp(lp.symbol("n"), lp.symbol("m"))), strip=8)
    kept = {
        name: lp.text(s.func).count(f'alloc("float32[{rows}, m]") as {name}') for name, rows in (("h", 3), ("v", 1))
    }
    assert kept == {"h": 1, "v": 1}


@pytest.mark.parametrize(("taps", "asked"), [(2, 1), (3, 1), (9, 1)])
def test_a_ring_is_first_tried_with_the_rows_that_are_read_at_a_time(
    monkeypatch: pytest.MonkeyPatch, taps: int, asked: int
) -> None:
    """Each ring that does not do takes a proof that it does not: rings of 1, 2, ... would take as many as `taps`."""
    x = lp.placeholder((96, 64), name="x")
    h = lp.compute((96, 64), lambda i, j: x[i, j] * 2.0, name="h")
    y = lp.compute((88, 64), lambda i, j: sum((h[i + k, j] for k in range(taps)), 0.0), name="y")
    tried: list[int] = []
    why = lp.Schedule.why

    def counted(s: lp.Schedule, primitive: str, *args: Any, **options: Any) -> Any:
        tried.extend([args[2]] if primitive == "fold_storage" else [])
        return why(s, primitive, *args, **options)

    monkeypatch.setattr(lp.Schedule, "why", counted)
    s = schedules.windows(lp.Schedule(y), strip=8)
    assert f'alloc("float32[{taps}, 64]") as h' in lp.text(s.func)
    assert len(tried) - 1 == asked  # and once whether 16 rows do


def test_each_row_of_a_softmax_is_computed_in_memory_of_its_own() -> None:
    s = schedules.rows(lp.Schedule(softmax(lp.symbol("n"), lp.symbol("m"))))
    assert {x for stage in s.stages for x in s.loops(stage)[:1]} == {s.loops(s.stages[-1])[0]}
    assert s.loop(s.loops(s.stages[-1])[0]).kind == "parallel"
    assert "float32[n" not in lp.text(s.func).split("\n", 1)[1]
