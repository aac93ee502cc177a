"""Definitions: the instance that stores an element is solved for, and its value written out."""

import pytest

import loopir as lp
from loopir.analysis.dataflow.definitions import Definition, inlined
from loopir.ir.grammar import Store
from loopir.ir.printer import text
from loopir.ir.traverse.walk import leaf_paths


@pytest.mark.parametrize(
    ("at", "read", "told"),
    [
        ("x", "T[j + 1]", "A[j + 1, 0] * 2.0"),
        ("x + 2", "T[j]", "A[j - 2, 0] * 2.0"),
        ("3 * x", "T[3 * j]", None),  # not every element is stored
        ("7", "T[7]", None),  # by which iteration is not known
    ],
)
def test_what_is_loaded_is_written_out(at: str, read: str, told: str | None) -> None:
    first, second = leaf_paths(
        lp.parse(
            f"""
def f(A: "float32[9, 9]", B: "out float32[4]"):
    with alloc("float32[32]") as T:
        for x in range(8):
            T[{at}] = A[x, 0] * 2.0
        for j in range(2, 4):
            B[j] = {read}
""".replace("range(2, 4)", "range(4)")
        ).body
    )
    assert isinstance(first.stmt, Store)
    assert isinstance(second.stmt, Store)
    made = inlined(second.stmt.value, {"T": Definition(first.stmt, frozenset({"x"}))})
    assert text(made) == (told or read)
