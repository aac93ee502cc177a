"""Boxes stored from shared memory by one thread: what waits for them, and what the interpreter says if nothing does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncWait, Barrier, Body, Fence, If, Stmt
from loopir.ir.printer import text
from loopir.ir.traverse.walk import replace, rewrite, statements

NEST = """
def f(A: "float32[{rows}, 8]", C: "out float32[{rows}, 8]"):
    for b in bind("blockIdx.x", 1):
        for t in range({times}):
            with alloc("float32[{room}, 8]", scope="shared") as T:
                for s in range({slices}):
                    for i in bind("threadIdx.x", 8):
                        for j in range(8):
                            if {t} * 8 + i < {rows}:
                                T[{slot} + i, j] = A[{t} * 8 + i, j] * 2.0
                    with tma_store_8x8_f32():
                        for r, c in grid(8, 8):
                            {guard}C[{t} * 8 + r, c] = T[{slot} + r, c]
"""


def nest(slices: int = 4, slots: int = 2, times: int = 2, short: int = 0) -> lp.Schedule:
    rows, t = 8 * slices * times - short, f"(t * {slices} + s)"
    guard = f"if {t} * 8 + r < {rows}:\n                                " if short else ""
    source = NEST.format(
        rows=rows, times=times, room=8 * slots, slices=slices, slot=f"s % {slots} * 8", t=t, guard=guard
    )
    return lp.Schedule(lp.parse(source))


def run(func: Any) -> Any:
    a = np.random.default_rng(0).integers(-9, 9, func.args[0].buffer.shape[0].value * 8).astype(np.float32)
    a = a.reshape(-1, 8)
    return np.array_equal(interpret(func, [a])["C"], a * 2)


def under_way(s: lp.Schedule) -> int:
    """The groups that may be under way at the wait in the loop."""
    (func,) = (lp.lower(s, "cuda")[0],)
    return max(x.pending for x in statements(func.body) if isinstance(x, AsyncWait))


@pytest.mark.parametrize(("slices", "slots", "pending"), [(4, 1, 0), (4, 2, 1), (3, 2, 0), (6, 3, 2), (4, 4, 0)])
def test_as_many_are_under_way_as_there_are_slots_but_one(slices: int, slots: int, pending: int) -> None:
    """Of three slices in two slots, the last one and the first of the next run are in the same; of four in four, none
    is written again before the barrier at the end of all."""
    s = nest(slices, slots)
    assert under_way(s) == pending
    assert run(lp.lower(s, "cuda")[0])


def test_what_is_outside_of_the_array_is_not_stored() -> None:
    s = nest(short=3)
    assert run(s.func)
    assert run(lp.lower(s, "cuda")[0])


def dropped(kind: type[Stmt]) -> Callable[[Stmt], Body | None]:
    return lambda s: () if isinstance(s, kind) else None


def later(s: Stmt) -> Stmt | None:
    return replace(s, pending=s.pending + 1) if isinstance(s, AsyncWait) and s.pending else None


def never(s: Stmt) -> Body | None:
    return () if isinstance(s, AsyncWait) and not s.pending else None


FAULTS = {
    "a wait for one group fewer": (later, "which stores of block .* still read; they have not been waited for"),
    "no wait at the end": (never, "ends in thread .*, whose stores still read T"),
    "no fence": (dropped(Fence), "by itself, which thread .* wrote without a fence"),
    "no barrier": (dropped(Barrier), "a race|nothing has written"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_order_is_caught(fault: str) -> None:
    func = lp.lower(nest(), "cuda")[0]
    change, told = FAULTS[fault]
    assert run(func)
    with pytest.raises(lp.InterpretError, match=told):
        run(replace(func, body=rewrite(func.body, change)))


def test_one_thread_commits_and_waits() -> None:
    func = lp.lower(nest(), "cuda")[0]
    asked = [s for s in statements(func.body) if isinstance(s, If) and any(isinstance(x, AsyncWait) for x in s.then)]
    assert asked
    assert text(func).count('commit("stores")') == 1


def test_what_it_writes_nobody_else_touches() -> None:
    source = text(nest().func).replace("* 2.0", "* 2.0 + C[0, 0]").replace("out float32", "inout float32")
    with pytest.raises(lp.LowerError, match=r"writes C by itself until the launch ends, and .* touches it, too"):
        lp.lower(lp.Schedule(lp.parse(source)), "cuda")


def test_a_box_that_is_stored_twice_is_refused() -> None:
    source = (
        text(nest().func).replace("C[(t * 4 + s) * 8 + r, c]", "C[r, c]").replace("C[t * 32 + s * 8 + r, c]", "C[r, c]")
    )
    with pytest.raises(lp.LowerError, match="both by themselves"):
        lp.lower(lp.Schedule(lp.parse(source)), "cuda")


def test_another_test_than_whether_it_is_inside_is_refused() -> None:
    s = text(nest(short=3).func)
    with pytest.raises(lp.LowerError, match=r"it is there only if .* which is not whether C.* is inside C"):
        lp.lower(lp.Schedule(lp.parse(s.replace("< 61", "< 60"))), "cuda")


def test_it_is_one_instruction() -> None:
    compiled = lp.compile_source(nest(), "sm_90a")
    assert compiled.source.count("lp_tma_store(&lp_map_0") == 1
    assert compiled.source.count("wait_group.read") == 2
