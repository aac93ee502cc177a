"""Instructions of a CPU by their words: each does in code what its nest means, of any numbers; others are told."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.codegen.llvm.issue import SPELLINGS
from loopir.errors import LowerError
from loopir.ir.ops import INSTRUCTIONS

STREAMED = """
def f(A: "{t}[{n}]", B: "out {t}[{n}]"):
    with alloc("{t}[{n}]", scope="local") as c:
        for i in range({n}):
            c[i] = A[i] + A[i]
        for j in range({n}):
            B[j] = c[j]
"""
WOVEN = """
def f(A: "{t}[{h}, {w}]", B: "out {to}[{h}, {w}]"):
    with alloc("{to}[{h}, {w}]", layout=mapped(lambda k, x: x * {h} + k)) as T:
        for k in range({h}):
            for x in range({w}):
                T[k, x] = {value}
        for y in range({h}):
            for z in range({w}):
                B[y, z] = T[y, z]
"""
DOT = """
def f(A: "{one}[{k}]", B: "{many}[{k}, {n}]", C: "inout {sums}[{n}]"):
    with alloc("{many}[{k}, {n}]", layout=mapped(lambda k, x: x * {k} + k)) as T:
        with alloc("{sums}[{n}]", scope="local") as c:
            for p in range({k}):
                for x in range({n}):
                    T[p, x] = B[p, x]
            for i in range({n}):
                c[i] = C[i]
            for j in range({n}):
                for k in range({k}):
                    c[j] += {sums}(A[k]) * {sums}(T[k, j])
            for o in range({n}):
                C[o] = c[o]
"""


def some(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Whole numbers, the least and the largest among them."""
    t = np.dtype(getattr(ml_dtypes, dtype, dtype))
    least, most = (np.iinfo(t).min, np.iinfo(t).max) if t.kind in "iu" else (-9, 9)
    rng = np.random.default_rng(seed)
    return np.where(rng.integers(0, 3, shape) == 0, rng.choice([least, most], shape),
                    rng.integers(max(least, -99), min(most, 99) + 1, shape)).astype(t)  # fmt: skip


def same(s: lp.Schedule, t: lp.Schedule, *arrays: np.ndarray) -> None:
    """The code of `t` gives what the program `s` means."""
    outs = [[x.copy() for x in arrays] for _ in range(2)]
    want, got = s.build("interpret")(*outs[0]), t.build("llvm")(*outs[1])
    np.testing.assert_array_equal(outs[1][-1] if got is None else got, outs[0][-1] if want is None else want)


@settings(max_examples=4)
@given(
    st.sampled_from([("float32", 4), ("float32", 32), ("uint8", 16), ("float64", 8), ("bfloat16", 8)]),
    st.integers(0, 99),
)
def test_a_vector_is_stored_past_the_caches(how: tuple[str, int], seed: int) -> None:
    t, n = how
    s = lp.Schedule(lp.parse(STREAMED.format(t=t, n=n)))
    streamed = s.tensorize("j", f"stream_{n}_{t}")
    assert "!nontemporal" in streamed.build("llvm").source
    same(s, streamed, some((n,), t, seed) // 2 if "int" in t else some((n,), t, seed))


@settings(max_examples=4)
@given(
    st.sampled_from([(2, 8, "int8", "int16"), (2, 4, "int16", ""), (4, 16, "uint8", ""), (2, 16, "bfloat16", "")]),
    st.integers(0, 99),
)
def test_rows_are_woven_until_they_are_one(how: tuple[int, int, str, str], seed: int) -> None:
    h, w, t, to = how
    value = f"{to}(A[k, x])" if to else "A[k, x]"
    s = lp.Schedule(lp.parse(WOVEN.format(t=t, to=to or t, h=h, w=w, value=value)))
    same(s, s.tensorize("k", f"weave_{h}_{w}_{t}" + (f"_{to}" if to else "")), some((h, w), t, seed))


@pytest.mark.parametrize(("name", "one", "many", "sums"), [("dot2_8_int16", "int16", "int16", "int32")])
def test_products_of_neighbours_are_added_up(name: str, one: str, many: str, sums: str) -> None:
    s = lp.Schedule(lp.parse(DOT.format(one=one, many=many, sums=sums, k=2, n=8)))
    t = s.tensorize("j", name)
    if "avx2" not in lp.cpu_features():
        pytest.skip("vectors of 32 bytes are AVX2's")
    for seed in range(3):
        same(s, t, some((2,), one, seed), some((2, 8), many, seed + 9), some((8,), sums, seed + 99))


def test_a_word_that_nobody_knows_is_told() -> None:
    text = 'def NAME(A: "float32[8]", B: "out float32[8]"):\n    for i in range(8):\n        B[i] = sqrt(A[i])\n'
    assert "cake" not in SPELLINGS
    try:
        fn = lp.instruction(llvm="cake", at={"A": lp.Pointer((0,), run=8), "B": lp.Pointer((0,), run=8)})(
            text.replace("NAME", "a_cake")
        )
        with pytest.raises(LowerError, match="is spelt llvm='cake', which is no word of loopir's; write an intrinsic"):
            lp.Schedule(lp.parse(text.replace("NAME", "f"))).tensorize("i", fn.name).build("llvm")
    finally:
        del INSTRUCTIONS["a_cake"]
