"""`Kernel.profile`: a row for each kernel, measured beside predicted."""

from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir.codegen.params import kernels_of
from loopir.runtime.recorder import Span
from loopir.show.timeline import Cost, gpu_costs, profile

n = lp.symbol("n")
A = lp.placeholder((n, 64), "float32", name="A")
B = lp.placeholder((64, 32), "float32", name="B")
k = lp.reduce_axis(64, name="k")
S = lp.Schedule(lp.relu(lp.compute((n, 32), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")).named("D"))
ARRAYS = np.ones((8, 64), np.float32), np.ones((64, 32), np.float32)


def test_a_call_is_shown_kernel_by_kernel() -> None:
    kernel = S.parallel("C[0]").build("llvm", threads=2)
    found = kernel.profile(*ARRAYS, repeats=1)
    assert [r.stages for r in found.rows] == [("C",), ("D",)]
    assert all(r.runs == 1 and r.seconds > 0 and r.predicted is not None for r in found.rows)
    assert found.predicted == pytest.approx(sum(r.predicted.seconds for r in found.rows))
    assert sum(r.seconds for r in found.rows) <= found.seconds
    first, header, *rows, last = str(found).splitlines()
    assert first.startswith("compute_D(n=8) on ")
    assert header.split() == ["stages", "start", "time", "share", "predicted", "memory", "roofline", "timeline"]
    assert [r.split()[0] for r in rows] == ["C", "D"]
    assert last.endswith("between kernels")
    assert found._repr_html_().count("<rect") == 2


def test_a_kernel_that_a_loop_of_the_host_starts_is_one_row() -> None:
    heat = lp.parse("""
def heat(n: "size", a: "inout float32[4, n]"):
    for t in range(3):
        for i in parallel(n - 2):
            a[t + 1, i + 1] = a[t, i] + a[t, i + 2]
""")
    found = lp.Schedule(heat).build("llvm").profile(np.ones((4, 99), np.float32), repeats=1)
    (row,) = found.rows
    assert row.runs == 3
    assert "a x 3" in str(found)


def test_the_interpreter_has_no_times() -> None:
    with pytest.raises(lp.TargetError, match=r"was built for interpret.*build\(\"llvm\"\)"):
        S.build("interpret").profile(*ARRAYS)


def test_the_figures_of_a_gpu_are_those_of_its_report() -> None:
    s = lp.Schedule(lp.relu(A @ B)).bind("i", "blockIdx.x").bind("i_1", "blockIdx.x")
    lowered, found = lp.lower(s, "cuda")[0], s.report(n=8)
    costs = gpu_costs(kernels_of(lowered), found)
    assert [c.seconds for c in costs if c is not None] == [k.total for k in found.kernels]
    assert all(c is not None and 0 < c.roofline <= c.seconds for c in costs)
    spans = [Span(0, 0.0, 1e-3), Span(1, 2e-3, 4e-3)]
    shown = profile(s.func, kernels_of(lowered), {"n": 8}, costs, "a GPU", spans, 4e-3)
    assert str(shown).splitlines()[2].endswith("|#######                     |")
    assert str(shown).splitlines()[3].endswith("|              ##############|")
    assert str(shown).endswith("1 ms between kernels")


def test_a_kernel_without_a_prediction_has_no_share_of_the_roofline() -> None:
    costs: list[Cost | None] = [None, Cost(1e-3, 8.0, 5e-4)]
    kernels: Any = kernels_of(lp.lower(S, "llvm")[0])
    shown = profile(S.func, kernels, {}, costs, "a CPU", [Span(1, 0.0, 1e-3)], 1e-3)
    assert shown.rows[0].roofline == pytest.approx(0.5)
    shown = profile(S.func, kernels, {}, costs, "a CPU", [Span(0, 0.0, 1e-3)], 1e-3)
    assert shown.rows[0].roofline is None
    assert shown.predicted is None
