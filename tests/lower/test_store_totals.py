"""Totals over an initial value that was stored right before: one store, and what the program means."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
from loopir.ir.grammar import Func, Reduce, Store
from loopir.ir.traverse.walk import statements
from loopir.lower.pipeline import lower

RNG = np.random.default_rng(0)
HEAD = 'def f(x: "float32[24, 64]", y: "out float32[24]"):\n'


def lowered(text: str) -> tuple[Func, Func]:
    """The program, and what becomes of it; both give the same."""
    func = lp.parse(text)
    made = lower(func, "cuda")
    x = RNG.integers(-9, 9, (24, 64)).astype(np.float32)
    want, got = (lp.interpret(f, (x,)) for f in (func, made))
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, err_msg=lp.text(made))
    return func, made


def writes(func: Func, buffer: str = "y") -> list[str]:
    """The kinds of the statements that write it."""
    leaves = [s for s in statements(func.body) if isinstance(s, Store | Reduce)]
    return [type(s).__name__ for s in leaves if buffer in (b.name for b in s.buffers)]


@pytest.mark.parametrize("fold", ["sum({}, over=k, init=0.5)", "max({}, over=k, init=-1.0)"])
def test_a_row_by_threads_is_stored_once(fold: str) -> None:
    rows = '    for i in bind("blockIdx.x", 24):\n        for k in bind("threadIdx.x", 64):\n'
    _, made = lowered(HEAD + rows + f"            y[i] = {fold.format('x[i, k]')}\n")
    assert writes(made) == ["Store"]


def test_steps_of_a_loop_store_each_row_once() -> None:
    steps = '    for b in bind("blockIdx.x", 1):\n        for i in range(24):\n'
    steps += '            for k in bind("threadIdx.x", 64):\n'
    _, made = lowered(HEAD + steps + "                y[i] = sum(x[i, k], over=k, init=0.0)\n")
    assert writes(made) == ["Store"]


def test_rows_that_a_thread_keeps_are_stored_once() -> None:
    rows = '    for b in bind("blockIdx.x", 6):\n        for k in bind("threadIdx.x", 64):\n'
    rows += "            for i in unroll(4):\n"
    _, made = lowered(HEAD + rows + "                y[4 * b + i] = sum(x[4 * b + i, k], over=k, init=0.0)\n")
    assert writes(made) == ["Store"]


def test_the_largest_and_its_place_are_stored_once() -> None:
    x = lp.placeholder((24, 64), "float32", name="x")
    s = lp.Schedule([lp.max(x, axis=1).named("y"), lp.argmax(x, axis=1).named("z")])
    for stage in s.stages:
        if s.reduced(stage):
            rows, columns = s.loops(stage)
            s = s.bind(rows, "blockIdx.x").bind(columns, "threadIdx.x")
    made = lower(s.func, "cuda")
    given = RNG.integers(-9, 9, (24, 64)).astype(np.float32)
    got, want = (lp.interpret(f, (given,)) for f in (made, s.func))
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value)
    assert "Reduce" not in writes(made, "y") + writes(made, "z")


def test_a_total_is_folded_into_what_is_there() -> None:
    """Where the initial value is read in between, or another one than that is stored."""
    rows = '    for i in bind("blockIdx.x", 24):\n        for k in bind("threadIdx.x", 64):\n'
    first = '    for i in bind("blockIdx.x", 24):\n        y[i] = x[i, 3]\n'
    _, made = lowered(HEAD + first + rows + "            y[i] = sum(x[i, k], over=k)\n")
    assert writes(made) == ["Store", "Reduce"]


def test_an_element_that_several_iterations_fold_into_is_set_once() -> None:
    """Its initial value is stored in each iteration before the first of them folds."""
    body = (
        '    for b in bind("blockIdx.x", 1):\n'
        "        for n in range(2):\n            for i in range(24):\n                y[i] = 0.0\n"
        "        for m in range(2):\n            for j in range(24):\n"
        '                for k in bind("threadIdx.x", 64):\n'
        "                    y[j] = sum(x[j, k], over=k)\n"
    )
    _, made = lowered(HEAD + body)
    assert writes(made) == ["Store", "Reduce"]
