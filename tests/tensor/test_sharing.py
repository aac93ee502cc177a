"""What is read twice is not written twice: programs grow as they were written, whatever they share, in every room."""

import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.codegen.cuda.emit import emit
from loopir.errors import ExprError, ParseError
from loopir.ir.grammar import Store
from loopir.ir.traverse.measure import nesting, written_size
from loopir.ir.traverse.walk import nodes

GROWTH = 2.4
"""How many times as large a program of twice as many steps is, at most: stages are cut off at whole steps, so that it
is not two. Were what is shared written out, each single step would double it."""
GROWN = 1000
"""Nodes of a program, at most, for each operation that was written: a stage is long before it is cut off."""
STEPS_TAKEN = 20
"""Each of which reads the one before at least twice: a tree of them would have 2^20 leaves."""


def leaky(x: lp.Tensor) -> lp.Tensor:
    return lp.where(x > 0, x, x * 0.01)


STEPS: dict[str, Callable[[Any], Any]] = {
    "leaky relu": leaky,
    "square": lambda x: x * x,
    "cubic": lambda x: x * x * 0.25 + x,
    "gelu": lp.gelu,
    "parentheses": lambda x: lp.relu(0.5 - x),
    "window": lambda x: lp.pad((x[1:] + x[:-1]) * 0.5, [(0, 1)]),
    "reversed": lambda x: x[::-1] - x,
}
IN_PLACE = [name for name in STEPS if name not in ("window", "reversed")]


def size(func: lp.Func) -> int:
    return sum(1 for _ in nodes(func))


@cache
def repeated(name: str, times: int) -> lp.Schedule:
    x = lp.placeholder((8,), "float32", name="x")
    for _ in range(times):
        x = STEPS[name](x)
    return lp.Schedule(x)


def result(s: lp.Schedule, target: str) -> Any:
    return s.build(target)(np.linspace(-0.5, 0.5, 8, dtype=np.float32))


def twice(measure: Callable[[int], int], steps: int) -> None:
    """Twice as many steps are about twice as much."""
    assert measure(2 * steps) <= GROWTH * measure(steps)


@pytest.mark.parametrize("name", STEPS)
def test_many_steps_are_linear(name: str) -> None:
    twice(lambda steps: size(repeated(name, steps).func), STEPS_TAKEN)
    twice(lambda steps: len(lp.text(repeated(name, steps).func)), STEPS_TAKEN)
    twice(lambda steps: size(lp.lower(schedules.auto(repeated(name, steps), "llvm"), "llvm")[0]), STEPS_TAKEN)
    s = repeated(name, STEPS_TAKEN)
    assert lp.parse(lp.text(s.func)) == s.func


@pytest.mark.parametrize("name", ["leaky relu", "window"])
def test_many_steps_are_linear_on_a_gpu(name: str) -> None:
    made = {n: lp.lower(schedules.auto(repeated(name, n), "cuda"), "cuda")[0] for n in (10, 20)}
    twice(lambda steps: size(made[steps]), 10)
    twice(lambda steps: len(emit(made[steps]).source), 10)


@pytest.mark.parametrize("name", STEPS)
def test_what_is_stored_on_the_way_means_the_same(name: str) -> None:
    s = repeated(name, 10)
    assert len(s.stages) > 1 or name == "parentheses"
    assert np.allclose(result(s, "interpret"), result(schedules.auto(s, "llvm"), "llvm"), atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_element_in_compute_is_linear_too(name: str) -> None:
    A = lp.placeholder((8,), "float32", name="A")

    def element(i: Any) -> Any:
        e = A[i]
        for _ in range(STEPS_TAKEN):
            e = STEPS[name](e)
        return e

    s = lp.Schedule(lp.compute((8,), element, name="C"))
    assert size(s.func) <= GROWTH * size(repeated(name, STEPS_TAKEN).func)
    whole = result(repeated(name, STEPS_TAKEN), "interpret")
    assert np.array_equal(result(s, "interpret"), whole, equal_nan=True)


def test_an_element_under_a_sum_is_stored_along_the_loop_of_the_sum() -> None:
    A = lp.placeholder((8,), "float32", name="A")
    k = lp.reduce_axis(8, name="k")

    def summed(i: Any) -> Any:
        e = A[k] * 0.5
        for _ in range(14):
            e = e * e
        return lp.sum(e + A[i], axis=k)

    s = lp.Schedule(lp.compute((8,), summed, name="C"))
    assert "t" in s.stages
    assert size(s.func) < 10_000
    assert np.allclose(result(s, "interpret"), 8 * np.linspace(-0.5, 0.5, 8), atol=1e-6)


def test_what_a_guard_keeps_in_its_array_is_not_stored_without_it() -> None:
    A = lp.placeholder((8,), "float32", name="A")

    def element(i: Any, times: int) -> Any:
        e = A[i - 1]
        for _ in range(times):
            e = e * e
        return lp.where(i >= 1, e, 0.0)

    assert result(lp.Schedule(lp.compute((8,), lambda i: element(i, 10))), "interpret")[0] == 0
    with pytest.raises(ExprError, match="no part of it can be stored, as its subscripts may be outside"):
        lp.compute((8,), lambda i: element(i, 40))


def test_an_index_that_doubles_is_simplified_or_refused() -> None:
    A = lp.placeholder((8,), "float32", name="A")

    def doubled(i: Any) -> Any:
        e = i
        for _ in range(60):
            e = e + e
        return A[e % 8]

    s = lp.Schedule(lp.compute((1,), doubled))
    assert size(s.func) < 100
    e = lp.symbol("n") + 1

    def grown(e: Any) -> Any:
        for _ in range(60):
            e = e * e // 3 + e
        return e

    with pytest.raises(ExprError, match=r"an index of .* operations, where 512 are the most"):
        grown(e)


def test_what_two_products_read_is_stored_once() -> None:
    x, a, b = (lp.placeholder((8, 8), "float32", name=n) for n in "xab")
    c = lp.gelu(x)
    y = c @ a + c @ b
    assert lp.Schedule(y).stages == ("t", "matmul", "matmul_1", "out")
    given = [np.random.default_rng(0).standard_normal((8, 8), dtype=np.float32) for _ in "xab"]
    whole = lp.Schedule(lp.gelu(x) @ a + lp.gelu(x) @ b).build("interpret")(*given)
    assert np.array_equal(lp.Schedule(y).build("interpret")(*given), whole)


@pytest.mark.parametrize(("rows", "stored"), [(16, True), (4, False)])
@pytest.mark.parametrize("times", ["matmul", "einsum"])
def test_what_a_product_reads_for_both_of_its_factors_is_stored_once(times: str, rows: int, stored: bool) -> None:
    x = lp.placeholder((3, rows, 8), "float32", name="x")
    y = x * 2.0 + 1.0
    made = y @ lp.swapaxes(y, -1, -2) if times == "matmul" else lp.einsum("bik,bjk->bij", y, y)
    s = lp.Schedule(made)
    assert ("t" in s.stages) is stored
    given = np.random.default_rng(0).standard_normal((3, rows, 8), dtype=np.float32)
    want = given * 2 + 1
    assert np.allclose(s.build("interpret")(given), want @ want.swapaxes(-1, -2), atol=1e-4)
    plain = lp.Schedule(x.astype("float64") @ lp.swapaxes(x.astype("float64"), -1, -2))
    assert plain.stages == ("matmul",), "a conversion is made where the element is read"


@pytest.mark.parametrize("steps", [4, 12])
def test_the_state_of_a_recurrence_is_stored_and_not_its_terms(steps: int) -> None:
    """A step of a march along rays: three terms read the state, and are read twice themselves."""
    x, a, b, c = (lp.placeholder((8,), "float32", name=n) for n in "xabc")
    t = x
    for _ in range(steps):
        p, q, r = t * a, t * b, t * c - 3.0
        t = t + lp.minimum(lp.sqrt(p * p + q * q + r * r) - 1.0, q + 1.5)
    s = lp.Schedule(t)
    assert len(s.stages) <= steps, "a step has a stage for each of its terms"
    march = np.linspace(-0.5, 0.5, 8), *np.random.default_rng(0).uniform(-1, 1, (3, 8))
    want, *along = march
    for _ in range(steps):
        p, q, r = want * along[0], want * along[1], want * along[2] - 3.0
        want = want + np.minimum(np.sqrt(p * p + q * q + r * r) - 1.0, q + 1.5)
    got = s.build("interpret")(*(v.astype(np.float32) for v in march))
    assert np.allclose(got, want, atol=1e-4)


def test_inlining_stops_where_a_reader_gets_long() -> None:
    x = lp.placeholder((8,), "float32", name="x")
    for _ in range(20):
        x = leaky(x).named("t")
    s = schedules.inlined(lp.Schedule(x))
    assert 1 < len(s.stages) <= 10
    refused = [s.why("compute_inline", stage) for stage in s.stages[:-1]]
    assert all("operations, in" in str(error) and "levels, written out" in str(error) for error in refused)


# ---------------------------------------------------------------- depth


def test_a_sum_of_900_terms_goes_through_every_room() -> None:
    terms = " + ".join(["A[i]"] * 900)
    s = lp.Schedule(
        lp.parse(f'def f(A: "float32[8]", B: "out float32[8]"):\n    for i in range(8):\n        B[i] = {terms}\n')
    )
    assert lp.parse(lp.text(s.func)) == s.func
    assert np.allclose(result(s, "interpret"), result(schedules.auto(s, "llvm"), "llvm"), rtol=1e-4)
    assert emit(lp.lower(schedules.auto(s, "cuda"), "cuda")[0]).source.count("+") >= 899


@pytest.mark.parametrize("count", [200])
def test_many_stages_build_on_both_targets(count: int) -> None:
    x = lp.placeholder((8,), "float32", name="x")
    for n in range(count):
        x = lp.compute((8,), lambda i, x=x: x[i] + 1.0, name=f"s{n}")
    s = lp.Schedule(x)
    assert len(s.stages) == count
    assert lp.parse(lp.text(s.func)) == s.func
    for target in ("interpret", "llvm"):
        assert np.allclose(result(s, target), np.linspace(-0.5, 0.5, 8) + count)
    assert emit(lp.lower(s, "cuda")[0]).source


def test_what_is_too_deep_is_an_error_in_words_and_the_limit_is_as_before() -> None:
    before = sys.getrecursionlimit()
    calls = "exp(" * 3000 + "A[i]" + ")" * 3000
    with pytest.raises(ParseError):
        lp.parse(f'def f(A: "float32[8]", B: "out float32[8]"):\n    for i in range(8):\n        B[i] = {calls}\n')
    x = lp.placeholder((8,), "float32", name="x")
    for n in range(1200):
        x = lp.compute((8,), lambda i, x=x: x[i] + 1.0, name=f"s{n}")
    with pytest.raises(match="a program of 1201 stages, where 1000 are the most"):
        lp.Schedule(x)
    assert sys.getrecursionlimit() == before


def test_threads_build_deep_programs_at_once() -> None:
    before, found = sys.getrecursionlimit(), list[Any]()
    threads = [
        threading.Thread(target=lambda: found.append(result(repeated("cubic", STEPS_TAKEN), "interpret"))) for _ in "ab"
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 2
    assert np.array_equal(*found, equal_nan=True)
    assert sys.getrecursionlimit() == before


# ---------------------------------------------------------------- any DAG


@st.composite
def dags(draw: st.DrawFn) -> tuple[lp.Tensor, int]:
    """A value made by many steps, each of which may read the last values that were made, and how many steps."""
    values: list[Any] = [lp.placeholder((6,), "float32", name="x") * 0.25]
    count = draw(st.integers(8, 24))
    for _ in range(count):
        a, b = (draw(st.sampled_from(values[-3:])) for _ in "ab")
        kind = draw(st.integers(0, 6))
        values.append(
            [
                lambda a, b: a * b,
                lambda a, b: a * b * 0.5 + a,
                lambda a, b: lp.where(a > b, a, b * 0.5),
                lambda a, b: lp.maximum(a, 0.5 - b),
                lambda a, b: lp.tanh(a) - b,
                lambda a, b: lp.pad(a[1:], [(1, 0)]) + b,
                lambda a, b: a - lp.compute((6,), lambda i: b[5 - i] * b[i]),
            ][kind](a, b)
        )
    return values[-1], count


@given(dags())
@settings(max_examples=4, deadline=None)
def test_any_dag_grows_as_it_was_written_and_means_the_same(made: tuple[lp.Tensor, int]) -> None:
    out, count = made
    s = lp.Schedule(out)
    assert size(s.func) <= (count + 8) * GROWN
    assert all(nesting(n) < 160 and written_size(n) < 8192 for n in nodes(s.func) if isinstance(n, Store))
    x = np.linspace(-1, 1, 6, dtype=np.float32)
    want = s.build("interpret")(x)
    assert np.allclose(s.build("llvm")(x), want, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert size(lp.lower(schedules.inlined(s), "cuda")[0]) <= 4 * (count + 8) * GROWN
