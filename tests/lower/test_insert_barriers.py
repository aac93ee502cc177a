"""Barriers of one warpgroup each, where none needs what another did; and of the block, where one does."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
from loopir.codegen.cuda.emit import emit
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Barrier, Body, Func, Stmt
from loopir.ir.traverse.walk import replace, rewrite, statements

NEST = """
def f(A: "float32[{times}, 256]", B: "out float32[{times}, 256]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[256]", scope="shared") as T:
            for t in range({times}):
                for j in range(256):
                    T[j] = A[t, j] + 1.0
                for k in range(256):
                    B[t, k] = T[{read}]
"""
OWN, ALL = "k // 128 * 128 + 127 - k % 128", "255 - k"
"""An element of the same 128, and one of the other's."""


def lowered(read: str, groups: int = 2, times: int = 2) -> Func:
    s = lp.Schedule(lp.parse(NEST.format(read=read, times=times)))
    for loop in "jk":
        s = s.split(loop, 256 // groups, names=(f"{loop}g", f"{loop}t"))
        s = s.split(f"{loop}t", 32, names=(f"{loop}w", f"{loop}l"))
        kinds = ("warpgroup", "warp.x", "lane") if groups == 2 else ("threadIdx.z", "threadIdx.y", "threadIdx.x")
        for part, kind in zip("gwl", kinds, strict=True):
            s = s.bind(f"{loop}{part}", kind)
    return lp.lower(s, "cuda")[0]


def met(func: Func) -> list[int]:
    return [s.threads for s in statements(func.body) if isinstance(s, Barrier)]


def right(func: Func) -> bool:
    a = np.random.default_rng(0).integers(-9, 9, (2, 256)).astype(np.float32)
    at = np.arange(256) // 128 * 128 + 127 - np.arange(256) % 128
    return all(np.array_equal(interpret(func, (a,), seed=n)["B"], a[:, at] + 1) for n in range(3))


def test_who_needs_nothing_of_others_does_not_wait_for_them() -> None:
    func = lowered(OWN)
    assert met(func) == [128, 128]  # before elements are read, and before they are written again
    assert right(func)


def test_who_needs_what_others_did_meets_them() -> None:
    assert met(lowered(ALL)) == [0, 0]


def test_threads_that_make_no_warpgroups_meet_all_together() -> None:
    assert met(lowered(OWN.replace("128", "64").replace("127", "63"), groups=4)) == [0, 0]


@pytest.mark.parametrize("which", [0, 1])
def test_without_one_of_them_it_is_a_race(which: int) -> None:
    func = lowered(OWN)
    seen: list[Stmt] = []

    def dropped(s: Stmt) -> Body | None:
        if isinstance(s, Barrier):
            seen.append(s)
            return () if len(seen) - 1 == which else None
        return None

    with pytest.raises(lp.InterpretError, match="a race"):
        right(replace(func, body=rewrite(func.body, dropped)))


def test_each_has_a_barrier_of_its_own_on_the_gpu() -> None:
    source = emit(lowered(OWN)).source
    assert source.count('case 0: asm volatile("bar.sync 1, 128;"') == 2
    assert source.count('default: asm volatile("bar.sync 2, 128;"') == 2
