"""Products on Hopper's tensor cores: what the schedule gives is the product, and ptxas has nothing to say of it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncWait, Barrier, Stmt
from loopir.ir.traverse.walk import rewrite, statements
from schedules.common.fusion import inlined
from schedules.common.view_loops import over_products
from schedules.cuda.matmul_wgmma import matmul_wgmma


def product(
    m: object, n: object, k: object, turned: bool = False, dtype: str = "bfloat16", **how: object
) -> lp.Schedule:
    a = lp.placeholder((m, k), dtype, name="A")
    b = lp.placeholder((k, n) if turned else (n, k), dtype, name="B")
    return matmul_wgmma(lp.Schedule(lp.relu(a @ (b if turned else b.T))), "matmul", **how)


@pytest.mark.parametrize(("turned", "stages"), [(False, 1), (True, 3)])
def test_tiles_are_the_product(turned: bool, stages: int) -> None:
    n = 64 if turned else 16
    func = lp.lower(product(64, n, 128, turned, block=(64, n), stages=stages), "cuda")[0]
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (64, 128)), rng.integers(0, 3, (128, n))
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    found = interpret(func, (a.astype(bf16), (b if turned else b.T).astype(bf16)))["out"]
    assert np.array_equal(found.astype(np.float32), (a @ b).astype(bf16).astype(np.float32))


@pytest.mark.parametrize("shape", [(-1,), (2, 32, 2, 32), (64, 8, 8)], ids=str)
@pytest.mark.parametrize("store", ["rows", "boxes"])
def test_tiles_go_to_arrays_of_any_shape(shape: tuple[int, ...], store: str) -> None:
    a, b = (lp.placeholder((64, 64), "bfloat16", name=x) for x in "AB")
    order = (0, 2, 1, 3) if len(shape) == 4 else range(len(shape))
    s = over_products(lp.Schedule(lp.transpose((a @ b).reshape(shape), tuple(order))))
    s = matmul_wgmma(s, "matmul", block=(64, 64), stages=1, store=store, roles=False)
    rng = np.random.default_rng(2)
    x, y = rng.integers(-2, 3, (64, 64)), rng.integers(-2, 3, (64, 64))
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    (found,) = interpret(lp.lower(s, "cuda")[0], (x.astype(bf16), y.astype(bf16))).values()
    want = (x @ y).astype(bf16).reshape(shape).transpose(order)
    assert np.array_equal(found.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize(("right", "m", "n"), [("", 64, 64), ("_bt", 128, 8)])
def test_a_left_operand_whose_rows_are_steps_of_the_sum(right: str, m: int, n: int) -> None:
    a = lp.placeholder((64, m), "bfloat16", name="A")
    b = lp.placeholder((n, 64) if right else (64, n), "bfloat16", name="B")
    s = matmul_wgmma(lp.Schedule(a.T @ (b.T if right else b)), "matmul", block=(m, n), stages=1)
    assert f"wgmma_m64n{n}k16_bf16_at{right}()" in lp.text(s.func)
    rng = np.random.default_rng(1)
    x, y = rng.integers(-2, 3, (64, m)), rng.integers(-2, 3, b.shape)
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    found = interpret(lp.lower(s, "cuda")[0], (x.astype(bf16), y.astype(bf16)))["out"]
    assert np.array_equal(found.astype(np.float32), (x.T @ (y.T if right else y)).astype(bf16).astype(np.float32))


def test_products_are_waited_for_an_iteration_later_and_not_two() -> None:
    func = lp.lower(product(64, 8, 256, block=(64, 8), stages=3), "cuda")[0]
    waits = [s for s in statements(func.body) if isinstance(s, AsyncWait)]
    assert waits == [AsyncWait(1, "products"), AsyncWait(0, "products")]

    def later(s: Stmt) -> Stmt | None:
        return replace(s, pending=s.pending + 1) if s == AsyncWait(1, "products") else None

    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    ones = np.ones((64, 256), bf16), np.ones((8, 256), bf16)
    interpret(func, ones)
    with pytest.raises(lp.InterpretError, match="still read; they have not been waited for"):
        interpret(replace(func, body=rewrite(func.body, later)), ones)


TYPES = {"s8": "int8", "tf32": "float32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def others(kind: str, *shapes: tuple[int, int]) -> list[lp.Tensor]:
    given = [lp.placeholder(x, TYPES[kind], name=y) for x, y in zip(shapes, "AB", strict=True)]
    sums = "int32" if kind == "s8" else "float32"
    return [lp.tf32(x, nearest=False) if kind == "tf32" else lp.cast(x, sums) for x in given]


def other(kind: str, m: int, n: int, k: int, **how: object) -> lp.Schedule:
    """relu(A @ B.T) of int8, in int32, of float32 cut off to TF32, or of floats of 8 bits, in float32."""
    left, right = others(kind, (m, k), (n, k))
    return matmul_wgmma(inlined(lp.Schedule(lp.relu(left @ right.T))), "matmul", **how)


@pytest.mark.parametrize(("kind", "k"), [("s8", 128), ("tf32", 32), ("e4m3", 128), ("e5m2", 128)])
def test_other_types_are_multiplied_as_the_program_says(kind: str, k: int) -> None:
    s = other(kind, 64, 8, k, block=(64, 8), stages=1)
    assert f"wgmma_m64n8k{8 if kind == 'tf32' else 32}_{kind}_bt()" in lp.text(s.func)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (64, k)), rng.integers(-4, 5, (8, k))
    given = [np.float32(x * (1 + 2.0**-12)) if kind == "tf32" else x.astype(TYPES[kind]) for x in (a, b)]
    found = interpret(lp.lower(s, "cuda")[0], given)["out"]
    assert np.array_equal(found, np.maximum(a @ b.T, 0))


@pytest.mark.parametrize("kind", ["s8", "tf32"])
def test_other_types_compile_without_spills(kind: str) -> None:
    compiled = lp.compile_source(other(kind, 512, 512, 512, block=(128, 256)), "sm_90a")
    (used,) = compiled.resources.values()
    assert used.spill_stores == used.spill_loads == used.stack == 0


@pytest.mark.parametrize("kind", TYPES)
def test_other_types_are_chosen_where_warpgroups_take_them(kind: str) -> None:
    left, right = others(kind, (512, 512), (512, 512))
    assert "with wgmma" in str(schedules.gpu(lp.Schedule(left @ right.T), arch="sm_90a"))
    made = schedules.gpu(
        lp.Schedule(left @ right), arch="sm_90a"
    )  # they take rows of the right operand's columns alone
    assert "with wgmma" not in lp.text(made.func) or "reindex(" in made.script()


@pytest.mark.parametrize(
    ("sizes", "boxes"), [((4096, 1152, 512), True), ((1000, 1032, 520), True), ((4096, 1028, 1024), False)]
)
def test_results_of_large_tiles_are_stored_as_boxes_where_rows_begin_right(sizes: tuple[int, ...], boxes: bool) -> None:
    assert ("with tma_store" in str(product(*sizes, block=(128, 192)))) == boxes


@pytest.mark.parametrize("n", [9, 8])
def test_rows_that_begin_anywhere_are_written_by_neighbouring_lanes(n: int) -> None:
    s = product(3, n, 64, block=(64, 8), stages=1, whole=True)
    source = lp.compile_source(s, "sm_90a").source
    assert ("lp_u4*>(out +" in source) == (n == 8)
    rng = np.random.default_rng(4)
    a, b = rng.integers(-2, 3, (3, 64)), rng.integers(-2, 3, (64, n))
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    found = interpret(lp.lower(s, "cuda")[0], (a.astype(bf16), b.T.astype(bf16)))["out"]
    assert np.array_equal(found.astype(np.float32), np.maximum(a @ b, 0).astype(bf16).astype(np.float32))


def test_large_products_have_warps_of_their_own_for_copies() -> None:
    a, b = (lp.placeholder((4096, 4096), "bfloat16", name=x) for x in "AB")
    made = str(schedules.gpu(lp.Schedule(a @ b), arch="sm_90a"))
    assert "with role(40, 232)" in made
    assert "with wgmma_m64n256k16_bf16()" in made


def test_a_warpgroup_stores_its_own_rows_and_waits_for_no_other() -> None:
    s = product(256, 512, 128, True, block=(128, 256), roles=True)
    assert "with tma_store_64x64_bf16()" in lp.text(s.func)
    func = lp.lower(s, "cuda")[0]
    met = [x.threads for x in statements(func.body) if isinstance(x, Barrier)]
    assert met == [0, 128, 128]  # of the block once, before it begins
    assert lp.compile_source(s, "sm_90a").source.count("#pragma unroll 1\n") == 2  # copies, and two steps of products


@pytest.mark.parametrize(("depth", "steps", "one"), [(96, 2, False), (1056, 17, True)])
def test_a_loop_of_few_turns_stays_one_only_where_these_fence_the_registers(depth: int, steps: int, one: bool) -> None:
    """ptxas puts fences of its own (C7519) into a short loop of products that is left one, with none inside. Of a long
    one the compiler would write out a turn before the others, and take a third longer."""
    a, b = (lp.placeholder(shape, "bfloat16", name=x) for x, shape in (("A", (1032, depth)), ("B", (depth, 520))))
    source = lp.compile_source(schedules.auto(lp.Schedule(a @ b), "cuda", arch="sm_90a"), "sm_90a").source
    found = re.search(rf"(#pragma unroll 1)?\n *for \(int j_o = 0; j_o < {steps};", source)
    assert found is not None
    assert (found[1] is not None) == one
    assert "lp_wgmma" in source[found.end() :]


def test_what_it_is_not_for_is_refused() -> None:
    with pytest.raises(lp.ScheduleError, match="do not take in pairs of 16 bits"):
        product(64, 64, 64, dtype="float32")


@pytest.mark.parametrize("m", [1, 16])
def test_rows_that_fill_no_tile_are_filled_up(m: int) -> None:
    s = product(m, 8, 128, block=(64, 8), stages=2)
    rng = np.random.default_rng(2)
    a, b = rng.integers(-2, 3, (m, 128)), rng.integers(-2, 3, (8, 128))
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    found = interpret(lp.lower(s, "cuda")[0], (a.astype(bf16), b.astype(bf16)))["out"]
    assert np.array_equal(found.astype(np.float32), np.maximum(a @ b.T, 0).astype(bf16).astype(np.float32))


def test_blocks_that_stay_take_tiles_of_all_of_a_batch() -> None:
    a, b = lp.placeholder((2, 64, 128), "bfloat16", name="A"), lp.placeholder((2, 8, 128), "bfloat16", name="B")
    s = lp.Schedule(a @ lp.transpose(b, (0, 2, 1)))
    s = matmul_wgmma(s, "matmul", block=(64, 8), stages=2, roles=True, blocks=1)
    assert "blockIdx.z" not in lp.text(s.func)
    rng = np.random.default_rng(3)
    x, y = rng.integers(-2, 3, a.shape), rng.integers(-2, 3, b.shape)
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    found = interpret(lp.lower(s, "cuda")[0], (x.astype(bf16), y.astype(bf16)))["out"]
    wanted = (x @ y.transpose(0, 2, 1)).astype(bf16).astype(np.float32)
    assert np.array_equal(found.astype(np.float32), wanted)


@pytest.mark.parametrize("right", ["nt", "nn"])
@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_few_steps_have_their_copies_under_way_at_once(steps: int, right: str) -> None:
    """Exact, without races and with all waits; blocks that share a multiprocessor take no memory beyond these."""
    depth = 64 * steps - 8  # the last step is filled up
    rows = 72 if right == "nt" else 40
    a = lp.placeholder((2, rows, depth), "bfloat16", name="a")
    b = lp.placeholder((2, 80, depth) if right == "nt" else (2, depth, 80), "bfloat16", name="b")
    s = lp.Schedule(((a @ (b.transpose((0, 2, 1)) if right == "nt" else b)) * 2.0).named("y"))
    with lp.scheduling_for(replace(lp.machine("sm_90a"), processors=3)):
        made = matmul_wgmma(schedules.inlined(s), "matmul", block=(64, 80 if right == "nt" else 64), roles=False)
    assert f'"bfloat16[{max(2, steps)}, 64, 64]"' in lp.text(made.func)
    rng = np.random.default_rng(steps)
    given = tuple(rng.integers(-3, 4, x.shape).astype(x.dtype.numpy) for x in (a, b))
    (found,) = interpret(lp.lower(made, "cuda")[0], given).values()
    x, y = (v.astype(np.float32) for v in given)
    wanted = 2.0 * (x @ (y.transpose(0, 2, 1) if right == "nt" else y)).astype(given[0].dtype)
    np.testing.assert_array_equal(found, wanted)
