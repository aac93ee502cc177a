"""lp.check finds what a transformation does wrong, makes it small, and says it in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import strategies as st

import loopir as lp
from loopir.ir.grammar import Body, Func, Loop, Reduce, Stmt, Store
from loopir.ir.traverse.walk import rewrite
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing import Wrong, check, funcs
from loopir.testing.fuzz import QUICK

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
