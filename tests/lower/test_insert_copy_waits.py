"""Asynchronous copies: waited for in time, as late as that is known to do, and each fault of waiting is found."""

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir.analysis.dependence import fusion_shift
from loopir.analysis.dependence.access import Statement
from loopir.analysis.dependence.depend import Pair
from loopir.analysis.presburger import solver
from loopir.errors import InterpretError, Undecided
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncCommit, AsyncWait, Barrier, Func, Loop, Stmt
from loopir.ir.traverse.walk import rewrite, statements

insert_copy_waits = importlib.import_module("loopir.lower.gpu.asynchronous.insert_copy_waits")

NEST = """
def f(n: "size", A: "float32[n, 32]", C: "out float32[32]"):
    for b in bind("blockIdx.x", 1):
        for ko in range(n):
            with alloc("float32[32]", scope="shared") as As:
                for x in bind("threadIdx.x", 8):
                    for v in range(4):
                        As[x * 4 + v] = A[ko, x * 4 + v]
                for i in bind("threadIdx.x", 32):
                    C[i] = sum(As[31 - i] * As[i], over=ko, init=0.0)
"""


def lowered(stages: int) -> Func:
    s = lp.Schedule(lp.parse(NEST)).tensorize("v", "cp_async_f32")
    return lp.lower(s.pipeline("ko", stages=stages) if stages > 1 else s, "cuda")[0]


def check(func: Func, n: int) -> None:
    a = np.random.default_rng(n).integers(0, 9, (n, 32))
    found = interpret(func, [a], domain="ring", seed=n)["C"]
    assert np.array_equal(found, (a * a[:, ::-1]).sum(axis=0))


def waited(func: Func) -> list[int]:
    return [s.pending for s in statements(func.body) if isinstance(s, AsyncWait)]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_as_many_groups_are_under_way_as_the_stages_allow(stages: int) -> None:
    func = lowered(stages)
    assert waited(func) == [stages - 2, stages - 2, 0]
    assert sum(isinstance(s, AsyncCommit) for s in statements(func.body)) == 2
    (main,) = (s for s in statements(func.body) if isinstance(s, Loop) and s.var == "ko")
    assert [type(s) for s in main.body[-2:]] == [AsyncWait, Barrier]
    assert sum(isinstance(s, Barrier) for s in statements(main.body)) == 1
    for n in (1, 2, 5):
        check(func, n)


def test_each_kernel_of_a_program_waits_as_late_as_it_would_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What proofs may cost is not used up by the kernels before: here each takes all that one kernel is allowed."""

    def pipelined(count: int) -> Func:
        head, *nest = NEST.strip().split("\n")
        body = [line.replace("C[", f"C{n}[") for n in range(count) for line in nest]
        results = ", ".join(f'C{n}: "out float32[32]"' for n in range(count))
        s = lp.Schedule(lp.parse("\n".join([head.replace('C: "out float32[32]"', results), *body])))
        for stage in [x for x in s.stages if x.startswith("As")]:
            s = s.tensorize(s.loops(stage)[-1], "cp_async_f32")
            s = s.pipeline(next(x for x in s.loops(stage) if x.startswith("ko")), stages=3)
        return lp.lower(s, "cuda")[0]

    asked: list[int] = []
    ended = solver.question.__exit__

    def exit_of(self: Any, *how: Any) -> None:
        ended(self, *how)
        asked.append(solver._SOLVER.left if solver._SOLVER.efforts else solver.EFFORT)

    monkeypatch.setattr(solver, "MIN_OPERATIONS", 10)
    with monkeypatch.context() as counting:
        counting.setattr(solver.question, "__exit__", exit_of)
        alone = waited(pipelined(1))
    monkeypatch.setattr(solver, "EFFORT", 1 + solver.EFFORT - min(asked))
    assert waited(pipelined(6)) == 6 * alone


def test_a_copy_that_is_used_in_its_own_iteration_is_waited_for_at_once() -> None:
    func = lowered(1)
    assert waited(func) == [0]
    check(func, 3)


def changed(func: Func, fn: Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]) -> Func:
    return replace(func, body=rewrite(func.body, fn))


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(
    "fault",
    [
        lambda s: () if isinstance(s, AsyncWait) else None,
        lambda s: AsyncWait(s.pending + 1) if isinstance(s, AsyncWait) else None,
        lambda s: () if isinstance(s, AsyncCommit) else None,
        lambda s: () if isinstance(s, Barrier) else None,
    ],
    ids=["no wait", "one group too many", "no commit", "no barrier"],
)
def test_each_fault_is_found(stages: int, fault: Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]) -> None:
    func = lowered(stages)
    wrong = changed(func, fault)
    assert wrong != func
    with pytest.raises(InterpretError, match=r"has not waited for|a race|nothing has written"):
        check(wrong, 5)


def test_lowered_text_with_waits_reads_back() -> None:
    shown: dict[str, Func] = {}
    s = lp.Schedule(lp.parse(NEST)).tensorize("v", "cp_async_f32").pipeline("ko", stages=3)
    lp.lower(s, "cuda", show=lambda name, func: shown.update({name: func}))
    assert lp.parse(lp.text(shown["insert_copy_waits"])) == shown["insert_copy_waits"]


TWO = """
def f(n: "size", A: "float32[n, 32]", B: "float32[n, 32]", C: "out float32[32]"):
    for b in bind("blockIdx.x", 1):
        for ko in range(n):
            with alloc("float32[32]", scope="shared") as As, alloc("float32[32]", scope="shared") as Bs:
                for x in bind("threadIdx.x", 8):
                    for v in range(4):
                        As[x * 4 + v] = A[ko, x * 4 + v]
                for y in bind("threadIdx.x", 8):
                    for w in range(4):
                        Bs[y * 4 + w] = B[ko, y * 4 + w]
                for i in bind("threadIdx.x", 32):
                    C[i] = sum(As[31 - i] * Bs[i], over=ko, init=0.0)
"""


@pytest.mark.parametrize("stages", [2, 3])
def test_copies_of_two_operands_are_a_group_together(stages: int) -> None:
    """With two stages one iteration's copies come before the loop, without a loop of their own."""
    s = lp.Schedule(lp.parse(TWO)).tensorize("v", "cp_async_f32").tensorize("w", "cp_async_f32")
    func = lp.lower(s.pipeline("ko", stages=stages), "cuda")[0]
    assert waited(func) == [stages - 2, stages - 2, 0]
    assert sum(isinstance(x, AsyncCommit) for x in statements(func.body)) == 2
    for n in (1, 2, 5):
        a, b = np.random.default_rng(n).integers(0, 9, (2, n, 32))
        found = interpret(func, [a, b], domain="ring", seed=n)["C"]
        assert np.array_equal(found, (a[:, ::-1] * b).sum(axis=0))
    late = changed(func, lambda x: AsyncWait(x.pending + 1) if isinstance(x, AsyncWait) else None)
    with pytest.raises(InterpretError, match="has not waited for"):
        interpret(late, [*np.ones((2, 5, 32), int)], domain="ring")


GRIDS = """
def f(n: "size", m: "size", A: "float32[n, 32]", B: "float32[m, 32]", C: "out float32[32]", D: "out float32[2, 32]"):
    for a in bind("blockIdx.x", 1):
        for ko in range(n):
            with alloc("float32[32]", scope="shared") as As:
                for x in bind("threadIdx.x", 8):
                    for v in range(4):
                        As[x * 4 + v] = A[ko, x * 4 + v]
                for i in bind("threadIdx.x", 32):
                    C[i] = sum(As[31 - i] * As[i], over=ko, init=0.0)
    for b in bind("blockIdx.x", 2):
        for kp in range(m):
            with alloc("float32[32]", scope="shared") as Bs:
                for y in bind("threadIdx.x", 8):
                    for w in range(4):
                        Bs[y * 4 + w] = B[kp, y * 4 + w]
                for j in bind("threadIdx.x", 32):
                    D[b, j] = sum(Bs[31 - j] * Bs[j], over=kp, init=0.0)
"""


@pytest.mark.parametrize(("stages", "other"), [(2, 2), (3, 4), (4, 1)])
def test_copies_of_grids_side_by_side_are_waited_for_apart(stages: int, other: int) -> None:
    """Each branch of the test of which grid it is has its own groups; copies in one were waited for one by one."""
    s = lp.Schedule(lp.parse(GRIDS)).tensorize("v", "cp_async_f32").tensorize("w", "cp_async_f32")
    s = s.pipeline("ko", stages=stages)
    s = (s.pipeline("kp", stages=other) if other > 1 else s).merge("a", "b", side_by_side=True)
    func = lp.lower(s, "cuda")[0]
    assert waited(func) == [x for n in (stages, other) for x in ([n - 2, n - 2, 0] if n > 1 else [0])]
    gen = np.random.default_rng(0)
    for n, m in ((1, 3), (5, 2), (4, 0)):
        a, b = gen.integers(0, 9, (n, 32)), gen.integers(0, 9, (m, 32))
        found = interpret(func, [a, b], domain="ring", seed=n)
        assert np.array_equal(found["C"], (a * a[:, ::-1]).sum(axis=0))
        assert np.array_equal(found["D"], [(b * b[:, ::-1]).sum(axis=0)] * 2)
    for fault in (lambda x: () if isinstance(x, AsyncWait) else None, lambda x: () if isinstance(x, Barrier) else None):
        with pytest.raises(InterpretError, match=r"has not waited for|a race|nothing has written"):
            interpret(changed(func, fault), [np.ones((5, 32), int), np.ones((5, 32), int)], domain="ring")


GUARDED = """
def f(n: "size", A: "float32[n, 32]", C: "out float32[32]"):
    for b in bind("blockIdx.x", 1):
        for ko in range(n):
            with alloc("float32[32]", scope="shared") as As:
                for x in bind("threadIdx.x", 8):
                    if (ko * 5 + x) // 3 % 4 < 3:
                        for v in range(4):
                            As[x * 4 + v] = A[ko, x * 4 + v]
                    else:
                        for w in range(4):
                            As[x * 4 + w] = 0.0
                for i in bind("threadIdx.x", 32):
                    C[i] = sum(As[31 - i] * As[i], over=ko, init=0.0)
"""


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_guards_that_are_too_much_for_the_solver_keep_no_group_waiting(
    stages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the guards, iterations that touch the same are as far apart; both branches of a test are done by none."""
    exact, conflict = fusion_shift.largest, insert_copy_waits.has_conflict

    def gives_up(pair: Pair, *rest: Any) -> list[int | None]:
        if pair.s.conds or pair.t.conds:
            raise Undecided
        return exact(pair, *rest)

    def may(func: Func, s: Statement, t: Statement, orders: Any) -> bool:
        return bool(s.conds or t.conds) or conflict(func, s, t, orders)

    monkeypatch.setattr(fusion_shift, "largest", gives_up)
    monkeypatch.setattr(insert_copy_waits, "has_conflict", may)
    s = lp.Schedule(lp.parse(GUARDED)).tensorize("v", "cp_async_f32").pipeline("ko", stages=stages)
    func = lp.lower(s, "cuda")[0]
    assert waited(func) == [stages - 2, stages - 2, 0]
    for n in (1, 2, 7):
        a = np.random.default_rng(n).integers(0, 9, (n, 32))
        kept = np.where((np.arange(n)[:, None] * 5 + np.arange(32) // 4) // 3 % 4 < 3, a, 0)
        found = interpret(func, [a], domain="ring", seed=n)["C"]
        assert np.array_equal(found, (kept * kept[:, ::-1]).sum(axis=0))
    late = changed(func, lambda x: AsyncWait(x.pending + 1) if isinstance(x, AsyncWait) else None)
    with pytest.raises(InterpretError, match="has not waited for"):
        interpret(late, [np.ones((7, 32), int)], domain="ring")
