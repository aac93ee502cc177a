"""Indices that 64 bits do not hold are right in compiled code, or refused in words: never a wrapped test or address."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
from loopir.codegen.cuda.emit import emit
from loopir.codegen.overflow import index_bounds, small_size
from loopir.errors import spelled
from loopir.ir.grammar import Func, Index
from loopir.ir.magnitude import LIMIT
from loopir.ir.verify.verify import evaluate
from loopir.lower.pipeline import lower
from loopir.testing.generate.extremes import Extreme, extremes

REFUSED = r"an index may come to .* compiled code counts in 64 bits|computes with|outside dimension"
HUGE = [2**62, 2**63 - 1, 2**63, 2**64, 10**4000, 10**5000]


def outcome(func: Func, target: str, given: Extreme) -> Any:
    """What a run gives, or the error that it ends in."""
    try:
        kernel = lp.Schedule(func).build(target)
        return kernel(**given.arrays, **given.sizes).tolist()
    except (lp.LoopirError, ValueError) as error:
        return error


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(extremes())
def test_compiled_code_agrees_with_the_interpreter_or_refuses(program: Extreme) -> None:
    found = outcome(program.func, "llvm", program)
    if isinstance(found, Exception):
        assert isinstance(found, lp.LowerError | lp.BoundsError | ValueError)
        found.match = REFUSED  # type: ignore[attr-defined]
        with pytest.raises(type(found), match=REFUSED):
            raise found
    else:
        assert found == outcome(program.func, "interpret", program)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(extremes(), st.lists(st.integers(0, 1 << 64), min_size=3, max_size=3))
def test_bounds_grow_with_the_sizes(program: Extreme, given: list[int]) -> None:
    """So that sizes which do not exceed the small one need no more to be asked."""
    try:
        bounds = index_bounds(lower(program.func, "llvm"))
    except lp.LowerError:
        return
    names = program.func.sizes
    small = small_size(bounds, names)
    if small >= 0:
        sizes = {n: v % (small + 1) for n, v in zip(names, given, strict=True)}
        assert all(evaluate(b, dict(sizes)) < LIMIT for b in bounds)


PRODUCT = """
def f(n: "size", A: "float32[n]", B: "inout float32[n]"):
    for i in range(n):
        if {cond}:
            B[{at}] = A[i] + 1.0
"""


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize(
    ("cond", "at"),
    [("n * n * n * n * n * n < 5", "i"), ("i + n * n * n * n * n * n < n", "i + n * n * n * n * n * n"),
     ("not (5 <= n * n * n * n * n * n)", "i")],
)  # fmt: skip
def test_a_product_of_sizes_beyond_64_bits_is_refused_before_anything_runs(target: str, cond: str, at: str) -> None:
    s = lp.Schedule(lp.parse(PRODUCT.format(cond=cond, at=at)))
    if target == "cuda":  # the host of a GPU's program asks the same
        lowered = lower(s.bind("i", "blockIdx.x").func, target)
        assert any(evaluate(b, {"n": 3000}) >= LIMIT for b in index_bounds(lowered))
        assert all(evaluate(b, {"n": 300}) < LIMIT for b in index_bounds(lowered))
        return
    kernel = s.build(target)
    b = np.zeros(3000, np.float32)
    with pytest.raises(ValueError, match=r"f is called with n=3000, and then an index may come to about 2\^70; comp"):
        kernel(np.zeros(3000, np.float32), b)
    assert not b.any()
    kernel(np.zeros(300, np.float32), b[:300])
    assert not b.any()


def test_a_guard_of_an_offset_near_the_end_does_not_wrap() -> None:
    """Numbers are taken off both sides of a test only where neither wraps by that."""
    func = lp.parse("""
def f(n: "size", p: "int64[n]", B: "out int32[n]"):
    for i in range(n):
        B[i] = 1 if index(p[i]) < i - 5 else 0
""")
    p = np.array([2**63 - 1, -(2**63), 0, -5], np.int64)
    for target in ("interpret", "llvm"):
        assert lp.Schedule(func).build(target)(p).tolist() == [0, 1, 0, 1 if -5 < -2 else 0]


@pytest.mark.parametrize("size", HUGE, ids=spelled)
@pytest.mark.parametrize(
    ("step", "args"),
    [("split", ("i",)), ("peel", ("i",)), ("skew", ("i", "j")), ("unroll_and_jam", ("i",)), ("tile", ("i", "j", 4))],
)
def test_a_step_with_a_number_that_no_loop_counts_is_refused(step: str, args: tuple[str, ...], size: int) -> None:
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "float32", name="x")
    s = lp.Schedule((x + 1.0).named("y"))
    for number in (size, -size):
        given = {"first": number} if step == "peel" else {}
        numbers = () if given else (number,)
        why = str(s.why(step, *args, *numbers, **given))
        assert "and loops count in 64 bits" in why
        assert "instead: a number below 4611686018427387904" in why
        with pytest.raises(lp.ScheduleError, match="loops count in 64 bits"):
            getattr(s, step)(*args, *numbers, **given)


@pytest.mark.parametrize("size", HUGE[1:], ids=spelled)
def test_constants_beyond_64_bits_are_exact_or_refused(size: int) -> None:
    """In text, in shapes and in guards; also those that Python does not spell."""
    func = lp.parse(PRODUCT.format(cond=f"i + {size:#x} < n", at="i"))
    assert lp.parse(str(lp.Schedule(func))) == func
    a, b = np.zeros(3, np.float32), np.zeros(3, np.float32)
    lp.Schedule(func).build("interpret")(a, b)
    assert not b.any()
    with pytest.raises(lp.LowerError, match="compiled code counts in 64 bits"):
        lp.Schedule(func).build("llvm")
    with pytest.raises(lp.LowerError, match="compiled code counts in 64 bits"):
        emit(lower(lp.Schedule(func).bind("i", "blockIdx.x").func, "cuda"))


UNSIGNED = """
def f(n: "size", p: "uint64[n]", q: "uint64[n]", r: "int64[n]", B: "out int32[n]"):
    for i in range(n):
        B[i] = 1 if {cond} else 0
"""


@pytest.mark.parametrize(
    ("cond", "tested"),
    [("index(p[i]) < index(q[i])", False), ("index(p[i]) == index(q[i])", False), ("index(p[i]) % 7 < 3", False),
     ("index(p[i]) // 3 < n", False), ("index(p[i]) // n < n", False), ("index(p[i]) < n", False),
     ("index(p[i]) <= index(r[i])", True), ("min(index(p[i]), 5) < 3", False), ("min(index(p[i]), n) % 3 < 1", True),
     ("index(p[i]) + 1 < n", True), ("index(r[i]) + i < n", True), ("index(r[i]) < n", False)],
)  # fmt: skip
def test_unsigned_numbers_are_compared_and_divided_as_they_are(cond: str, tested: bool) -> None:
    s = lp.Schedule(lp.parse(UNSIGNED.format(cond=cond)))
    edges = np.array([0, 1, 5, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    p, q = (x.reshape(-1) for x in np.meshgrid(edges, edges))
    r = q.view(np.int64)
    want = s.build("interpret")(p, q, r)
    for kernel in (s.build("llvm"), s.split("i", 4).vectorize("i_i").build("llvm")):
        if tested:
            with pytest.raises(lp.BoundsError, match=r"statement B computes with [pr]\[i"):
                kernel(p, q, r)
            few = (p < 2**30) & (q < 2**30)
            np.testing.assert_array_equal(kernel(p[few], q[few], r[few]), s.build("interpret")(p[few], q[few], r[few]))
        else:
            np.testing.assert_array_equal(kernel(p, q, r), want)


ROWS = """
def f(n: "size", p: "{dtype}[n + 1]", x: "float32[1024]", B: "out float32[n]"):
    for i in range(n):
        for k in range(index(p[i + 1]) - index(p[i])):
            B[i] = sum(x[k % 1024] if {cond} else 0.0, over=k)
"""


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_a_loop_as_long_as_memory_says_counts_in_64_bits(dtype: str, target: str) -> None:
    """For what is computed of its variable no bound was found on a GPU, and on a CPU it was that of a size."""

    def bounds(cond: str) -> tuple[Index, ...]:
        s = lp.Schedule(lp.parse(ROWS.format(dtype=dtype, cond=cond)))
        return index_bounds(lower((s.bind("i", "blockIdx.x") if target == "cuda" else s).func, target))

    assert all(evaluate(b, {"n": 2**31}) < LIMIT for b in bounds("k * 4 < 1000"))
    with pytest.raises(lp.LowerError, match=r"an index may come to (about )?2\^"):
        bounds(f"k * {2**40} < 1000")
