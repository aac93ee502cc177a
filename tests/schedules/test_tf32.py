"""Products in TF32 on tensor cores: said in the program, and rounded in the interpreter as by the instruction."""

import numpy as np
import pytest

import loopir as lp
from loopir.interp.interpret import interpret
from loopir.ir.layout.layouts import fragment_elements
from loopir.ir.ops import INSTRUCTIONS, REGISTRY
from schedules.cuda.matmul_mma import matmul_mma


def product(lies: str, m: int, n: int, k: int) -> lp.Schedule:
    a = lp.placeholder((k, m) if lies[0] == "t" else (m, k), "float32", name="A")
    b = lp.placeholder((n, k) if lies[1] == "t" else (k, n), "float32", name="B")
    left, right = (x.T if how == "t" else x for x, how in zip((a, b), lies, strict=True))
    return lp.Schedule(lp.relu(lp.tf32(left) @ lp.tf32(right)))


def test_it_is_rounded_to_eleven_bits_of_significand() -> None:
    """Against the nearest of the two neighbours of 11 bits, halves away from zero."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1 << 32, 4000).astype(np.uint32).view(np.float32)
    edges = [1 + 2.0**-11, 1 + 2.0**-11 - 2.0**-23, -1 - 2.0**-11, 0.0, -0.0, np.inf, -np.inf, 1e-45, 3.3999e38]
    x = np.concatenate([x[np.isfinite(x) & (np.abs(x) > 1e-30) & (np.abs(x) < 1e30)], np.float32(edges)])
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        unit = 2.0 ** (np.floor(np.log2(np.abs(wide))) - 10)
        near = np.sign(wide) * np.floor(np.abs(wide) / unit + 0.5) * unit
        below = np.sign(wide) * np.floor(np.abs(wide) / unit) * unit
    for name, want in (("tf32", near), ("tf32_below", below)):
        found = REGISTRY[name].meaning(x)
        plain = np.isfinite(want) & (np.abs(wide) > 1e-30) & (np.abs(wide) < 1e38)
        assert np.array_equal(found[plain], want[plain])
        assert np.array_equal(REGISTRY[name].meaning(found), found)
        assert np.isnan(REGISTRY[name].meaning(np.array([0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32))).all()


@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt"])
def test_a_tile_is_the_product_of_rounded_operands(lies: str) -> None:
    m, n, k = 20, 16, 12
    s = matmul_mma(product(lies, m, n, k), "matmul", block=(16, 16), warps=(1, 1), depth=8, stages=1)
    assert "mma_m16n8k8_tf32" in lp.text(s.func)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, x) * (1 + rng.integers(-1, 2, x) * 2.0**-12) for x in ((m, k), (k, n)))
    given = [np.float32(x.T if how == "t" else x) for x, how in zip((a, b), lies, strict=True)]
    found = interpret(lp.lower(s, "cuda")[0], [np.ascontiguousarray(x) for x in given])["out"]
    assert np.array_equal(found, np.maximum(np.rint(a) @ np.rint(b), 0))


def test_a_product_that_is_not_rounded_is_refused() -> None:
    a, b = (lp.placeholder((64, 64), "float32", name=x) for x in "AB")
    with pytest.raises(lp.ScheduleError, match="nor rounded by lp"):
        matmul_mma(lp.Schedule(lp.relu(a @ b)), "matmul", block=(32, 32), warps=(1, 1))


def test_registers_are_those_of_the_manual() -> None:
    """PTX ISA, "Matrix Fragments for mma.m16n8k8", .tf32: row and column of a_i and b_i."""
    _, a, b = (x.buffer.layout for x in INSTRUCTIONS["mma_m16n8k8_tf32"].meaning.args)
    for t in range(32):
        group, thread = t >> 2, t % 4
        for i in range(4):
            row, column = group + (8 if i in (1, 3) else 0), thread + (4 if i >= 2 else 0)
            assert tuple(fragment_elements(a)[t, i]) == (row, column)
        for i in range(2):
            assert tuple(fragment_elements(b)[t, i]) == (thread + 4 * i, group)
