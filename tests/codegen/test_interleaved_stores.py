"""Stores of the elements of short records are one store of a vector, and mean what each by itself does."""

import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp

ELEMENTS = 24
"""Records of an array."""
KINDS = ("float32", "float64", "float16", "int8", "int64", "bool")


@st.composite
def records(draw: st.DrawFn) -> tuple[lp.Schedule, np.ndarray]:
    """A vectorized loop that stores each element of its records, in any order, of others and of those it stores."""
    kind, count, lanes = draw(st.sampled_from(KINDS)), draw(st.integers(2, 5)), draw(st.sampled_from([2, 4, 8, 12]))
    order = draw(st.permutations(range(count)))[: draw(st.integers(count - 1, count))]
    reads = [draw(st.sampled_from(["A[i]", f"A[i + {ELEMENTS}]", "A[0]", f"X[i * {count}]", "X[i]"])) for _ in order]
    stores = [f"X[i * {count} + {n}] = {read}" for n, read in zip(order, reads, strict=True)]
    first = draw(st.integers(0, 3))
    f = lp.parse("\n".join([
        f'def f(A: "{kind}[{2 * ELEMENTS}]", X: "inout {kind}[{ELEMENTS * count + 3}]"):',
        f"    for i in range({ELEMENTS}):",
        *(f"        {x.replace('] =', f' + {first}] =', 1)}" for x in stores),
    ]))  # fmt: skip
    s = lp.Schedule(f).split("i", lanes)
    lane = s.last.loops[1]
    s = s.vectorize(lane) if s.why("vectorize", lane) is None else s
    numbers = np.arange(2 * ELEMENTS + ELEMENTS * count + 3) * 7 % 101
    return s, (numbers % 2 == 1 if kind == "bool" else numbers.astype(kind))


@settings(max_examples=60, deadline=None)
@given(records())
def test_they_mean_what_each_store_does(drawn: tuple[lp.Schedule, np.ndarray]) -> None:
    s, numbers = drawn
    a, before = numbers[: 2 * ELEMENTS], numbers[2 * ELEMENTS :]
    wanted = lp.interpret(s.func, {"A": a, "X": before.copy()})["X"]
    got = before.copy()
    s.build("llvm")(a, got)
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("count", [2, 3, 4])
def test_they_are_one_store(count: int) -> None:
    body = "".join(f"        X[i * {count} + {n}] = A[i] + {n}.0\n" for n in reversed(range(count)))
    s = lp.Schedule(lp.parse(f'def f(A: "float32[8]", X: "out float32[{8 * count}]"):\n    for i in range(8):\n{body}'))
    code = s.vectorize("i").build("llvm").source
    assert len(re.findall(r"\bstore <\d+ x float>", code)) == 1
    assert f"store <{8 * count} x float>" in code


def test_one_whose_place_another_stored_is_by_itself() -> None:
    f = lp.parse("""
def f(X: "inout int32[24]"):
    for i in vectorize(8):
        X[opaque(int64(X[0])) + i * 2] = 4
        X[opaque(int64(X[0])) + i * 2 + 1] = 5
""")
    x = np.zeros(24, np.int32)
    wanted = lp.interpret(f, {"X": x.copy()})["X"]
    lp.Schedule(f).build("llvm")(x)
    assert x.tolist() == wanted.tolist()
    assert x[[0, 1, 5, 19]].tolist() == [4, 0, 5, 5]


def test_one_that_reads_what_another_stored_is_by_itself() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(X: "inout float32[16]"):
    for i in range(8):
        X[i * 2 + 1] = X[i * 2]
        X[i * 2] = X[i * 2 + 1] + 1.0
""")
    ).vectorize("i")
    x = np.arange(16, dtype=np.float32)
    s.build("llvm")(x)
    assert (x == np.repeat(np.arange(0, 16, 2), 2) + np.tile([1.0, 0.0], 8)).all()
    assert "store <16 x float>" not in s.build("llvm").source
