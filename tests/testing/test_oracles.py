"""Each oracle fails where it should: transformations that are wrong in one way, and who notices. Right ones pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

import loopir as lp
from loopir.ir.grammar import Body, Func, Loop, Reduce, Stmt, Store
from loopir.ir.traverse.walk import rewrite
from loopir.lower import pipeline
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing import Case, NoBound, Wrong, assert_equivalent, check, funcs, gamma
from loopir.testing.fuzz import QUICK
from loopir.testing.generate import nests
from loopir.testing.oracles.oracles import ORACLES, judge

PLAIN = funcs(max_nests=1, memory=False)


def without_starts(func: Func) -> Func:
    """Wrong: forgets the first value of every reduction."""

    def forget(s: Stmt) -> Stmt | None:
        return replace(s, init=None) if isinstance(s, Reduce) and s.init is not None else None

    return replace(func, body=rewrite(func.body, forget))


def one_less(func: Func, loop: str) -> Func:
    """Wrong: one iteration less."""

    def cut(s: Stmt) -> Stmt | None:
        return replace(s, extent=s.extent - 1) if isinstance(s, Loop) and s.var == loop else None

    return replace(func, body=rewrite(func.body, cut))


def one_further(func: Func) -> Func:
    """Wrong: every store goes one element further."""

    def move(s: Stmt) -> Stmt | None:
        return replace(s, at=tuple(x + 1 for x in s.at)) if isinstance(s, Store) else None

    return replace(func, body=rewrite(func.body, move))


def backwards(func: Func) -> Func:
    """Wrong: the statements of every body in the opposite order."""

    def turned(body: Body) -> Body:
        return tuple(replace(s, body=turned(s.body)) if isinstance(s, Loop) else s for s in reversed(body))

    return replace(func, body=turned(func.body))


def lost(func: Func, loop: str) -> Func:
    """Wrong: raises what is no refusal."""
    raise KeyError(loop)


def never(func: Func) -> Func:
    raise lp.ScheduleError("not today")


WRONG: dict[Callable[..., Func], str] = {
    without_starts: "exact ring",
    one_less: "exact ring",
    one_further: "last-writer trace",
    backwards: "last-writer trace",
    lost: "crash",
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda f: f.__name__)
def test_what_is_wrong_is_found_and_made_small(wrong: Callable[..., Func]) -> None:
    with pytest.raises(Wrong) as found:
        check(wrong, programs=PLAIN, examples=600, oracles=QUICK, patience=2)
    message = str(found.value)
    assert found.value.oracle == WRONG[wrong], message
    assert wrong.__name__ in message
    assert len(lp.text(found.value.before).splitlines()) <= 8, message


@check(examples=8)
def test_a_decorator_makes_a_test(s: lp.Schedule, loop: str, factor: int) -> lp.Schedule:
    return s.split(loop, factor)


def test_one_line() -> None:
    check("reorder", examples=5)
    check(lambda s: s.split("i", 3), examples=10, oracles=QUICK)
    check(PRIMITIVES["split"], factor=st.integers(2, 4), examples=10, oracles=QUICK)


def test_a_transformation_that_always_refuses_is_told() -> None:
    with pytest.raises(ValueError, match="not one of 5 programs was transformed"):
        check(never, examples=5)


def test_a_missing_barrier_is_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    def case() -> Case:
        func = lp.parse("""
def f(A: "float32[8]", B: "out float32[8]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[8]", scope="shared") as T:
            for i in bind("threadIdx.x", 8):
                T[i] = A[i]
            for j in bind("threadIdx.x", 8):
                B[j] = T[7 - j]
""")
        return Case(func, func, {}, {"A": np.arange(8, dtype=np.float32)})

    assert judge(case(), ORACLES) is None
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p.name != "insert_barriers"))
    found = judge(case(), ORACLES)
    assert found is not None
    assert found[0] == "adversarial threads"
    assert "no barrier between: a race" in found[1]


# ---------------------------------------------------------------- equivalence


def matmul(depth: int = 64) -> lp.Schedule:
    return lp.Schedule(nests.matmul(4, 4, depth))


def test_another_order_of_folds_is_equivalent_exactly_and_within_rounding() -> None:
    s = matmul()
    assert_equivalent(s, s.rfactor("C", "k"), domain="real")
    assert_equivalent(s, s.split("k", 5).reorder("k_i", "k_o"), domain="real")


def test_one_term_of_many_is_missed_by_no_bound() -> None:
    """The last of 64 products left out: far within the relative tolerances that people use."""
    s = matmul()
    with pytest.raises(AssertionError, match="is not"):
        assert_equivalent(s, one_less(s.func, "k"))
    with pytest.raises(AssertionError, match="is not"):
        assert_equivalent(s, one_less(s.func, "k"), domain="real")


def test_the_bound_is_that_of_the_real_depth() -> None:
    """A sum of 64 products one after the other has 64 + 1 roundings on its longest way; of 8 sums of 8, 8 + 8 + 1."""
    s = matmul()
    arrays = [np.ones((4, 64), np.float32), np.ones((64, 4), np.float32)]
    (plain,) = lp.testing.error_bounds(s.func, arrays, {})
    halves = s.split("k", 8).rfactor("C", "k_o")
    (tree,) = lp.testing.error_bounds(halves.func, arrays, {})
    assert plain[0, 0] == pytest.approx(64 * gamma(65, 2.0**-24), rel=1e-6)
    assert tree[0, 0] == pytest.approx(64 * gamma(17, 2.0**-24), rel=1e-6)


def test_no_bound_is_made_up() -> None:
    x = lp.placeholder((4,), "float32", name="x")
    s = lp.Schedule(lp.exp(x) + 1.0)
    assert_equivalent(s, s)
    with pytest.raises(NoBound, match="no bound is known for what exp"):
        assert_equivalent(s, s, domain="real")
