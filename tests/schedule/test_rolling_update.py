"""rolling_update: exact over a field in which exp is a homomorphism, right in float32, refused with numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from attention_programs import attention, blocked, exact, flash, reference
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.grammar import Func
from loopir.testing.checking import judge_case
from loopir.testing.fuzz import QUICK
from loopir.testing.generate.candidate_steps import random_candidate_steps
from loopir.testing.generate.chains import chained_folds
from loopir.testing.generate.strategies import arrays_for
from loopir.testing.oracles.oracles import Case


def real(s: lp.Schedule, shapes: Mapping[str, tuple[int, ...]], target: str) -> list[Any]:
    some = np.random.default_rng(2)
    out = s.build(target)(*(some.standard_normal(n).astype(np.float32) for n in shapes.values()))
    return [*out] if isinstance(out, tuple) else [out]


ROWS = """
def f(A: "float32[3, 8]", V: "float32[8]", T: "out float32[3]"):
    for i in range(3):
        with alloc("float32[1]") as M:
            for jo in range(4):
                for j in range(2):
                    M[0] = {r}({of}, over=(jo, j), init={r0})
            for ko in range(4):
                for k in range(2):
                    T[i] = {t}({term}, over=(ko, k), init={t0})
"""
SHAPES = {"A": (3, 8), "V": (8,)}
A, C, V = "A[i, jo * 2 + j]", "A[i, ko * 2 + k]", "V[ko * 2 + k]"
CORRECTED = {
    "sum of powers": ("max", A, "-inf", "sum", f"exp({C} - M[0])", "0.0"),
    "of two, scaled": ("max", A, "-inf", "sum", f"exp2({C} * 0.18 - M[0] * 0.18) * {V}", "0.0"),
    "below a minimum": ("min", A, "inf", "sum", f"exp(M[0] - {C}) * {V}", "0.0"),
    "softcap": ("max", f"tanh({A} / 30.0) * 30.0", "-inf", "sum", f"exp(tanh({C} / 30.0) * 30.0 - M[0]) * {V}", "0.0"),
    "rms norm of a product": ("sum", f"{A} * {A}", "0.0", "sum", f"{C} * rsqrt(M[0] * 0.125 + 0.00001) * {V}", "0.0"),
    "quantised by the largest": ("max", f"abs({A})", "-inf", "sum", f"{C} / maximum(M[0], 0.000001) * {V}", "0.0"),
    "shares of what is positive": ("sum", f"exp({A})", "0.0", "sum", f"exp({C}) / (M[0] + 0.5)", "0.0"),
    "masked": ("max", A, "-inf", "sum", f"select(2 <= ko * 2 + k, exp({C} - M[0]), 0.0)", "0.0"),
    "at least what a row has": ("max", A, "-inf", "sum", f"exp({C} - maximum(M[0], V[i])) * {V}", "0.0"),
    "rounded in between": ("max", A, "-inf", "sum", f"float32(bfloat16(exp({C} - M[0]))) * {V}", "0.0"),
}
BY_DISTANCE = {
    "largest, shifted": ("sum", A, "0.0", "max", f"{C} - M[0]", "-inf"),
    "largest, by a power": ("sum", A, "0.0", "max", f"{C} * exp(M[0])", "-inf"),
}
REFUSED: dict[str, Any] = {
    "of some places": (("max", A, "-inf", "sum", f"exp({C} - select(ko < 2, M[0], 0.0))", "0.0"), "for each"),
    "variance": (("sum", A, "0.0", "sum", f"({C} - M[0] * 0.125) * ({C} - M[0] * 0.125)", "0.0"), "by no one amount"),
    "deviation": (("sum", A, "0.0", "sum", f"abs({C} - M[0] * 0.125)", "0.0"), "by no one amount"),
    "sigmoid": (("max", A, "-inf", "sum", f"1.0 / (1.0 + exp(M[0] - {C}))", "0.0"), "by no one amount"),
    "sign not known": (("sum", A, "0.0", "max", f"{C} * M[0]", "-inf"), "not proved to be positive"),
    "by what may be 0 on the way": (("sum", A, "0.0", "sum", f"{C} / M[0]", "0.0"), "not proved to be positive"),
    "by a largest that may be 0": (("max", f"abs({A})", "-inf", "sum", f"{C} / M[0]", "0.0"), "not proved to be pos"),
    "norm of what may be 0": (("sum", f"{A} * {A}", "0.0", "sum", f"{C} * rsqrt(M[0])", "0.0"), "not proved to be pos"),
    "power of a quotient": (("sum", A, "0.0", "sum", f"exp({C} - 1.0 / M[0])", "0.0"), "not proved to be positive"),
    "mask that counts": (
        ("max", A, "-inf", "sum", f"select(2 <= ko * 2 + k, exp({C} - M[0]), 1.0)", "0.0"),
        "cannot be corrected",
    ),
    "product": (("max", A, "-inf", "prod", f"exp({C} - M[0])", "1.0"), "a fold by prod"),
    "started": (("max", A, "-inf", "sum", f"exp({C} - M[0])", "1.0"), "starts from"),
}


def rows(case: tuple[str, ...]) -> lp.Schedule:
    return lp.Schedule(lp.parse(ROWS.format(**dict(zip(("r", "of", "r0", "t", "term", "t0"), case, strict=True)))))


@pytest.mark.parametrize("name", [*CORRECTED, *BY_DISTANCE])
def test_a_fold_that_follows_another_is_corrected(name: str) -> None:
    s = rows((CORRECTED | BY_DISTANCE)[name])
    t = s.rolling_update(("T",), "jo")
    assert "ko" not in t.loops()
    if name in CORRECTED:  # the order of a field is not that of sums
        assert exact(t, SHAPES) == exact(s, SHAPES)
    for target in ("interpret", "llvm"):
        np.testing.assert_allclose(
            real(t, SHAPES, target)[0], real(s, SHAPES, "interpret")[0], rtol=2e-2 if "rounded" in name else 1e-5
        )


@pytest.mark.parametrize("name", [*REFUSED])
def test_what_cannot_be_corrected_is_refused(name: str) -> None:
    case, told = REFUSED[name]
    with pytest.raises(lp.ScheduleError, match=told):
        rows(case).rolling_update(("T",), "jo")


OVERWRITTEN = """
def f(X: "float32[4]", Y: "inout float32[4]"):
    for i in range(2):
        Y[0] = sum(X[i], over=i)
    for k in range(2):
        Y[k]: "after" = X[k] + 1.0
"""


def test_what_overwrites_a_fold_has_to_wait_for_its_end() -> None:
    """The exception for folds is for those who read them: a store in front of later folds would be folded into."""
    with pytest.raises(lp.ScheduleError, match=r"Y at \(i=1\) writes Y\[0\], which after at \(k=0\) writes later"):
        lp.Schedule(lp.parse(OVERWRITTEN)).rolling_update(("after",), "i")


@pytest.mark.parametrize("wrong", ["none", "the other way", "twice"])
def test_the_field_tells_a_wrong_correction(wrong: str) -> None:
    s = rows(CORRECTED["sum of powers"])
    text = lp.text(s.rolling_update(("T",), "jo").func)
    faults = {
        "none": (r'T\[i\]: "T_1" = .*\n', 'T[i]: "T_1" = T[i]\n'),
        "the other way": (r"exp\(M_before\[0\] - M_finite\[0\]\)", "exp(M_finite[0] - M_before[0])"),
        "twice": (r'("T_1" = T\[i\] \* T_scale\[0\])', r"\1 * T_scale[0]"),
    }
    bad, found = re.subn(*faults[wrong], text)
    assert found == 1
    assert exact(lp.Schedule(lp.parse(bad)), SHAPES) != exact(s, SHAPES)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.sampled_from([*CORRECTED]), st.booleans())
def test_any_sizes_and_blocks(n: int, m: int, block: int, name: str, known: bool) -> None:
    r, of, r0, t, term, t0 = CORRECTED[name]
    if "select" in term:
        return
    size = str(n) if known else "n"
    text = f"""
def f({"" if known else 'n: "size", '}A: "float32[{m}, {size}]", V: "float32[{size} + {m}]", T: "out float32[{m}]"):
    {"" if known else "assume(1 <= n)"}
    for i in range({m}):
        with alloc("float32[1]") as M:
            for j in range({size}):
                M[0] = {r}({of.replace("jo * 2 + j", "j")}, over=j, init={r0})
            for k in range({size}):
                T[i] = {t}({term.replace("ko * 2 + k", "k")}, over=k, init={t0})
"""
    s = lp.Schedule(lp.parse(text)).split("j", block, names=("jo", "ji")).split("k", block, names=("ko", "ki"))
    u = s.rolling_update(("T",), "jo")
    shapes = {"A": (m, n), "V": (n + m,)}  # V is read at k, and at i
    assert exact(u, shapes) == exact(s, shapes)


KINDS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"mask": lambda i, j: j <= i},
    "keys after the query": {"mask": lambda i, j: i <= j},  # whole blocks of a row have nothing before others have
    "window": {"mask": lambda i, j: (i - 2 <= j) & (j <= i)},
    "causal, finite": {"mask": lambda i, j: j <= i, "finite": True},
    "softcap": {"cap": 3.0},
}
QKV = dict.fromkeys("QKV", (2, 8, 4))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [(4, 4), (4, 2), (8, 3)])
def test_attention_in_one_loop(kind: str, block: tuple[int, int]) -> None:
    how = KINDS[kind]
    s = lp.Schedule(attention(2, 8, 4, **how))
    t = flash(s, *block)
    assert exact(t, QKV) == exact(s, QKV)
    wanted = reference(
        *(np.random.default_rng(2).standard_normal((3, 2, 8, 4)).astype(np.float32)),
        **{k: v for k, v in how.items() if k != "finite"},
    )
    for target in ("interpret", "llvm"):
        some = np.random.default_rng(2).standard_normal((3, 2, 8, 4)).astype(np.float32)
        np.testing.assert_allclose(t.build(target)(*some), wanted, rtol=2e-5, atol=1e-6)
    assert max(np.prod([d.value for d in b.shape]) for b in map(t.buffer, ("S", "P"))) <= block[0] * block[1]


def test_blocks_have_to_go_along() -> None:
    s = blocked(lp.Schedule(attention(1, 8, 4)), 8, 4)
    with pytest.raises(lp.ScheduleError, match="L starts with loop 'lo_o' of 1 iterations, and 'jo' has 2"):
        s.split("lo", 2).rolling_update(("P", "L", "A"), "jo")


BESIDE = """
def f(A: "float32[8]", S: "out float32[1]", T: "out float32[1]"):
    with alloc("float32[1]") as M:
        for j in range(8):
            M[0] = max(A[j], over=j, init=-inf)
        with alloc("float32[1]") as L:
            for k in range(8):
                L[0] = sum(exp(A[k] - M[0]), over=k, init=0.0)
            S[0] = log(L[0])
        T[0] = M[0]
"""


def test_memory_that_ends_before_others_read_a_fold_is_there_for_the_loop() -> None:
    s = lp.Schedule(lp.parse(BESIDE))
    t = s.rolling_update(("L",), "j")
    assert "k" not in t.loops()
    for x, y in zip(real(s, {"A": (8,)}, "interpret"), real(t, {"A": (8,)}, "interpret"), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


SPLIT = """
def f(Q: "float32[4, 4]", K: "float32[8, 4]", V: "float32[8, 4]", O: "out float32[4, 4]"):
    with alloc("float32[2, 4]") as m, alloc("float32[2, 4]") as l, alloc("float32[2, 4, 4]") as a:
        for p in range(2):
            with alloc("float32[4, 4]") as S:
                for i in range(4):
                    for j in range(4):
                        for d in range(4):
                            S[i, j] = sum(Q[i, d] * K[p * 4 + j, d], over=d, init=0.0)
                for i1 in range(4):
                    for j1 in range(4):
                        m[p, i1] = max(S[i1, j1], over=j1, init=-inf)
                for i2 in range(4):
                    for j2 in range(4):
                        l[p, i2] = sum(exp(S[i2, j2] - m[p, i2]), over=j2, init=0.0)
                for i3 in range(4):
                    for e3 in range(4):
                        for j3 in range(4):
                            a[p, i3, e3] = sum(exp(S[i3, j3] - m[p, i3]) * V[p * 4 + j3, e3], over=j3, init=0.0)
        with alloc("float32[4]") as M, alloc("float32[4]") as L, alloc("float32[4, 4]") as A:
            for i4 in range(4):
                for p4 in range(2):
                    M[i4] = max(m[p4, i4], over=p4, init=-inf)
            for i5 in range(4):
                for p5 in range(2):
                    L[i5] = sum(l[p5, i5] * exp(m[p5, i5] - M[i5]), over=p5, init=0.0)
            for i6 in range(4):
                for e6 in range(4):
                    for p6 in range(2):
                        A[i6, e6] = sum(a[p6, i6, e6] * exp(m[p6, i6] - M[i6]), over=p6, init=0.0)
            for i7 in range(4):
                for e7 in range(4):
                    O[i7, e7] = A[i7, e7] / L[i7]
"""
NAIVE = """
def f(Q: "float32[4, 4]", K: "float32[8, 4]", V: "float32[8, 4]", O: "out float32[4, 4]"):
    with alloc("float32[4, 8]") as S, alloc("float32[4]") as M, alloc("float32[4]") as L, alloc("float32[4, 4]") as A:
        for i in range(4):
            for j in range(8):
                for d in range(4):
                    S[i, j] = sum(Q[i, d] * K[j, d], over=d, init=0.0)
        for i1 in range(4):
            for j1 in range(8):
                M[i1] = max(S[i1, j1], over=j1, init=-inf)
        for i2 in range(4):
            for j2 in range(8):
                L[i2] = sum(exp(S[i2, j2] - M[i2]), over=j2, init=0.0)
        for i3 in range(4):
            for e3 in range(4):
                for j3 in range(8):
                    A[i3, e3] = sum(exp(S[i3, j3] - M[i3]) * V[j3, e3], over=j3, init=0.0)
        for i7 in range(4):
            for e7 in range(4):
                O[i7, e7] = A[i7, e7] / L[i7]
"""


def test_parts_are_mended_by_the_same_factor() -> None:
    """The target of split keys: what `rfactor` gives, with the factor where the parts are folded."""
    shapes = {"Q": (4, 4), "K": (8, 4), "V": (8, 4)}
    assert exact(lp.Schedule(lp.parse(SPLIT)), shapes) == exact(lp.Schedule(lp.parse(NAIVE)), shapes)


CASES = {
    "a fold inside a block": (
        """
def f(A: "float32[8]", T: "out float32[1]", M: "out float32[1]"):
    with alloc("float32[4]") as B:
        for jo in range(4):
            for j in range(2):
                M[0] = max(A[jo * 2 + j], over=(jo, j), init=-inf)
        for bo in range(4):
            for b in range(2):
                B[bo] = sum(exp(A[bo * 2 + b] - M[0]), over=b, init=0.0)
        for to in range(4):
            T[0] = sum(B[to], over=to, init=0.0)
""",
        ("B", "T"),
        "is not known as an expression of M",
    ),
    "stored by two statements": (
        """
def f(A: "float32[8]", T: "out float32[1]", M: "out float32[1]"):
    with alloc("float32[8]") as P:
        for jo in range(4):
            for j in range(2):
                M[0] = max(A[jo * 2 + j], over=(jo, j), init=-inf)
        for po in range(4):
            P[po * 2] = exp(A[po * 2] - M[0])
            P[po * 2 + 1]: "odd" = exp(M[0] - A[po * 2 + 1])
        for to in range(4):
            for t in range(2):
                T[0] = sum(P[to * 2 + t], over=(to, t), init=0.0)
""",
        ("P", "T"),
        "is not the only one to store P",
    ),
    "a place that depends on it": (
        """
def f(A: "float32[8]", T: "out float32[1]", M: "out float32[1]"):
    for jo in range(4):
        for j in range(2):
            M[0] = max(A[jo * 2 + j], over=(jo, j), init=-inf)
    for to in range(4):
        for t in range(2):
            if M[0] < 3.0:
                T[0] = sum(A[to * 2 + t], over=(to, t), init=0.0)
""",
        ("T",),
        "what is done in a block depends on M",
    ),
    "over a loop around it": (
        """
def f(A: "float32[3, 8]", T: "out float32[1]"):
    for i in range(3):
        with alloc("float32[1]") as M:
            for jo in range(4):
                for j in range(2):
                    M[0] = max(A[i, jo * 2 + j], over=(jo, j), init=-inf)
            for to in range(4):
                for t in range(2):
                    T[0] = sum(exp(A[i, to * 2 + t] - M[0]), over=(i, to, t), init=0.0)
""",
        ("T",),
        "T is also over i, around 'jo'",
    ),
    "integers, which have no scales": (
        """
def f(A: "int32[8]", T: "out int32[1]", M: "out int32[1]"):
    for jo in range(4):
        for j in range(2):
            M[0] = sum(A[jo * 2 + j] * A[jo * 2 + j], over=(jo, j), init=0)
    for to in range(4):
        for t in range(2):
            T[0] = sum(A[to * 2 + t] * (M[0] + 1), over=(to, t), init=0)
""",
        ("T",),
        "of integers",
    ),
    "terms of rows that have folded nothing": (
        """
def f(A: "float32[8]", T: "out float32[1]", M: "out float32[1]"):
    for jo in range(4):
        for j in range(2):
            if 3 <= jo * 2 + j:
                M[0] = max(A[jo * 2 + j], over=(jo, j), init=-inf)
    for to in range(4):
        for t in range(2):
            T[0] = sum(exp(A[to * 2 + t] - M[0]), over=(to, t), init=0.0)
""",
        ("T",),
        "may fold a term where M has folded none yet",
    ),
}


@pytest.mark.parametrize("name", [*CASES])
def test_what_is_not_proved_is_refused(name: str) -> None:
    program, stages, told = CASES[name]
    with pytest.raises(lp.ScheduleError, match=told):
        lp.Schedule(lp.parse(program)).rolling_update(stages, "jo")


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(chained_folds(), st.data())
def test_chains_of_folds_keep_their_meaning(func: Func, data: st.DataObject) -> None:
    s = data.draw(random_candidate_steps(func, ["rolling_update"], most=1))
    sizes, arrays = data.draw(arrays_for(func))
    judge_case(Case(func, s.func, sizes, arrays), "", QUICK)


BITS = """
def f(A: "int32[8]", T: "out int32[1]", M: "out int32[1]"{more}):
    for jo in range(4):
        for j in range(2):
            M[0] = max(A[jo * 2 + j], over=(jo, j), init=-100)
    for ko in range(4):
        for k in range(2):
            {fold}
"""


@pytest.mark.parametrize(
    ("fold", "more"),
    [
        ("T[0] = sum(A[ko * 2 + k] & M[0], over=(ko, k), init=0)", ""),
        ("W[0], T[0] = argmax(float32(A[ko * 2 + k] - M[0]), A[ko * 2 + k], over=(ko, k), init=(-inf, 0))",
         ', W: "out float32[1]"'),
    ],
)  # fmt: skip
def test_bits_of_integers_are_refused_in_words(fold: str, more: str) -> None:
    """Folds that compare, such as argmax, combine truth values, and these were taken for numbers: a TypeError."""
    s = lp.Schedule(lp.parse(BITS.format(fold=fold, more=more)))
    error = s.why("rolling_update", ("T",), "jo")
    assert error is None or error.reason


def test_two_folds_into_one_element_are_not_corrected_twice() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[2]", M: "out float32[1]", L: "out float32[1]"):
    for i in range(2):
        M[0] = sum(A[i] * A[i], over=i, init=0.0)
    for j in range(2):
        if j < 1:
            L[0] = sum(A[j] * rsqrt(M[0] + 1.0), over=j, init=0.0, label="first")
        else:
            L[0] = sum(A[j] * rsqrt(M[0] + 1.0), over=j, init=0.0, label="then")
""")
    )
    told = s.why("rolling_update", ("first", "then"), "i")
    assert told is not None
    assert told.reason == "first and then both fold into L, which is corrected for one fold alone"
