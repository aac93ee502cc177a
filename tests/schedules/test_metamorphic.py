"""What a program is written as does not decide what it costs: predicted times of forms that differ in little.

Each form differs from the plain one in a name, a view, a cheap step, a cast, a unit dimension or one row more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules

BF = "bfloat16"
MOST = 1.3
"""How much more time a form may take than the plain one."""
Make = Callable[[Any], Any]


def softmax(x: Any) -> Any:
    return lp.softmax(x.astype("float32")).astype(x.dtype.name)


def norm(x: Any) -> Any:
    v = x.astype("float32")
    return (v * lp.rsqrt(lp.mean(v * v, axis=1, keepdims=True) + 1e-5)).astype(x.dtype.name)


def product(x: Any) -> Any:
    return lp.relu(x @ lp.placeholder((x.shape[1], 1024), x.dtype.name, name="w"))


def chain(x: Any) -> Any:
    return lp.gelu(x * 2.0 + 1.0)


def column_sums(x: Any) -> Any:
    return lp.sum(x, axis=0)


PROGRAMS: dict[str, Make] = {f.__name__: f for f in (softmax, norm, product, chain, column_sums)}
ROWS, COLUMNS = 4096, 1024


def array(rows: int = ROWS) -> Any:
    return lp.placeholder((rows, COLUMNS), BF, name="x")


def in_batches(make: Make) -> Any:
    return make(lp.placeholder((8, ROWS // 8, COLUMNS), BF, name="x").reshape((ROWS, COLUMNS)))


def split_rows(make: Make) -> Any:
    y = make(array())
    return y.reshape((8, ROWS // 8, *y.shape[1:])) if len(y.shape) == 2 else y


FORMS: dict[str, Callable[[Make], Any]] = {
    "in batches": in_batches,
    "result in batches": split_rows,
    "twice transposed": lambda make: make(array().T.T),
    "a step before": lambda make: make(array() * 0.5),
    "a step after": lambda make: make(array()) * 0.5,
    "named": lambda make: make((array() * 0.5).named("half")),
    "result named": lambda make: (make(array()) * 0.5).named("half"),
    "a cast after": lambda make: make(array()).astype("float16"),
    "a unit dimension": lambda make: make(lp.placeholder((ROWS, 1, COLUMNS), BF, name="x")[:, 0]),
    "a unit dimension after": lambda make: make(array())[None],
    "one row more": lambda make: make(array(ROWS + 1)),
    "a slice": lambda make: make(lp.placeholder((ROWS + 8, COLUMNS), BF, name="x")[8:]),
}


def seconds(y: Any) -> float:
    return lp.predict(schedules.auto(lp.Schedule(y), "cuda", arch="sm_90a"), "cuda", arch="sm_90a").seconds


APART = {("product", "a step before"), ("product", "named")}
"""What is made of an operand in 16 bits before tensor cores take it is a launch of its own: 1.5 x."""


@cache
def plain(name: str) -> float:
    return seconds(PROGRAMS[name](array()))


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(sorted(PROGRAMS)), st.sampled_from(sorted(FORMS)))
def test_no_form_costs_more_than_the_plain_one_on_a_gpu(name: str, form: str) -> None:
    most = 1.6 if (name, form) in APART else MOST
    assert seconds(FORMS[form](PROGRAMS[name])) <= most * plain(name)


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(sorted(PROGRAMS)), st.sampled_from(["in batches", "result in batches", "a unit dimension after"])
)
def test_reshaped_programs_are_as_many_loops_as_plain_ones_on_a_cpu(name: str, form: str) -> None:
    plain, made = (
        schedules.auto(lp.Schedule(y), "llvm") for y in (PROGRAMS[name](array()), FORMS[form](PROGRAMS[name]))
    )
    assert lp.lower(made, "llvm")
    assert len(lp.nests(made.func)) <= len(lp.nests(plain.func))


@pytest.mark.parametrize("dtype", ["float32", BF, "int8"])
def test_a_flat_result_is_stored_where_its_product_is_made(dtype: str) -> None:
    x, w = lp.placeholder((100, 64), dtype, name="x"), lp.placeholder((64, 100), dtype, name="w")
    made = schedules.auto(lp.Schedule(((x @ w) * 2).reshape((100 * 100,))), "llvm")
    assert f"range({100 * 100})" not in str(made)  # in which each result would be looked for
    assert len(made.stages) <= len(schedules.auto(lp.Schedule((x @ w) * 2), "llvm").stages)
