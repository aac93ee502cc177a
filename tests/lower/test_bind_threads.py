"""Clusters of blocks and warpgroups: what a launch has of them, and that the interpreter runs them as it does."""

import numpy as np
import pytest

import loopir as lp
from loopir.codegen.cuda.emit import emit
from loopir.errors import InterpretError, LowerError, ScheduleError, TargetError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Barrier, Loop
from loopir.ir.traverse.walk import rewrite, statements

ROWS = """
def f(n: "size", A: "float32[n, 256]", B: "out float32[n, 256]"):
    for i in range(n):
        with alloc("float32[256]", scope="shared") as T:
            for j in range(256):
                T[j] = A[i, j] + 1.0
            for k in range(256):
                B[i, k] = T[255 - k]
"""


def rows(cluster: int = 2) -> lp.Schedule:
    s = lp.Schedule(lp.parse(ROWS)).split("i", cluster)
    s = s.bind("i_o", "blockIdx.x").bind("i_i", "cluster")
    for loop in ("j", "k"):
        s = s.split(loop, 128, names=(f"{loop}g", f"{loop}t")).split(f"{loop}t", 32, names=(f"{loop}w", f"{loop}l"))
        s = s.bind(f"{loop}g", "warpgroup").bind(f"{loop}w", "warp.x").bind(f"{loop}l", "lane")
    return s


@pytest.mark.parametrize("cluster", [2, 8])
@pytest.mark.parametrize("n", [1, 5])
def test_rows_by_clusters_of_blocks_of_warpgroups(cluster: int, n: int) -> None:
    a = np.arange(n * 256, dtype=np.float32).reshape(n, 256)
    (func,) = lp.lower(rows(cluster), "cuda")
    for seed in range(3):
        assert np.array_equal(interpret(func, (a,), seed=seed)["B"], a[:, ::-1] + 1.0)
    kinds = [x.kind for x in statements(func.body) if isinstance(x, Loop)]
    assert kinds[:5] == ["blockIdx.x", "cluster", "threadIdx.x", "threadIdx.y", "threadIdx.z"]


def test_warpgroups_meet_at_barriers() -> None:
    (func,) = lp.lower(rows(), "cuda")
    assert any(isinstance(x, Barrier) for x in statements(func.body))
    torn = lp.ir.grammar.Func(
        func.name, func.params, func.assumes, rewrite(func.body, lambda s: () if isinstance(s, Barrier) else None)
    )
    with pytest.raises(InterpretError, match="no barrier between: a race"):
        interpret(torn, (np.zeros((2, 256), np.float32),))


def test_blocks_of_a_cluster_race_like_others() -> None:
    body = """
def f(A: "float32[4]", B: "out float32[1]"):
    for i in range(2):
        for r in range(2):
            B[0] = A[i * 2 + r]
"""
    with pytest.raises(ScheduleError, match="iterations of 'r' are not independent"):
        lp.Schedule(lp.parse(body)).bind("r", "cluster")


def test_a_launch_counts_blocks_and_the_source_says_how_many_are_a_cluster() -> None:
    module = emit(lp.lower(rows(4), "cuda")[0])
    (kernel,) = module.kernels
    assert kernel.cluster == 4
    assert kernel.block == (32, 4, 2)
    assert "__cluster_dims__(4, 1, 1)" in module.source
    assert "blockIdx.x / 4" in module.source
    assert "blockIdx.x % 4" in module.source


@pytest.mark.parametrize("cluster", [2, 16])
def test_nvrtc_takes_it_for_hopper(cluster: int) -> None:
    assert lp.compile_source(rows(cluster), "sm_90a").cubin


def test_older_gpus_have_no_clusters() -> None:
    with pytest.raises(TargetError, match=r"clusters of 2 blocks.*sm_80 has no clusters; GPUs of sm_90 and later have"):
        lp.compile_source(rows(), "sm_80")
    assert lp.compile_source(rows(1), "sm_80").cubin


def test_limits_are_told_when_a_loop_is_bound() -> None:
    s = lp.Schedule(lp.parse(ROWS)).split("i", 32).split("j", 16)
    with pytest.raises(ScheduleError, match="would take 32 indices of cluster, and there are 16"):
        s.bind("i_i", "cluster")
    with pytest.raises(ScheduleError, match="would take 16 indices of warpgroup, and there are 8"):
        s.bind("j_i", "warpgroup")
    s = lp.Schedule(lp.parse(ROWS)).split("j", 32).bind("j_o", "warpgroup")
    with pytest.raises(ScheduleError, match=r"warp\.y is taken by 'j_o'"):
        s.bind("j_i", "warp.y")


def test_a_warpgroup_is_four_warps() -> None:
    s = lp.Schedule(lp.parse(ROWS)).bind("i", "blockIdx.x").split("j", 128).split("k", 32)
    s = s.bind("j_o", "warpgroup").bind("k_o", "warp.x").bind("k_i", "lane")
    with pytest.raises(LowerError, match="a warpgroup is 4 warps: bind at most 4"):
        lp.lower(s, "cuda")


def test_on_a_cpu_they_are_loops() -> None:
    a = np.arange(3 * 256, dtype=np.float32).reshape(3, 256)
    assert np.array_equal(rows().build("llvm")(a), a[:, ::-1] + 1.0)
