"""A nest that reads what nothing has written is refused where it is written, and one that may write it is not."""

# ruff: noqa: F722, F821

import pytest

import loopir as lp


def test_an_update_of_an_empty_output_is_refused() -> None:
    with pytest.raises(lp.VerifyError, match=r'f: b\[i\] \+= a\[i\] reads b, which nothing .* annotate it "inout"'):

        @lp.func
        def f(n: "size", a: "float32[n]", b: "out float32[n]"):  # pyright: ignore
            for i in range(n):
                b[i] += a[i]


def test_so_is_an_allocation_that_is_read_first() -> None:
    with pytest.raises(lp.VerifyError, match="reads c, which nothing has written; write c first"):

        @lp.func
        def f(a: "float32[8]", b: "out float32[8]"):  # pyright: ignore
            with alloc("float32[8]") as c:  # pyright: ignore
                for i in range(8):
                    b[i] = c[i] + a[i]


def test_an_index_from_the_end_is_refused() -> None:
    with pytest.raises(lp.VerifyError, match="reads a at index -1; indices count from 0, so the last is n - 1"):

        @lp.func
        def f(n: "size", a: "float32[n]", b: "out float32[n]"):  # pyright: ignore
            for i in range(n):
                b[i] = a[-1]


def test_what_other_iterations_or_a_guard_may_have_written_is_taken() -> None:
    @lp.func
    def solve(n: "size", a: "float32[n, n]", x: "out float32[n]"):  # pyright: ignore
        for i in range(n):
            with alloc("float32[1]") as t:  # pyright: ignore
                t[0] = 1.0
                for k in range(i):
                    t[0] += a[i, k] * x[k]
                x[i] = t[0]

    @lp.func
    def scan(n: "size", a: "float32[n]", x: "out float32[n]"):  # pyright: ignore
        for i in range(n):
            if i > 0:
                x[i] = x[i - 1] + a[i]
            else:
                x[i] = a[i]

    @lp.func
    def select(n: "size", a: "float32[n]", x: "out float32[n]"):  # pyright: ignore
        for i in range(n):
            x[i] = a[i] if i == 0 else x[i - 1] + a[i]

    assert len({lp.Schedule(f).func.name for f in (solve, scan, select)}) == 3


def test_an_element_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        lp.VerifyError, match=r"f: b\[i\] = a\[i \+ 1\] is outside of a: at i=7, index 0 is 8, and a has 8"
    ):

        @lp.func
        def f(a: "float32[8]", b: "out float32[8]"):  # pyright: ignore
            for i in range(8):
                b[i] = a[i + 1]

    with pytest.raises(lp.VerifyError, match=r"g: b\[8\] = 1.0 is outside of b: index 0 is 8"):

        @lp.func
        def g(b: "out float32[8]"):  # pyright: ignore
            b[8] = 1.0


def test_what_a_guard_or_a_size_may_leave_out_is_taken() -> None:
    @lp.func
    def f(n: "size", a: "float32[8]", b: "inout float32[8]", at: "int32[8]"):  # pyright: ignore
        for i in range(8):
            if i < 7:
                b[i] = a[i + 1]
            b[i] = select(i < 7, a[i + 1], 0.0)  # pyright: ignore
            b[i] = a[at[i]]
        for j in range(n):
            b[j + 1] = 0.0

    assert f.sizes == ("n",)
