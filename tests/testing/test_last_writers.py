"""Last-writer traces: equal after a reordering that every read survives, and else told apart by an element."""

import pytest

import loopir as lp
from loopir.testing.oracles.last_writers import comparable, differing

SOURCE = lp.parse("""
def f(n: "size", A: "float32[n + 1, n + 1]", B: "inout float32[n + 1, n + 1]"):
    for i in range(n):
        for j in range(n):
            B[i + 1, j] = B[i, j] + A[i, j]
""")


@pytest.mark.parametrize("n", range(4))
def test_a_legal_interchange_has_the_same_last_writers(n: int) -> None:
    after = lp.Schedule(SOURCE).reorder("j", "i").func
    assert comparable(SOURCE, after)
    assert differing(SOURCE, after, {"n": n}) is None


def test_a_reversed_recurrence_has_others() -> None:
    text = lp.text(SOURCE).replace("B[i + 1, j]", "B[n - i, j]").replace("B[i, j]", "B[n - 1 - i, j]")
    text = text.replace("A[i, j]", "A[n - 1 - i, j]")
    assert (found := differing(SOURCE, lp.parse(text), {"n": 3})) is not None
    assert found.startswith("B[")


def test_renamed_statements_are_not_compared() -> None:
    assert not comparable(SOURCE, lp.Schedule(SOURCE).rename("B", "C").func)


def test_a_statement_that_reads_what_it_computed_is_not_compared() -> None:
    before = lp.Schedule(
        lp.parse("""
def f(A: "float32[8]", S: "out float32[1]", E: "out float32[8]"):
    for i in range(8):
        S[0] = sum(exp(A[i]), over=i, init=0.0)
    for j in range(8):
        E[j] = exp(A[j])
""")
    )
    assert not comparable(before.func, before.compute_once("E", "S").func)


def test_a_statement_that_reads_a_copy_in_place_of_an_array_is_not_compared() -> None:
    before = lp.Schedule(
        lp.parse("""
def f(A: "float32[8]", B: "out float32[8]", C: "out float32[8]"):
    with alloc("float32[8]") as T:
        for i in range(8):
            T[i] = A[i]
        for j in range(8):
            B[j] = T[7 - j]
    with alloc("float32[8]") as U:
        for k in range(8):
            U[k] = A[k]
        for h in range(8):
            C[h] = U[7 - h]
""")
    )
    assert not comparable(before.func, before.compute_once("T", "U").func)


def test_arrays_that_share_memory_are_compared() -> None:
    before = lp.Schedule(
        lp.parse("""
def f(A: "float32[8]", B: "out float32[8]"):
    with alloc("float32[8]") as T, alloc("float32[8]") as U:
        for i in range(8):
            T[i] = A[i]
        for j in range(8):
            U[j] = T[j] + 1.0
        for k in range(8):
            B[k] = U[k]
""")
    )
    after = before.reuse("U", "T").func
    assert comparable(before.func, after)
    assert differing(before.func, after, {}) is None
