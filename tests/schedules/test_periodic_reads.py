"""Loops split where subscripts divide them: they mean the same, and lanes read side by side."""

import pytest

import loopir as lp
from loopir.testing import assert_equivalent
from schedules.llvm.auto_cpu import cpu
from schedules.llvm.periodic_reads import lanes_for_periods, split_periods


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


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ('def f(x: "float32[4]", y: "out float32[10]"):\n    for i in range(10):\n        y[i] = x[i // 3]', 1),
        (
            'def f(x: "int8[8]", y: "out int8[12]"):\n    for i in range(12):\n        y[i] = x[i // 2] * x[i % 3]',
            1,
        ),
        (  # whatever is made of the remainder
            'def f(k: "int32[4]", x: "float32[5]", y: "out float32[12]"):\n'
            "    for i in range(12):\n        y[i] = x[min(max(k[i % 4], 0), 3)] + x[i % 4 + 1]",
            2,
        ),
        (  # three digits
            'def f(x: "float32[2, 3, 5]", y: "out float32[24]"):\n'
            "    for i in range(24):\n        y[i] = x[i // 12, i // 4 % 3, i % 4]",
            3,
        ),
    ],
)
def test_a_loop_is_split_by_numbers_that_divide_one_another(text: str, loops: int) -> None:
    s = lp.Schedule(lp.parse(text))
    t = split_periods(s, s.stages[0])
    assert len(t.loops(s.stages[0])) == loops
    assert_equivalent(s, t)


@pytest.mark.parametrize("view", ["gather", "stencil", "norm"])
def test_a_flat_result_is_made_as_one_of_two_dimensions_is(view: str) -> None:
    x, k = lp.placeholder((6, 40), "float32", name="x"), lp.placeholder((36,), "int32", name="k")
    y = {
        "gather": x[:, :36] * x[:, k],
        "stencil": x[:, :36] + x[:, 4:],
        "norm": x[:, :36] - lp.sum(x, axis=1, keepdims=True),
    }
    s = lp.Schedule(y[view].reshape((216,)))
    t = cpu(s, 4)
    assert_equivalent(s, t)
    assert not any(" // " in d or " % " in d for x in t.stages for touch in t.accesses(x) for d in touch.subscripts)


@pytest.mark.parametrize(("divisor", "width"), [(2, 16), (3, 48), (5, 40), (6, 48), (7, 56), (11, 16), (100, 16)])
@pytest.mark.parametrize("size", ["13", "n"])
def test_lanes_take_whole_runs_of_a_quotient(divisor: int, width: int, size: str) -> None:
    params, long = ('n: "size", ', f"n * {divisor}") if size == "n" else ("", 13 * divisor)
    s = lp.Schedule(lp.parse(f"""
def f({params}x: "float32[2, {size}]", y: "out float32[2, {long}]"):
    for i in range(2):
        for j in range({long}):
            y[i, j] = x[i, j // {divisor}]
"""))  # fmt: skip
    found = lanes_for_periods(s, "y", "j", 16)
    assert found == width or found == 8 * divisor < 13 * divisor < width
    assert_equivalent(s, cpu(s, 16))
