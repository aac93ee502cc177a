"""Loops split where subscripts divide them: they mean the same, and lanes read side by side."""

import pytest

import loopir as lp
from loopir.testing import assert_equivalent
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.periodic_reads import split_periods


def kron(n: int, m: int) -> lp.Schedule:
    a, b = lp.placeholder((3, 2), "float32", name="a"), lp.placeholder((n, m), "float32", name="b")
    return lp.Schedule(lp.reshape(a[:, None, :, None] * b[None, :, None, :], (3 * n, 2 * m)).named("y"))


@pytest.mark.parametrize(("n", "m"), [(2, 3), (4, 6), (5, 4)])
def test_a_kronecker_product_runs_over_both_factors(n: int, m: int) -> None:
    s = kron(n, m)
    t = split_periods(s, "y")
    assert len(t.loops("y")) == 4
    assert all(step is not None for x in t.accesses("y") for step in x.strides.values())
    assert_equivalent(s, t)
    assert_equivalent(s, cpu(s, 4))


def test_what_would_leave_no_vector_stays_one_loop() -> None:
    s = kron(4, 3)
    assert len(split_periods(s, "y", least=4).loops("y")) == 3


@pytest.mark.parametrize("text", [
    # parts of unlike lengths, two numbers, a gather
    'def f(x: "float32[4]", y: "out float32[10]"):\n    for i in range(10):\n        y[i] = x[i // 3]',
    'def f(x: "float32[8]", y: "out float32[12]"):\n    for i in range(12):\n        y[i] = x[i // 2] + x[i % 3]',
    'def f(k: "int32[4]", x: "float32[4]", y: "out float32[12]"):\n'
    '    for i in range(12):\n        y[i] = x[min(max(k[i % 4], 0), 3)]',
])  # fmt: skip
def test_what_no_one_number_divides_is_left_alone(text: str) -> None:
    s = lp.Schedule(lp.parse(text))
    assert split_periods(s, s.stages[0]).func == s.func
