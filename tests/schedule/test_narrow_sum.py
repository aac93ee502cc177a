"""narrow_sum: the same to the bit at the ends of all types, wherever it is taken; refused by one term too many."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import loopir as lp

TYPES = ("int8", "uint8", "int16", "uint16", "int32")
WIDE = ("int32", "int64")
FOLD = """
def f(A: "{a}[3, {n}]", B: "{b}[{n}]", C: "out int64[3]"):
    with alloc("int64[3]") as S:
        for i in range(3):
            for k in range({n}):
                S[i] = sum({term}, over=k, init={init})
        for j in range(3):
            C[j] = S[j] - 1
"""


@st.composite
def terms(draw: st.DrawFn, depth: int = 2) -> str:
    """A term of int64, of the elements `A[i, k]` and `B[k]` and constants."""
    wide = draw(st.sampled_from(WIDE))
    leaf = st.sampled_from((f"{wide}(A[i, k])", f"{wide}(B[k])", f"{wide}(3)", f"{wide}(int8(A[i, k]))"))

    def inside(n: int) -> str:
        if n == 0:
            return draw(leaf)
        x, y = inside(n - 1), inside(n - 1)
        forms = (f"({x} * {y})", f"({x} + {y})", f"({x} - {y})", f"(-{x})", f"maximum({x}, {y})", f"abs({x})", x)
        return draw(st.sampled_from(forms))

    return f"int64({inside(depth)})" if wide != "int64" else inside(depth)


@given(terms(), st.sampled_from(TYPES), st.sampled_from(TYPES), st.integers(1, 5), st.integers(-3, 3), st.data())
def test_the_same_wherever_it_is_taken(term: str, a: str, b: str, n: int, init: int, data: st.DataObject) -> None:
    s = lp.Schedule(lp.parse(FOLD.format(a=a, b=b, n=n, term=term, init=init)))
    narrow = data.draw(st.sampled_from(("int32", "uint32", "int16")))
    if s.why("narrow_sum", "S", narrow) is not None:
        return
    t = s.narrow_sum("S", narrow)
    assert t.buffer("S").dtype.name == narrow

    def array(dtype: str, *shape: int) -> np.ndarray:
        ends = (np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1)
        values = data.draw(st.lists(st.sampled_from(ends), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        return np.array(values, dtype).reshape(shape)

    given_arrays = array(a, 3, n), array(b, n)
    np.testing.assert_array_equal(*(x.build("interpret")(*given_arrays) for x in (s, t)))


@pytest.mark.parametrize(("dtype", "most"), [("int8", (1 << 17) - 1), ("uint8", 33025), ("int16", 1)])
def test_one_term_more_is_refused(dtype: str, most: int) -> None:
    for n, reason in ((most, None), (most + 1, "int32 ends at 2147483647")):
        term = "int64(A[i, k]) * int64(B[k])"
        s = lp.Schedule(lp.parse(FOLD.format(a=dtype, b=dtype, n=n, term=term, init=0)))
        why = s.why("narrow_sum", "S")
        assert (why is None) if reason is None else reason in str(why)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("S[i] = max(int64(A[i, k]), over=k, init=0)", "is no sum that starts where its loops do"),
        ("S[i] = sum(int64(A[i, k]), over=k)", "is no sum that starts where its loops do"),
    ],
)
def test_folds_of_another_kind_are_refused(source: str, reason: str) -> None:
    text = FOLD.format(a="int8", b="int8", n=3, term="int64(A[i, k])", init=0)
    text = text.replace("S[i] = sum(int64(A[i, k]), over=k, init=0)", source)
    assert reason in str(lp.Schedule(lp.parse(text)).why("narrow_sum", "S"))


def test_a_sum_that_a_guard_or_another_store_touches_is_refused() -> None:
    text = """
def f(A: "int8[9]", C: "out int64[1]"):
    with alloc("int64[1]") as S:
        for k in range(9):
            S[0] = sum(int64(A[k]), over=k, init=0)
        {}
"""
    guard = "if S[0] > 3:\n            C[0] = 1"
    for stored, reason in ((guard, "more than stores and folds read S"), ("S[0]: 'T' = 5", "not alone to write S")):
        s = lp.Schedule(lp.parse(text.format(stored.replace("'", '"'))))
        assert reason in str(s.why("narrow_sum", "S")), stored
