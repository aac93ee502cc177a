"""Products of float32 without tensor cores: exact on the interpreter, at any size, and what they compile to."""

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.interp.interpret import interpret
from loopir.testing import bank_conflicts
from schedules.cuda.matmul_simt import matmul_simt
from schedules.cuda.tiled_products import WARP_TILE


def product(lies: str, m: object, n: object, k: object) -> lp.Schedule:
    a = lp.placeholder((k, m) if lies[0] == "t" else (m, k), "float32", name="A")
    b = lp.placeholder((n, k) if lies[1] == "t" else (k, n), "float32", name="B")
    left, right = (x.T if how == "t" else x for x, how in zip((a, b), lies, strict=True))
    return lp.Schedule(left @ right)


@pytest.mark.parametrize(("lies", "stages"), [("nn", 3), ("nt", 1), ("tn", 1), ("tt", 1)])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 32, 16), (37, 29, 11)])
def test_tiles_are_the_product(lies: str, stages: int, m: int, n: int, k: int) -> None:
    s = product(lies, m, n, k)
    s = matmul_simt(s, s.stages[-1], block=(64, 32), depth=8, stages=stages)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
    given = [np.ascontiguousarray(x.T if how == "t" else x, np.float32) for x, how in zip((a, b), lies, strict=True)]
    (found,) = interpret(lp.lower(s, "cuda")[0], given).values()
    assert np.array_equal(found, a @ b)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 40, 32), (70, 36, 21)])
def test_tiles_of_a_warp_are_the_product(m: int, n: int, k: int) -> None:
    s = product("nn", m, n, k)
    made = matmul_simt(s, s.stages[-1], **WARP_TILE)
    rng = np.random.default_rng(0)
    given = [rng.integers(-4, 5, x).astype("float32") for x in ((m, k), (k, n))]
    (found,) = interpret(lp.lower(made, "cuda")[0], given).values()
    assert np.array_equal(found, given[0] @ given[1])


@pytest.mark.parametrize(("n", "k"), [(96, 256), (80, 201)])
def test_many_rows_of_few_columns_are_near_what_is_multiplied(n: int, k: int) -> None:
    """Columns that are no whole tiles of 64, and loads from shared memory, cost at most as much again."""
    made = schedules.auto(product("nn", 25600, n, k), "cuda", arch="sm_90a")
    machine = lp.machine("sm_90a")
    units = 25600 * n * k / (machine.processors * machine.lanes * machine.clock)
    assert lp.predict(made, "cuda", arch="sm_90a").seconds < 2.2 * units
    (used,) = lp.compile_source(made, "sm_90a").resources.values()
    assert used.spill_stores == used.spill_loads == used.stack == 0


@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt"])
def test_no_two_lanes_meet_in_a_bank(lies: str) -> None:
    s = product(lies, 64, 64, 32)
    s = matmul_simt(s, s.stages[-1], block=(64, 64), stages=2)
    assert set(bank_conflicts(lp.lower(s, "cuda")[0]).values()) == {1.0}


def test_operands_along_the_reduced_loop_are_turned_first() -> None:
    s = product("nt", 64, 32, 32)
    s = matmul_simt(s, s.stages[-1], block=(64, 32), depth=8, stages=2, turn=True)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (64, 32)), rng.integers(-4, 5, (32, 32))
    (found,) = interpret(lp.lower(s, "cuda")[0], [np.float32(a), np.float32(b)]).values()
    assert np.array_equal(found, a @ b.T)


def test_it_is_chosen_for_whole_tiles_and_fits_its_registers() -> None:
    s = schedules.gpu(product("nn", 2048, 2048, 2048))
    assert "matmul_simt" in s.script()
    code = lp.compile_source(s, "sm_80")
    assert code.source.count("float* const lp_at") == 2  # where thousands of copies begin to count
    for used in code.resources.values():
        assert used.spill_stores == used.spill_loads == used.stack == 0
        assert used.registers <= 128  # two blocks of 256 threads a multiprocessor
    assert "turn=True" in s.script()
    assert "turn=True" not in schedules.gpu(product("nn", 2048, 2048, 2040)).script()  # tiles that are filled up


@pytest.mark.parametrize("sizes", [(2049, 777, 500), (500, 777, 1000), (1000, 1000, 1000)])
def test_sizes_that_are_no_whole_tiles_fill_the_gpu(sizes: tuple[int, int, int]) -> None:
    """Tiles, or parts of the reduced loop, that give each processor a block, and are filled up."""
    made = schedules.auto(product("nn", *sizes), "cuda", arch="sm_90a")
    kernel = made.report().kernels[0]
    assert kernel.work.blocks >= 132
