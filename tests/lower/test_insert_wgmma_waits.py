"""Products of a warpgroup, lowered: the interpreter runs them through descriptors, registers, fences and waits."""

# ruff: noqa: E501  (nests as they are printed)

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import loopir as lp
from loopir.errors import InterpretError, TargetError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncWait, Barrier, Fence, Func, InstrCall, Stmt
from loopir.ir.layout.layouts import fragment_elements, register_tile
from loopir.ir.ops import find_instruction
from loopir.ir.traverse.walk import rewrite, statements

NEST = """
def f(A: "bfloat16[64, 128]", B: "bfloat16[{b}]", C: "out float32[64, 16]"):
    for block in bind("blockIdx.x", 1):
        with alloc("float32[64, 16]", scope="fragment") as acc:
            for ko in range(2):
                with alloc("bfloat16[64, 64]", scope="shared"{la}) as As, alloc("bfloat16[{bs}]", scope="shared"{lb}) as Bs:
                    for w in bind("warp.x", 4):
                        for l in bind("lane", 32):
                            for v in range(32):
                                As[w * 16 + l // 2, l % 2 * 32 + v] = A[w * 16 + l // 2, ko * 64 + l % 2 * 32 + v]
                    for w1 in bind("warp.x", 4):
                        for l1 in bind("lane", 32):
                            for v1 in range(8):
                                {copy}
                    for ki in unroll(4):
                        for i in range(64):
                            for j in range(16):
                                for k in range(16):
                                    acc[i, j] = sum(float32(As[i, ki * 16 + k]) * float32(Bs[{at}]), over=(ko, ki, k), init=0.0)
            for ie in range(64):
                for je in range(16):
                    C[ie, je] = acc[ie, je] + 1.0
"""
BY_ROWS = {"b": "16, 128", "bs": "16, 64", "at": "j, ki * 16 + k"}
BY_ROWS["copy"] = "Bs[w1 * 4 + l1 // 8, l1 % 8 * 8 + v1] = B[w1 * 4 + l1 // 8, ko * 64 + l1 % 8 * 8 + v1]"
BY_COLUMNS = {"b": "128, 16", "bs": "64, 16", "at": "ki * 16 + k, j"}
BY_COLUMNS["copy"] = "Bs[w1 * 16 + l1 // 2, l1 % 2 * 8 + v1] = B[ko * 64 + w1 * 16 + l1 // 2, l1 % 2 * 8 + v1]"
CORES = ", layout=mapped(lambda i, k: i // 8 * 512 + k // 8 * 64 + i % 8 * 8 + k % 8)"


def pieces(span: int, rows: int, columns: int) -> str:
    """A layout in swizzled pieces of `span` bytes, one after the other."""
    c = span // 2
    at = f"k // {c} * {rows * c} + i * {c} + (k // 8 % {c // 8} ^ i * {span} // 128 % {c // 8}) * 8 + k % 8"
    return f", layout=mapped(lambda i, k: {at})"


def product(la: str = CORES, lb: str = CORES, turned: bool = False) -> lp.Schedule:
    s = lp.Schedule(lp.parse(NEST.format(la=la, lb=lb, **(BY_COLUMNS if turned else BY_ROWS))))
    return s.tensorize("i", f"wgmma_m64n16k16_bf16{'' if turned else '_bt'}")


def arguments(turned: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (64, 128)), rng.integers(0, 9, (16, 128))
    return a, (b.T.copy() if turned else b), a @ b.T + 1


def run(func: Func, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return interpret(func, (a, b), domain="ring")["C"]


@pytest.mark.parametrize("la", [CORES, pieces(128, 64, 64), pieces(64, 64, 64)])
def test_descriptors_and_registers_give_the_product(la: str) -> None:
    a, b, want = arguments()
    (func,) = lp.lower(product(la, pieces(128, 16, 64)), "cuda")
    assert np.array_equal(run(func, a, b), want)
    assert sum(isinstance(s, InstrCall) for s in statements(func.body)) == 1


def test_a_right_operand_whose_rows_are_the_reduced_loop() -> None:
    a, b, want = arguments(turned=True)
    (func,) = lp.lower(product(pieces(128, 64, 64), pieces(32, 64, 16), turned=True), "cuda")
    assert np.array_equal(run(func, a, b), want)


def without(func: Func, gone: Callable[[Stmt], bool]) -> Func:
    def visit(s: Stmt) -> tuple[Stmt, ...] | None:
        return () if gone(s) else None

    return replace(func, body=rewrite(func.body, visit))


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        (lambda s: s == Fence("async"), "without a fence between the write and the barrier"),
        (lambda s: s == Fence("registers"), r"the register acc\[0\] to products without a fence"),
        (lambda s: isinstance(s, Barrier), "a race"),
        (lambda s: isinstance(s, AsyncWait), "has not waited for|still read"),
    ],
)
def test_what_is_left_out_is_told(gone: Callable[[Stmt], bool], told: str) -> None:
    a, b, _ = arguments()
    (func,) = lp.lower(product(), "cuda")
    with pytest.raises(InterpretError, match=told):
        run(without(func, gone), a, b)


def test_only_hopper_has_them() -> None:
    with pytest.raises(TargetError, match="wgmma_m64n16k16_bf16_bt is on sm_90a, and this is sm_80"):
        lp.compile_source(product(), "sm_80")


@pytest.mark.parametrize("n", [8, 24, 256])
def test_sums_are_held_by_128_threads(n: int) -> None:
    fn = find_instruction(f"wgmma_m64n{n}k16_bf16_bt")
    assert fn is not None
    layout = fn.meaning.args[0].buffer.layout
    assert isinstance(layout, lp.ir.grammar.Fragment)
    assert register_tile(layout) == (64, 8)
    assert fn.meaning.args[0].buffer.shape[1] == lp.ir.grammar.Int(n)
    assert tuple(fragment_elements(layout)[37, 2]) == (16 + 1 + 8, 2)  # warp 1, lane 5


def test_there_are_no_other_widths() -> None:
    assert find_instruction("wgmma_m64n12k16_bf16") is None
    assert find_instruction("wgmma_m64n264k16_bf16") is None
