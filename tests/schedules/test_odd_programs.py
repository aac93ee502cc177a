"""Recipes refuse, in words, programs that they are not for, and `cpu` and `gpu` take any: odd ones, by a table, and
random ones of which a part runs seldom."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
import schedules
from loopir.testing.generate.seldom import seldom
from loopir.testing.generate.strategies import arrays_for, funcs
from loopir.testing.oracles.equivalence import assert_equivalent
from loopir.testing.oracles.oracles import Case, exact_ring

TEXTS = {
    "nothing runs": """
for i in range(n):
    with alloc("float32[2]") as T:
        pass
""",
    "no loop": "B[0] = A[0, 0] + 1.0",
    "a fold in no loop": "B[0] = sum(A[0, 0], over=())",
    "several stages in a loop": """
for i in range(n):
    for j in range(n):
        B[i] = sum(A[i, j], over=j)
    C[i] = B[i] * 2.0
""",
    "no iterations": """
for i in range(n):
    for j in range(0):
        B[i] = sum(A[i, j], over=j)
""",
    "no iterations, and neighbours": """
for i in range(1):
    for j in range(0):
        A[i, j] = A[i, j + 1] + A[i + 1, j] + A[i, j]
""",
    "a fold that never runs": """
for i in range(n):
    for j in range(n):
        if j < j:
            B[i] = sum(A[i, j], over=j)
""",
    "stages that never run": """
for i in range(n):
    for j in range(n):
        if j < 0:
            A[i, j] = B[i]
for k in range(n):
    C[k] = B[k]
for l in range(n):
    if n <= l:
        B[l] = C[l]
""",
    "a triangle": """
for i in range(n):
    for j in range(i + 1):
        B[i] = sum(A[i, j], over=j, init=0.0)
""",
    "a running fold beside others": """
for i in range(n):
    for j in range(n):
        if 1 <= j:
            A[i, j] = A[i, j - 1] + B[j]
    C[i] = A[i, 0]
""",
    "a fold beside one in its loop": """
for i in range(n):
    B[0] = sum(A[0, i], over=i)
    for j in range(n):
        C[j] = max(A[i, j], over=i, init=0.0)
""",
}
PROGRAMS = {
    name: lp.parse(
        'def f(n: "size", A: "inout float32[n + 2, n + 2]", B: "inout float32[n + 2]", C: "inout float32[n + 2]"):\n'
        + "".join(f"    {line}\n" for line in body.strip().splitlines())
    )
    for name, body in TEXTS.items()
}
WHOLE: dict[str, Callable[[lp.Schedule], lp.Schedule]] = {
    "inlined": schedules.inlined,
    "row_blocks": schedules.row_blocks,
    "rows": schedules.rows,
    "scan cuda": lambda s: schedules.scan(s, "cuda"),
    "scan llvm": lambda s: schedules.scan(s, "llvm"),
    "time_tiled": schedules.time_tiled,
    "time_tiled_gpu": schedules.time_tiled_gpu,
    "windows": schedules.windows,
}
OF_A_STAGE: dict[str, Callable[[lp.Schedule, str], lp.Schedule]] = {
    "conv_mma": schedules.conv_mma,
    "conv_simt": schedules.conv_simt,
    "conv_wgmma": schedules.conv_wgmma,
    "direct_cpu": schedules.direct_cpu,
    "direct_gpu": schedules.direct_gpu,
    "elementwise": schedules.elementwise,
    "epilogue": schedules.epilogue,
    "folded": schedules.folded,
    "matmul_amx": schedules.matmul_amx,
    "matmul_cpu": schedules.matmul_cpu,
    "matmul_gpu": schedules.matmul_gpu,
    "matmul_mma": schedules.matmul_mma,
    "matmul_pairs": schedules.matmul_pairs,
    "matmul_wgmma": schedules.matmul_wgmma,
    "neighbours": schedules.neighbours,
    "reduction": schedules.reduction,
    "reduction in parts": lambda s, x: schedules.reduction(s, x, chunk=2),
    "scatter cuda": lambda s, x: schedules.scatter(s, x, "cuda"),
    "scatter llvm": lambda s, x: schedules.scatter(s, x, "llvm"),
    "short_folds": schedules.short_folds,
    "transpose": schedules.transpose,
}


@pytest.mark.parametrize("name", [*WHOLE, *OF_A_STAGE])
def test_a_recipe_takes_an_odd_program_or_refuses_it(name: str) -> None:
    recipe: Any = WHOLE.get(name) or OF_A_STAGE[name]
    for func in PROGRAMS.values():
        s = lp.Schedule(func)
        for stage in (None,) if name in WHOLE else s.stages:
            with suppress(lp.ScheduleError, lp.TargetError):
                recipe(s, *(() if stage is None else (stage,)))


@pytest.mark.parametrize("program", [x for x in PROGRAMS if x != "a fold beside one in its loop"])  # of many versions
@pytest.mark.parametrize("target", ["cuda", "llvm"])
def test_any_program_is_scheduled(program: str, target: str) -> None:
    s = lp.Schedule(PROGRAMS[program])
    made = schedules.cpu(s, lanes=4) if target == "llvm" else schedules.gpu(s, threads=4)
    assert_equivalent(made, s, sizes={"n": 3}, trials=1)


@pytest.mark.parametrize("target", ["cuda", "llvm"])
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_runs_seldom_is_scheduled(target: str, data: st.DataObject) -> None:
    """Also where steps find out on the way that a stage never runs, or runs in a part of its rows."""
    func = data.draw(seldom(data.draw(funcs())))
    s = lp.Schedule(func)
    made = schedules.cpu(s, lanes=4) if target == "llvm" else schedules.gpu(s, threads=4)
    assert exact_ring(Case(func, made.func, *data.draw(arrays_for(func, 5)))) is None
