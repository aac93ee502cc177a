"""A vectorized loop over which its one statement folds: kept as one loop in the schedule, halves in the kernel."""

import numpy as np
import pytest

import loopir as lp
from loopir.ir.grammar import Loop
from loopir.ir.printer import text
from loopir.ir.traverse.walk import statements
from loopir.lower.common.expand_vector_reductions import expand_vector_reductions
from loopir.lower.target import target
from loopir.testing import assert_equivalent
from loopir.testing.oracles.loop_kinds import broken_promise

NEST = """
def f(A: "float32[8, {n}]", S: "inout float32[8]"):
    for i in range(8):
        for k in vectorize({n}):
            S[i] = sum({value}, over=k)
"""
OPERATORS = [lp.sum, lp.max, lp.argmax, lp.prod]


def test_halves_of_a_vector_are_folded_into_one_another() -> None:
    func = lp.parse(NEST.format(n=8, value="A[i, k]"))
    assert text(expand_vector_reductions(func, target("llvm"))) == (
        'def f(A: "float32[8, 8]", S: "inout float32[8]"):\n'
        "    for i in range(8):\n"
        '        with alloc("float32[4]", scope="local") as S_lanes, '
        'alloc("float32[2]", scope="local") as S_lanes_1:\n'
        "            for k_1 in vectorize(4):\n"
        "                S_lanes[k_1] = A[i, k_1]\n"
        "            for k_2 in vectorize(4):\n"
        "                S_lanes[k_2] += A[i, k_2 + 4]\n"
        "            for k_3 in vectorize(2):\n"
        "                S_lanes_1[k_3] = S_lanes[k_3]\n"
        "            for k_4 in vectorize(2):\n"
        "                S_lanes_1[k_4] += S_lanes[k_4 + 2]\n"
        "            for k_5 in unroll(2):\n"
        "                S[i] = sum(S_lanes_1[k_5], over=k_5)\n"
    )


def test_a_gpu_unrolls_the_lanes() -> None:
    func = lp.parse(NEST.format(n=8, value="A[i, k]"))
    loops = [s.kind for s in statements(expand_vector_reductions(func, target("cuda")).body) if isinstance(s, Loop)]
    assert loops == ["serial", "unroll"]


@pytest.mark.parametrize("lanes", [1, 2, 3, 5, 12, 16])
@pytest.mark.parametrize("fold", OPERATORS)
def test_any_monoid_and_length_gives_what_the_order_gives(lanes: int, fold: object) -> None:
    x = lp.placeholder((4, lanes * 3), "float32", name="x")
    s = lp.Schedule(fold(x, axis=1))  # type: ignore[operator]
    t = s.split(s.loops()[-1], lanes)
    t = t.vectorize(t.last.loops[-1])
    assert t.validate()
    a = np.random.default_rng(lanes).integers(-3, 4, (4, lanes * 3)).astype(np.float32)
    want = s.build("interpret")(a)
    assert np.array_equal(t.build("interpret")(a), want)
    assert np.array_equal(t.build("llvm")(a), want)


def test_what_else_stands_in_the_lanes_is_no_vector_reduction() -> None:
    s = lp.Schedule(
        lp.parse("""
        def f(A: "float32[8, 8]", S: "inout float32[8]", B: "out float32[8, 8]"):
            for i in range(8):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k)
                    B[i, k] = S[i]
        """)
    )
    refusal = s.why("vectorize", "k")
    assert refusal is not None
    assert "the lanes of 'k' would run together" in str(refusal)
    itself = lp.parse(NEST.format(n=8, value="A[i, k] * S[i]").replace("vectorize", "range"))
    assert lp.Schedule(itself).why("vectorize", "k") is not None  # each fold reads the one before it


def test_a_vector_reduction_is_equivalent_under_every_value_domain() -> None:
    x = lp.placeholder((4, 24), "float32", name="x")
    s = lp.Schedule(lp.sum(x * x, axis=1)).split("j", 8)
    assert_equivalent(s, s.rfactor("sum", "j_i").vectorize("j_i").vectorize("j_i_1"))
    assert_equivalent(s, s.vectorize("j_i"))


def test_the_promise_of_lanes_that_are_folded_is_kept_in_any_order() -> None:
    assert broken_promise(lp.parse(NEST.format(n=8, value="A[i, k]")), {}) is None
    itself = lp.parse(NEST.format(n=8, value="A[i, k] * S[i]"))
    assert broken_promise(itself, {}) is not None


def test_atomic_folds_of_lanes_come_one_after_another_in_the_oracle_too() -> None:
    nest = lp.parse(NEST.format(n=8, value="A[i, k]"))
    label = next(iter(lp.Schedule(nest).stages))
    atomic = lp.Schedule(nest).atomic(label)
    assert broken_promise(atomic.func, {}) is None
