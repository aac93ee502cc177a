"""Lanes move whole vectors of global memory where offsets are side by side and aligned; the nests, before and after."""

from textwrap import dedent, indent

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp
from loopir.errors import ScheduleError
from loopir.ir.grammar import Int, Loop, Store
from loopir.ir.traverse.walk import statements
from loopir.lower.gpu.vectorize_memory import VECTOR_BYTES, vectorize_memory
from loopir.lower.target import target

GPU = target("cuda")
HEAD = 'def f(n: "size", A: "{0}[16 * n]", B: "inout {0}[16 * n]"):\n'


def program(body: str, dtype: str = "float32") -> lp.Func:
    return lp.parse(HEAD.format(dtype) + indent(dedent(body).strip("\n"), "    ") + "\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # whole vectors to registers, lanes on these, whole vectors back
            """
            for i in range(2 * n):
                for v in vectorize(8):
                    B[i * 8 + v] = A[i * 8 + v] + A[i]
            """,
            """
            for i in range(2 * n):
                with alloc("float32[8]", scope="local") as B_v, alloc("float32[8]", scope="local") as A_v:
                    for v_2 in vectorize(4):
                        A_v[v_2]: "A_v_0" = A[i * 8 + v_2]
                    for v_3 in vectorize(4):
                        A_v[4 + v_3]: "A_v_1" = A[i * 8 + 4 + v_3]
                    for v_1 in unroll(8):
                        B_v[v_1]: "B_v_1" = A_v[v_1] + A[i]
                    for v_4 in vectorize(4):
                        B[i * 8 + v_4]: "B_0" = B_v[v_4]
                    for v_5 in vectorize(4):
                        B[i * 8 + 4 + v_5]: "B_1" = B_v[4 + v_5]
            """,
        ),
        (  # what is only copied into registers is loaded there
            """
            for i in range(4 * n):
                with alloc("float32[4]", scope="local") as T:
                    for v in vectorize(4):
                        T[v] = A[i * 4 + v]
                    for w in vectorize(4):
                        B[w * 4 * n + i] = T[w]
            """,
            """
            for i in range(4 * n):
                with alloc("float32[4]", scope="local") as T:
                    for v_1 in vectorize(4):
                        T[v_1]: "T_0" = A[i * 4 + v_1]
                    for w_1 in unroll(4):
                        B[w_1 * 4 * n + i] = T[w_1]
            """,
        ),
        (  # more than stores is unrolled as it is
            """
            for i in range(4 * n):
                for v in vectorize(4):
                    if v < 3:
                        B[i * 4 + v] = A[i * 4 + v]
            """,
            """
            for i in range(4 * n):
                for v in unroll(4):
                    if v < 3:
                        B[i * 4 + v] = A[i * 4 + v]
            """,
        ),
        (  # an arm that may be out of bounds is not loaded
            """
            for i in range(4 * n):
                for v in vectorize(4):
                    B[i * 4 + v] = select(v < 2, A[i * 4 + v], 0.0)
            """,
            """
            for i in range(4 * n):
                with alloc("float32[4]", scope="local") as B_v:
                    for v_1 in unroll(4):
                        B_v[v_1]: "B_v_1" = select(v_1 < 2, A[i * 4 + v_1], 0.0)
                    for v_2 in vectorize(4):
                        B[i * 4 + v_2]: "B_0" = B_v[v_2]
            """,
        ),
    ],
    ids=["vectors", "a copy", "a test", "an arm"],
)
def test_a_nest_becomes(before: str, after: str) -> None:
    assert lp.text(vectorize_memory(program(before), GPU)) == lp.text(program(after))


@pytest.mark.parametrize(
    ("at", "whole"),
    [
        ("i * 4 + v", True),
        ("v + (i + 1) * 8", True),
        ("i * 12 + 4 + v", True),
        ("i * 4 + v + 1", False),
        ("i * 4 + 2 * v", False),
        ("i * 3 + v", False),
        ("16 * n - 1 - i * 4 - v", False),
        ("(i * 4 + v) % 7", False),
        ("i * n + v", False),
    ],
)
def test_a_vector_is_side_by_side_from_where_one_may_begin(at: str, whole: bool) -> None:
    func = program(f"for i in range(n):\n    for v in vectorize(4):\n        B[i * 4 + v] = A[{at}] * 2.0")
    made = vectorize_memory(func, GPU)
    assert any(isinstance(s, Store) and s.buffer.name == "A_v" for s in statements(made.body)) == whole


def test_what_a_guard_around_knows_counts() -> None:
    text = "for i in range(n):\n    if {}:\n        for v in vectorize(4):\n            B[i * 4 + v] = A[n + v]"
    for guard, whole in (("n % 4 == 0", True), ("n % 2 == 0", False)):
        made = vectorize_memory(program(text.format(guard)), GPU)
        assert any(isinstance(s, Store) and s.buffer.name == "A_v" for s in statements(made.body)) == whole


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 3])
def test_a_vector_has_16_bytes_at_most(dtype: str, lanes: int) -> None:
    func = program(f"for v in vectorize({lanes}):\n    B[v] = A[v] + A[v]", dtype)
    made = vectorize_memory(func, GPU)
    found = [s.extent for s in statements(made.body) if isinstance(s, Loop) and s.kind == "vectorize"]
    size = func.args[0].buffer.dtype.bytes
    width = min(lanes, VECTOR_BYTES // size)
    assert found == ([] if lanes in (1, 3) else [Int(width)] * (2 * lanes // width))
    assert_same(func, made, {"n": 1})


PLACES = (
    "i * 4 + v",
    "i * 4 + 3 - v",
    "i * 4 + v + 1",
    "i + v * n",
    "i * 8 + 4 + v",
    "i * 4 + v + 4",
    "v",
    "i * 8 + v * 2",
)


@settings(max_examples=15)
@given(
    st.sampled_from(PLACES[:-2]), st.lists(st.sampled_from(PLACES), min_size=1, max_size=3),
    st.sampled_from(["{}", "select(v < 2, {}, 1.0)"]), st.sampled_from("AB"), st.integers(1, 3),
)  # fmt: skip
def test_lanes_of_one_array_read_before_they_write(to: str, places: list[str], form: str, of: str, n: int) -> None:
    """Wherever lanes are legal, the meaning stays, also of an array that is updated in place."""
    value = " + ".join(form.format(f"{'AB'[k % 2] if of == 'B' else 'A'}[{at}]") for k, at in enumerate(places[::-1]))
    s = lp.Schedule(program(f"for i in range(n):\n    for v in range(4):\n        B[{to}] = {value}"))
    try:
        func = s.vectorize("v").func
    except ScheduleError:
        return
    assert_same(func, vectorize_memory(func, GPU), {"n": n})
