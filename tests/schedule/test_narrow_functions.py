"""narrow_functions: taken where 16 bits are all that is seen of a function, and refused wherever more is."""

import numpy as np
import pytest

import loopir as lp

CHAIN = """
def f(A: "float32[5, 9]", V: "float32[9]", B: "out {out}[5]"):
    with alloc("{held}[5, 9]") as P, alloc("float32[5]") as S, alloc("float32[5]") as T:
        for i in range(5):
            for j in range(9):
                P[i, j] = {power}
        for i_1 in range(5):
            for j_1 in range(9):
                S[i_1] = {total}
        for i_2 in range(5):
            for j_2 in range(9):
                T[i_2] = sum(float32(P[i_2, j_2]) * V[j_2], over=j_2, init=0.0)
            T[i_2]: "scaled" = {scaled}
        for i_3 in range(5):
            B[i_3] = {out}({result})
"""
PLAIN = {
    "out": "bfloat16", "held": "bfloat16", "power": "bfloat16(exp(A[i, j]))",
    "total": "sum(exp(A[i_1, j_1]), over=j_1, init=0.0)", "scaled": "T[i_2] * (1.0 / S[i_2])", "result": "T[i_3]",
}  # fmt: skip


def chain(**other: str) -> lp.Schedule:
    return lp.Schedule(lp.parse(CHAIN.format(**{**PLAIN, **other})))


@pytest.mark.parametrize("stage", ["P", "S"])
@pytest.mark.parametrize(
    "other",
    [
        {},
        {"out": "float16"},
        {"total": "sum(exp(A[i_1, j_1]) * abs(A[i_1, j_1]), over=j_1, init=0.0)"},
        {"total": "max(-exp(A[i_1, j_1]), over=j_1, init=-inf)"},
        {"scaled": "select(i_2 < 3, T[i_2] / sqrt(S[i_2]), 1.0)"},
    ],
)
def test_what_is_rounded_to_16_bits_in_the_end(other: dict[str, str], stage: str) -> None:
    s = chain(**other)
    t = s.narrow_functions(stage)
    assert str(t).count("exp_16") == 1
    rng = np.random.default_rng(0)
    some = rng.standard_normal((5, 9)).astype(np.float32), rng.standard_normal(9).astype(np.float32)
    one, other_ = (np.asarray(x.build("interpret")(*some)).astype(np.float64) for x in (s, t))
    np.testing.assert_allclose(other_, one, rtol=2**-7)


@pytest.mark.parametrize(
    ("stage", "other", "why"),
    [
        ("S", {"out": "float32"}, "reaches B, of float32"),
        ("P", {"held": "float32", "power": "exp(A[i, j])"}, "a sum of terms that may cancel"),
        ("S", {"total": "sum(exp(A[i_1, j_1]) * A[i_1, j_1], over=j_1, init=0.0)"}, "terms that may cancel"),
        ("S", {"total": "sum(exp(A[i_1, j_1]), over=j_1, init=-1.0)"}, "terms that may cancel"),
        ("S", {"scaled": "T[i_2] - S[i_2]"}, "off by more than a part"),
        ("S", {"scaled": "log(S[i_2]) * T[i_2]"}, "off by more than a part"),
        ("S", {"scaled": "select(S[i_2] < 1.0, T[i_2], 0.0)"}, "off by more than a part"),
        ("P", {"power": "bfloat16(exp(A[i, j]) - 1.0)"}, "off by more than a part"),
        ("P", {"power": "bfloat16(A[i, j])"}, "no function that has a form"),
    ],
)
def test_what_more_is_seen_of_is_refused(stage: str, other: dict[str, str], why: str) -> None:
    with pytest.raises(lp.ScheduleError, match=why):
        chain(**other).narrow_functions(stage)


@pytest.mark.parametrize(
    "text",
    [
        # a fold goes on from what is off: the two may cancel
        """
def f(A: "float32[8]", B: "out bfloat16[1]"):
    with alloc("float32[1]") as T:
        for i in range(1):
            T[0] = exp(A[0])
        for j in range(8):
            T[0]: "more" = sum(A[j], over=j)
        B[0] = bfloat16(T[0])
""",
        # the same, between the terms of a fold
        """
def f(A: "float32[8]", B: "out bfloat16[1]"):
    with alloc("float32[1]") as T:
        for j in range(8):
            T[0]: "more" = sum(A[j], over=j, init=0.0)
            T[0] = T[0] * exp(A[j])
        B[0] = bfloat16(T[0])
""",
        # where something is stored
        """
def f(A: "float32[8]", B: "inout bfloat16[8]"):
    with alloc("float32[1]") as T:
        T[0] = exp(A[0])
        for j in range(8):
            if T[0] < 2.0:
                B[j] = bfloat16(A[j])
""",
    ],
)
def test_uses_that_are_no_part_of_a_value(text: str) -> None:
    with pytest.raises(lp.ScheduleError, match="reaches T, which"):
        lp.Schedule(lp.parse(text)).narrow_functions("T")
