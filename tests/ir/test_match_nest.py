"""A nest is what an instruction means exactly where it computes the same of the same elements."""

from itertools import permutations

import pytest
from own_instruction import matmul, tiled

import loopir as lp
from loopir.ir.grammar import InstrRegion
from loopir.ir.instr.match_nest import match
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import statements


@pytest.mark.parametrize("order", ["".join(p) for p in permutations("ij")])
@pytest.mark.parametrize("value", ["A[i, k] * B[k, j]", "B[k, j] * A[i, k]"])
def test_order_names_and_sides_of_a_product_do_not_matter(order: str, value: str) -> None:
    s = tiled(value=value).reorder(*(f"{v}_i" for v in order)).tensorize(f"{order[0]}_i", "outer4")
    (do,) = (x for x in statements(s.func.body) if isinstance(x, InstrRegion))
    found = match(do)
    assert {p: o.buffer.name for p, o in found.operands.items()} in ({"A": "A", "B": "B", "C": "C"},)
    assert found.operands["C"].dims == (0, 1)
    assert found.loops == {"i": "i_i", "j": "j_i"}


def test_a_transposed_target_swaps_the_operands() -> None:
    s = lp.Schedule(
        parse("""
def f(A: "float32[4]", B: "float32[4]", C: "inout float32[4, 4]"):
    for i in range(4):
        for j in range(4):
            C[j, i] += A[i] * B[j]
""")
    )
    (do,) = (x for x in statements(s.tensorize("i", "outer4").func.body) if isinstance(x, InstrRegion))
    found = match(do)
    assert {p: o.buffer.name for p, o in found.operands.items()} == {"A": "B", "B": "A", "C": "C"}
    assert found.loops == {"i": "j", "j": "i"}


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"value": "A[i, k] + B[k, j]"}, "it takes an operation mul where there is an operation add"),
        ({"value": "A[i, k] * 2.0"}, "it takes an element of B where there is the constant 2.0"),
        ({"value": "A[i, k] * A[i, k]"}, "A is no operand B: it moves along i_i, not j_i"),
        ({"value": "A[i, k] * B[k, 11 - j]"}, "is not an offset, alone or plus one of its loops"),
        ({"value": "A[i, k] * B[k, j] * A[i, k]"}, "it takes an element of B where there is an operation mul"),
        ({"value": "A[i, k] * float32(j)"}, "it takes an element of B where there is another value"),
    ],
)
def test_what_differs_is_said(how: dict[str, str], reason: str) -> None:
    s = tiled(**how)
    error = s.why("tensorize", "i_i", "outer4")
    assert error is not None
    assert "the nest of 'i_i' is not what outer4 does" in str(error)
    assert reason in str(error)


def test_extents_and_nesting_are_said() -> None:
    assert "its loops run i 4, j 4 times, and here are j_i 4" in str(tiled().why("tensorize", "j_i", "outer4"))
    assert "here are i (" not in str(matmul().why("tensorize", "i", "outer4"))
    assert "k (not constant)" in str(matmul().why("tensorize", "i", "outer4"))
    s = matmul().split("i", 4).split("j", 5).reorder("i_o", "j_o", "k", "i_i", "j_i")
    assert "right inside one another" in str(s.why("tensorize", "i_i", "outer4"))  # the guard of the tail


def test_a_fold_that_starts_inside_is_no_instruction() -> None:
    s = lp.Schedule(
        parse("""
def f(A: "int8[8, 4]", B: "int8[4]", C: "out int32[8]"):
    for i in range(8):
        for k in range(4):
            C[i] = sum(int32(A[i, k]) * int32(B[k]), over=k, init=0)
""")
    )
    error = s.why("tensorize", "k", "dp4a")
    assert "C starts anew inside it" in str(error)
    assert s.split("k", 4).why("tensorize", "k_i", "dp4a") is None


def test_what_is_written_is_not_read_beside_that() -> None:
    """An instruction reads all before it writes; its loops do not."""
    s = lp.Schedule(
        parse("""
def f(X: "inout float32[8, 8]"):
    for i in range(4):
        for j in range(4):
            X[i, j] += X[i, 4] * X[0, j]
""")
    )
    assert "X is written, and read beside that" in str(s.why("tensorize", "i", "outer4"))


def test_runs_have_to_be_aligned() -> None:
    s = lp.Schedule(
        parse("""
def f(A: "int8[64]", B: "int8[64]", C: "inout int32[1]"):
    for o in range(7):
        for k in range(4):
            C[0] += int32(A[o * 4 + k + 1]) * int32(B[o * 4 + k])
""")
    )
    assert "which is no multiple of 4" in str(s.why("tensorize", "k", "dp4a"))
    rows = lp.Schedule(
        parse("""
def f(n: "size", A: "int8[8, n]", B: "int8[4]", C: "out int32[8]"):
    assume(4 <= n)
    for i in range(8):
        C[i] = 0
        for k in range(4):
            C[i] += int32(A[i, k]) * int32(B[k])
""")
    )
    error = rows.why("tensorize", "k", "dp4a")
    assert "4 elements along dimension 1 are not known to lie together, at a multiple of 4 bytes" in str(error)
