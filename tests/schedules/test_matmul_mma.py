"""The tensor-core schedule against the plain nest: as loops, and lowered, lane by lane, without a race."""

from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncWait, InstrCall
from loopir.ir.traverse.walk import statements
from schedules.cuda.matmul_mma import matmul_mma


def product(dtype: str, lies: str, *, epilogue: bool) -> lp.Schedule:
    """`lies` says of each operand whether it is transposed: "nn", "nt", "tn" or "tt"."""
    b, m = lp.symbol("b"), lp.symbol("m", multiple_of=32)
    n, k = lp.symbol("n", multiple_of=16), lp.symbol("k", multiple_of=32)
    x = lp.placeholder((b, k, m) if lies[0] == "t" else (b, m, k), dtype, name="A")
    y = lp.placeholder((b, n, k) if lies[1] == "t" else (b, k, n), dtype, name="B")
    out = (x.transpose(0, 2, 1) if lies[0] == "t" else x) @ (y.transpose(0, 2, 1) if lies[1] == "t" else y)
    bias = lp.placeholder((n,), dtype, name="bias")
    return lp.Schedule(lp.relu(out + bias) if epilogue else out)


def arguments(s: lp.Schedule, b: int, m: int, n: int, k: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    sizes = {"b": b, "m": m, "n": n, "k": k}
    shapes = {a.buffer.name: [sizes[d.name] for d in a.buffer.shape] for a in s.func.args if a.access == "in"}
    return {name: rng.integers(0, 5, shape) for name, shape in shapes.items()}


def outcome(func: Any, args: dict[str, Any], seed: int = 0) -> np.ndarray:
    (found,) = interpret(func, args, domain="ring", seed=seed).values()
    return found


@pytest.mark.parametrize(
    ("dtype", "lies", "epilogue", "shape", "stages"),
    [
        ("bfloat16", "nn", False, (1, 32, 32, 64), 1),
        ("float16", "nt", True, (2, 32, 16, 32), 2),
        ("bfloat16", "nn", True, (1, 32, 16, 160), 3),
        ("bfloat16", "tn", True, (2, 32, 32, 64), 2),
        ("float16", "tt", False, (1, 64, 16, 32), 1),
    ],
)
def test_it_means_the_product(
    dtype: str, lies: str, epilogue: bool, shape: tuple[int, int, int, int], stages: int
) -> None:
    base = product(dtype, lies, epilogue=epilogue)
    args = arguments(base, *shape)
    expected = outcome(base.func, args)
    s = matmul_mma(base, "matmul", block=(32, 16), warps=(2, 1), stages=stages)
    assert np.array_equal(outcome(s.func, args), expected)
    (lowered,) = lp.lower(s, "cuda")
    assert np.array_equal(outcome(lowered, args, seed=1), expected)
    assert s.trace[-1].name == "matmul_mma"
    assert base.replay(s.trace) == s


@pytest.mark.parametrize(("m", "n", "k"), [(37, 19, 45), (1, 1, 1), (32, 16, 32)])
@pytest.mark.parametrize("stages", [1, 2])
def test_edges_of_any_size_are_filled_up(m: int, n: int, k: int, stages: int) -> None:
    sizes = [lp.symbol(x) for x in "mnk"]
    x = lp.placeholder((sizes[0], sizes[2]), "bfloat16", name="A")
    y = lp.placeholder((sizes[2], sizes[1]), "bfloat16", name="B")
    base = lp.Schedule(lp.relu(x @ y))
    rng = np.random.default_rng(0)
    args = {"A": rng.integers(0, 5, (m, k)), "B": rng.integers(0, 5, (k, n))}
    s = matmul_mma(base, "matmul", block=(32, 16), warps=(2, 1), stages=stages)
    expected = outcome(base.func, args)
    assert np.array_equal(outcome(s.func, args), expected)
    if stages == 1:
        assert np.array_equal(outcome(lp.lower(s, "cuda")[0], args), expected)


@pytest.mark.parametrize(("blocks", "stages"), [(None, 1), (2, 3)])
def test_tiles_in_bands_by_blocks_that_stay(blocks: int | None, stages: int) -> None:
    m, n, k = lp.symbol("m", multiple_of=32), lp.symbol("n", multiple_of=16), lp.symbol("k", multiple_of=32)
    x, y = lp.placeholder((m, k), "bfloat16", name="A"), lp.placeholder((k, n), "bfloat16", name="B")
    base = lp.Schedule(x @ y)
    s = matmul_mma(base, "matmul", block=(32, 16), warps=(2, 1), stages=stages, group=2, blocks=blocks)
    rng = np.random.default_rng(0)
    args = {"A": rng.integers(0, 5, (96, 32)), "B": rng.integers(0, 5, (32, 32))}
    expected = outcome(base.func, args)
    assert np.array_equal(outcome(s.func, args), expected)
    (lowered,) = lp.lower(s, "cuda")
    assert np.array_equal(outcome(lowered, args), expected)
    waits = [x.pending for x in statements(lowered.body) if isinstance(x, AsyncWait)]
    assert waits == ([1, 1, 0] if stages == 3 else [])


@pytest.mark.parametrize("lies", ["nn", "nt", "tn"])
def test_operands_may_be_copied_in_whole_tiles_first(lies: str) -> None:
    shapes = {"A": (37, 45), "B": (45, 19)}
    x, y = (
        lp.placeholder(v[:: -1 if t == "t" else 1], "bfloat16", name=n)
        for (n, v), t in zip(shapes.items(), lies, strict=True)
    )
    base = lp.Schedule((x.T if lies[0] == "t" else x) @ (y.T if lies[1] == "t" else y))
    s = matmul_mma(base, "matmul", block=(32, 16), warps=(2, 1), stages=2, whole=True)
    rng = np.random.default_rng(0)
    args = {
        a.buffer.name: rng.integers(0, 5, [d.value for d in a.buffer.shape]) for a in s.func.args if a.access == "in"
    }
    expected = outcome(base.func, args)
    assert np.array_equal(outcome(s.func, args), expected)
    assert np.array_equal(outcome(lp.lower(s, "cuda")[0], args), expected)
    assert any(isinstance(x, AsyncWait) for x in statements(lp.lower(s, "cuda")[0].body))


def test_one_operand_of_a_batch_may_be_shared() -> None:
    x, y = lp.placeholder((2, 32, 32), "bfloat16", name="A"), lp.placeholder((32, 16), "bfloat16", name="B")
    base = lp.Schedule(x @ y)
    s = matmul_mma(base, "matmul", block=(32, 16), warps=(2, 1), stages=2)
    rng = np.random.default_rng(0)
    args = {"A": rng.integers(0, 5, (2, 32, 32)), "B": rng.integers(0, 5, (32, 16))}
    expected = outcome(base.func, args)
    assert np.array_equal(outcome(lp.lower(s, "cuda")[0], args), expected)


def test_fragments_may_be_loaded_ahead_and_copies_made_among_the_steps() -> None:
    x, y = lp.placeholder((32, 96), "bfloat16", name="A"), lp.placeholder((96, 16), "bfloat16", name="B")
    base = lp.Schedule(x @ y)
    s = matmul_mma(base, "matmul", block=(32, 16), warps=(2, 1), stages=2, ahead=True, spread=True)
    rng = np.random.default_rng(0)
    args = {"A": rng.integers(0, 5, (32, 96)), "B": rng.integers(0, 5, (96, 16))}
    expected = outcome(base.func, args)
    assert np.array_equal(outcome(s.func, args), expected)
    assert np.array_equal(outcome(lp.lower(s, "cuda")[0], args), expected)


@pytest.mark.parametrize(("rows", "lies"), [(2, "nt"), (15, "tn")])
def test_few_rows_are_filled_up_to_those_of_an_instruction(rows: int, lies: str) -> None:
    shapes = [(rows, 64), (64, 32)]
    given = [lp.placeholder(v[:: -1 if t == "t" else 1], "bfloat16", name=n) for v, t, n in zip(shapes, lies, "AB")]
    left, right = (x.T if t == "t" else x for x, t in zip(given, lies))
    s = schedules.gpu(lp.Schedule(left @ right))
    assert "with mma_m16n8k16" in lp.text(s.func)
    rng = np.random.default_rng(rows)
    a, b = (rng.integers(-2, 3, v) for v in shapes)
    bf16 = lp.ir.dtypes.BY_NAME["bfloat16"].numpy
    arrays = [(x.T if t == "t" else x).astype(bf16) for x, t in zip((a, b), lies)]
    (out,) = interpret(lp.lower(s, "cuda")[0], arrays).values()
    assert np.array_equal(out.astype(np.float32), (a @ b).astype(bf16).astype(np.float32))


def test_what_is_no_product_of_16_bits_is_refused() -> None:
    x, y = lp.placeholder((128, 64), "float32", name="A"), lp.placeholder((64, 128), "float32", name="B")
    with pytest.raises(lp.ScheduleError, match="16 bits"):
        matmul_mma(lp.Schedule(lp.relu(x @ y)), "matmul")


@pytest.mark.parametrize(("columns", "steps", "warps"), [(16, 16, (4, 1)), (16, 64, (4, 1)), (32, 16, (4, 2))])
def test_some_threads_copy_nothing_of_a_small_operand(columns: int, steps: int, warps: tuple[int, int]) -> None:
    """Tiles of products of one step, whose rows of results go through shared memory."""
    a, b = (lp.placeholder(x, "bfloat16", name=y) for x, y in (((130, steps - 3), "A"), ((steps - 3, columns), "B")))
    base = lp.Schedule(lp.relu(a @ b))
    rng = np.random.default_rng(0)
    args = {x.buffer.name: rng.integers(0, 5, [d.value for d in x.buffer.shape]) for x in base.func.args[:2]}
    s = matmul_mma(base, "matmul", block=(128, columns), warps=warps, depth=steps, stages=1, staged=True)
    (lowered,) = lp.lower(s, "cuda")
    assert np.array_equal(outcome(lowered, args, seed=1), outcome(base.func, args))


@pytest.mark.parametrize(("columns", "asynchronous"), [(8, False), (24, True)])
def test_tiles_that_are_half_filled_are_stored_by_all_lanes(columns: int, asynchronous: bool) -> None:
    a, b = lp.placeholder((64, 512), "bfloat16", name="a"), lp.placeholder((512, columns), "bfloat16", name="b")
    s = lp.Schedule(a @ b)
    with lp.scheduling_for(lp.machine("sm_90a")):
        made = matmul_mma(s, "matmul", block=(32, 16), warps=(2, 1), depth=128, stages=3)
    (lowered,) = lp.lower(made, "cuda")
    calls = [x for x in statements(lowered.body) if isinstance(x, InstrCall) and x.fn.name.startswith("cp_async")]
    assert any(t.buffer.name == "b_shared" for x in calls for t in x.operands) is asynchronous
    args = {"a": np.arange(64 * 512).reshape(64, 512) % 7, "b": np.arange(512 * columns).reshape(512, -1) % 5}
    assert np.array_equal(outcome(lowered, args), outcome(s.func, args))
