"""Division by sizes that are not known: by multiplication, exactly, wherever a kernel counts in ints."""

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import loopir as lp
from loopir.codegen.cuda.emit import emit
from loopir.codegen.fast_division import reciprocal
from loopir.codegen.host import host_source
from schedules.cuda.elementwise import elementwise

MOST = (1 << 31) - 1


@given(st.integers(0, MOST), st.integers(1, MOST))
@example(MOST, 1)
@example(MOST, MOST)
@example(MOST - 1, MOST)
@example(MOST, (1 << 30) + 1)
@example(MOST, 3)
def test_a_product_and_a_shift_are_the_quotient(n: int, d: int) -> None:
    by = reciprocal(d)
    low, shift = by & 0xFFFFFFFF, by >> 32
    assert by < 1 << 37
    for x in {n, n // d * d, max(0, n // d * d - 1)}:
        assert ((2 * x * low) >> 32) >> shift == x // d, "as lp_quotient computes it, in 32 bits"


@pytest.mark.parametrize("d", [0, -1, 1 << 31, 1 << 40])
def test_what_no_int_is_divided_by_has_none(d: int) -> None:
    assert reciprocal(d) == 0


def test_rows_of_unknown_length_divide_by_multiplying() -> None:
    n, m = lp.symbol("n"), lp.symbol("m")
    x, w = lp.placeholder((n, m), "float32", name="x"), lp.placeholder((m,), "float32", name="w")
    s = elementwise(lp.Schedule((x * w).named("y")), "y")
    (lowered,) = lp.lower(s, "cuda")
    short, long = emit(lowered), emit(lowered, long=True)
    last = short.source.rpartition("extern")[2]
    assert "lp_quotient(" in last
    assert "% m" not in last
    assert "% m" in long.source.rpartition("extern")[2], "what counts in 64 bits divides"
    assert [k.params for k in short.kernels] == [k.params for k in long.kernels], "either takes what the host gives"
    assert ("reciprocal", "lp_reciprocal(m)") in short.kernels[-1].params
    told = host_source(lowered, lambda k, _: [", ".join(name for _, name in short.kernels[k].params)])
    assert "lp_reciprocal(m)" in told


def test_the_interpreter_and_a_cpu_divide_as_ever() -> None:
    n, m = lp.symbol("n"), lp.symbol("m")
    x, w = lp.placeholder((n, m), "float32", name="x"), lp.placeholder((m,), "float32", name="w")
    a, b = np.arange(21, dtype=np.float32).reshape(3, 7), np.arange(7, dtype=np.float32)
    s = lp.Schedule((x * w).named("y"))
    np.testing.assert_array_equal(s.fuse("i", "j").build("llvm")(a, b), a * b)
