"""Guards leave the lanes of a vector where all lanes agree, and only there."""

import numpy as np
import pytest

import loopir as lp
from loopir.ir.grammar import Func, If, Loop
from loopir.ir.printer import text
from loopir.ir.traverse.walk import statements
from loopir.lower.common.hoist_vector_guards import hoist_vector_guards
from loopir.lower.target import target

COPY = """
def f(n: "size", A: "float32[n]", B: "out float32[n]"):
    assume(n % 4 == 0)
    for i in range((n + 7) // 8):
        for h in range(2):
            for lane in vectorize(4):
                if {guard}:
                    B[{at}] = A[{at}]
"""


def lanes_have_guards(func: Func) -> bool:
    lanes = [s for s in statements(func.body) if isinstance(s, Loop) and s.kind == "vectorize"]
    return any(isinstance(x, If) for s in lanes for x in statements(s.body))


@pytest.mark.parametrize(
    ("guard", "at", "agree"),
    [
        ("i * 8 + h * 4 + lane < n", "i * 8 + h * 4 + lane", True),
        ("i * 8 + h * 4 + lane + 1 <= n", "i * 8 + h * 4 + lane", True),
        ("n - 1 - i * 8 - h * 4 - lane >= 0", "n - 1 - i * 8 - h * 4 - lane", True),
        ("i * 8 + h * 4 + lane < n and lane < 3", "i * 8 + h * 4 + lane", False),
        ("i * 8 + lane * 2 + h < n", "i * 8 + lane * 2 + h", False),
    ],
)
def test_tests_that_lanes_agree_on_are_made_once(guard: str, at: str, agree: bool) -> None:
    func = lp.parse(COPY.format(guard=guard, at=at).replace("out float32", "inout float32"))
    lifted = hoist_vector_guards(func, target("cuda"))
    assert lanes_have_guards(lifted) is not agree
    for n in (0, 4, 8, 12):
        arrays = [np.arange(n, dtype=np.float32) + 1, np.zeros(n, np.float32)]
        assert np.array_equal(lp.interpret(lifted, arrays)["B"], lp.interpret(func, arrays)["B"])


COPIES = """
def f(n: "size", A: "float32[n, 8]", C: "inout float32[n, 4]"):
    for i in range(n):
        for k in range(8):
            for r in unroll(4):
                if i * 3 < n and k + r < 8 and n // (i + 1) > 1:
                    C[i, r] += A[i, k + r]
"""


@pytest.mark.parametrize("name", ["llvm", "cuda"])
def test_what_is_the_same_in_all_copies_is_tested_once_where_that_is_a_branch(name: str) -> None:
    func = lp.parse(COPIES)
    lifted = hoist_vector_guards(func, target(name))
    (copies,) = [s for s in statements(lifted.body) if isinstance(s, Loop) and s.kind == "unroll"]
    (guard,) = [s for s in statements(copies.body) if isinstance(s, If)]
    assert ("i * 3 < n" in text(guard.cond)) is (name == "cuda")
    assert "k + r < 8" in text(guard.cond)
    for n in (0, 1, 4, 9):
        arrays = [np.arange(n * 8, dtype=np.float32).reshape(n, 8), np.ones((n, 4), np.float32)]
        assert np.array_equal(lp.interpret(lifted, arrays)["C"], lp.interpret(func, arrays)["C"])


def test_a_padded_copy_moves_whole_vectors() -> None:
    source = """
def f(n: "size", A: "float32[n]", B: "out float32[(n + 31) // 32 * 32]"):
    assume(n % 4 == 0)
    for i in bind("blockIdx.x", (n + 31) // 32):
        for t in bind("threadIdx.x", 8):
            for lane in vectorize(4):
                B[i * 32 + t * 4 + lane] = select(i * 32 + t * 4 + lane < n, A[i * 32 + t * 4 + lane], 0.0)
"""
    s = lp.Schedule(lp.parse(source))
    assert lp.compile_source(s).source.partition("__global__")[2].count("lp_u4") >= 2
    (lowered,) = lp.lower(s, "cuda")
    x = np.arange(12, dtype=np.float32)
    assert np.array_equal(lp.interpret(lowered, [x])["B"], np.pad(x, (0, 20)))


def test_a_division_that_a_test_keeps_from_being_made_stays_behind_it() -> None:
    func = lp.parse("""
def f(n: "size", A: "float32[8]", B: "inout float32[8]"):
    for i in range(2):
        for lane in vectorize(4):
            if lane < n and i // n == 0:
                B[i * 4 + lane] = A[i * 4 + lane]
""")
    lifted = hoist_vector_guards(func, target("llvm"))
    arrays = [np.ones(8, np.float32), np.zeros(8, np.float32)]
    for n in (0, 1, 5):
        assert np.array_equal(lp.interpret(lifted, arrays, {"n": n})["B"], lp.interpret(func, arrays, {"n": n})["B"])


@pytest.mark.parametrize("divisible", [True, False])
def test_what_an_unrolled_loop_folds_in_registers_is_tested_once(divisible: bool) -> None:
    source = f"""
def f(n: "size", A: "float32[n]", B: "out float32[(n + 31) // 32]"):
    assume(n % {4 if divisible else 2} == 0)
    for i in bind("blockIdx.x", (n + 31) // 32):
        with alloc("float32[4]", scope="local") as a:
            for lane in vectorize(4):
                if i * 32 + lane < n:
                    a[lane] = A[i * 32 + lane]
            for k in unroll(4):
                if i * 32 + k < n:
                    B[i] = sum(a[k], over=k, init=0.0)
"""
    s = lp.Schedule(lp.parse(source))
    s = s.cache_write("B", "local", "i")
    (lowered,) = lp.lower(s, "cuda")
    x = np.arange(36, dtype=np.float32)
    assert np.array_equal(lp.interpret(lowered, [x])["B"], lp.interpret(s.func, [x])["B"])
    unrolled = [s for s in statements(lowered.body) if isinstance(s, Loop) and s.kind == "unroll"]
    assert any(isinstance(x, If) for s in unrolled for x in statements(s.body)) is not divisible
