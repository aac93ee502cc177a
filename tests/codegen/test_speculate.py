"""Functions under a test are evaluated without a branch where all is in registers, and inside what is there."""

import numpy as np
import pytest

import loopir as lp
import schedules

SOURCE = """
def f(n: "size", A: "float32[n]", B: "out float32[1]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[{size}]", scope="local") as a, alloc("float32[1]", scope="local") as r:
            for k in range(8):
                if k < n and k < {size}:
                    a[k] = A[k]
            for j in unroll(8):
                if j < n and j < {size}:
                    r[0] = sum({value}, over=j, init=0.0)
            B[b] = r[0]
"""


@pytest.mark.parametrize(
    ("value", "size", "branches"),
    [("exp(a[j])", 8, False), ("a[j]", 8, True), ("exp(a[j])", 7, True), ("select(j > 2, exp(a[j]), 0.0)", 8, True)],
    ids=["a function", "nothing to save", "beyond what is there", "selected"],
)
def test_which_tests_have_no_branch(value: str, size: int, branches: bool) -> None:
    s = lp.Schedule(lp.parse(SOURCE.format(value=value, size=size)))
    made = lp.compile_source(s)
    assert ("lp_had_r" in made.source) is not branches
    a = np.arange(5, dtype=np.float32)
    (lowered,) = lp.lower(s, "cuda")
    assert lp.interpret(lowered, [a])["B"] == lp.interpret(s.func, [a])["B"]


def test_softmax_of_rows_of_unknown_length() -> None:
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "bfloat16", name="x")
    s = schedules.gpu(lp.Schedule(lp.softmax(lp.cast(x, "float32")).astype("bfloat16")))
    made = lp.compile_source(s)
    assert made.source.count("lp_had_") == 10, "in the versions whose rows are in registers"
    assert all(k.spill_stores == 0 for k in made.resources.values())


CHOSEN = """
def f(A: "float32[8]", B: "out float32[1]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[8]", scope="local") as a, alloc("float32[1]", scope="local") as r:
            for k in range(8):
                a[k] = A[k]
            for j in range(8):
                r[0] = select(a[j] == -inf, 1.0, {value})
            B[b] = r[0]
"""


@pytest.mark.parametrize(("value", "branches"), [("exp(a[j] - 1.0)", False), ("a[j]", True)])
def test_a_value_that_is_selected_is_computed_without_a_branch(value: str, branches: bool) -> None:
    s = lp.Schedule(lp.parse(CHOSEN.format(value=value)))
    assert ("lp_b =" in lp.compile_source(s).source) is not branches


def test_a_fold_of_several_registers_evaluates_its_functions_once_and_selects_between_registers() -> None:
    """Loads of later elements then go out before the fold of the first."""
    x = lp.placeholder((3, 70), "float32", name="x")
    s = schedules.row_blocks(schedules.inlined(lp.Schedule(lp.logsumexp(x, axis=1) + 0.0)), threads=32)
    source = lp.compile_source(s).source
    folds = source.count("const float lp_c1 =")
    assert folds == source.count("expf(") == source.count("const float lp_f0 = expf(")
    assert not [line for line in source.splitlines() if "?" in line and "expf(" in line]
