"""Folds whose indices ascend: fewer comparisons, the same result for every order, tie, infinity and NaN."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.ir.grammar import Func, Reduce
from loopir.ir.ops import ASCENDING, MONOIDS
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import leaf_paths_of, replace, replace_stmt
from loopir.lower.common.order_folds import order_folds
from loopir.lower.target import TARGETS

NUMBERS = (-np.inf, -1.0, -0.0, 0.0, 2.0, np.inf, np.nan)


def folds(index: str, extent: int = 4, other: str = "", init: str = "-inf, 2147483647") -> Func:
    return parse(f"""
def f(A: "float32[3, {extent}, 8]", V: "out float32[3, 8]", I: "out int32[3, 8]"):
    for r in range(3):
        for k in range({extent}):
            for l in range(8):
                V[r, l], I[r, l] = argmax(A[r, k, l], int32({index}), over=k, init=({init}))
{other}""")


def monoids(func: Func) -> list[str]:
    made = order_folds(func, TARGETS["llvm"])
    return [p.stmt.monoid.name for p in leaf_paths_of(made) if isinstance(p.stmt, Reduce)]


@pytest.mark.parametrize("index", ["k * 8 + l", "k * 9 + l + 3"])
def test_what_ascends_is_folded_so(index: str) -> None:
    assert monoids(folds(index)) == ["argmax_ascending"]


@pytest.mark.parametrize(
    "func",
    [
        folds("k"), folds("31 - k * 8 - l"), folds("k + l * 4"), folds("k * 8 + l + r"), folds("k * 7 + l"),
        folds("k * 8 + l - 1"), folds("k * 8 + l", init="0.0, 2147483647"), folds("k * 8 + l", init="-inf, 5"),
        folds("k * 715827882 + l"), folds("int64(int8(k * 8 + l))", extent=40),
        folds("k * 8 + l", other="    V[0, 0] = 1.0"),
    ],
    ids=range(11),
)  # fmt: skip
def test_what_may_not_ascend_or_start_from_the_identity_is_left(func: Func) -> None:
    assert monoids(func) == ["argmax"]


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_combination_is_the_same_where_indices_ascend(name: str) -> None:
    """Of an earlier number, or of the identity, with a later one."""
    x = np.array(list(product(NUMBERS, repeat=2)), "float32")
    for first in (0, 2**31 - 1):
        worst = -np.inf if name == "argmax" else np.inf
        pairs = x if first == 0 else np.array([(worst, b) for b in NUMBERS], "float32")
        made = [_combined(name, pairs, first, ascending) for ascending in (False, True)]
        np.testing.assert_array_equal(made[0], made[1])


def _combined(name: str, pairs: np.ndarray, first: int, ascending: bool) -> np.ndarray:
    """The indices that folding each pair, of index `first` and 1, leaves, and the numbers."""
    func = parse(f"""
def f(A: "float32[{len(pairs)}, 2]", V: "inout float32[{len(pairs)}]", I: "inout int32[{len(pairs)}]"):
    for r in range({len(pairs)}):
        V[r], I[r] = {name}(A[r, 1], 1)
""")
    (place,) = leaf_paths_of(func)
    assert isinstance(place.stmt, Reduce)
    types = tuple(v.dtype for v in place.stmt.monoid.left)
    monoid = (ASCENDING if ascending else MONOIDS)[name](types)
    func = replace_stmt(func, place.stmt, replace(place.stmt, monoid=monoid))
    given = {"A": pairs, "V": pairs[:, 0].copy(), "I": np.full(len(pairs), first, "int32")}
    out = lp.interpret(func, given)
    return np.stack([out["I"].astype("float64"), out["V"]])


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 70), st.booleans(), st.integers(0, 2**32 - 1))
def test_rows_of_any_numbers_have_the_index_that_numpy_finds(n: int, smallest: bool, seed: int) -> None:
    x = np.random.default_rng(seed).choice(np.array(NUMBERS, "float32"), (3, n))
    a = lp.placeholder((3, n), "float32", name="a")
    s = lp.Schedule(lp.argmin(a, axis=1) if smallest else lp.argmax(a, axis=1))
    wanted = x.argmin(axis=1) if smallest else x.argmax(axis=1)
    for t in (s, schedules.auto(s, "llvm")):
        np.testing.assert_array_equal(t.build("llvm")(x), wanted)
