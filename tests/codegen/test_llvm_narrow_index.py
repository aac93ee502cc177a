"""Indices in lanes of 32 bits: the same numbers as without end, whatever the sizes and whatever memory holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.codegen.llvm.emit import emit
from loopir.ir.grammar import Cast, Cmp, Const, Func, Index, IndexToValue, Load, Select, Stmt, Store
from loopir.ir.traverse.walk import rewrite

SETTINGS = settings(max_examples=40, deadline=None)
EDGES = (0, 1, 2, 3, 7, 100, 2**15, 2**16 - 1, 2**30, 2**31 - 2, 2**31 - 1)
"""Near the ends of 32 bits, and of half of them."""


def source_of(text: str) -> str:
    (program,) = lp.lower(lp.Schedule(lp.parse(text)), "llvm")
    return emit(program).source


def numbered(func: Func) -> Func:
    """`func` with the places in `t` stored, where numbers from it are cast, in float64 those beyond that of `e`."""
    first: list[Index] = []

    def stored(s: Stmt) -> Stmt | None:
        if not isinstance(s, Store) or not isinstance(s.value, Cast) or not isinstance(s.value.value, Load):
            return None
        at, t = s.value.value.at[0], s.buffer.dtype
        first.append(at)
        number = IndexToValue(at, t)
        return replace(s, value=number if t.kind == "int" else Select(Cmp("<", first[0], at), number, Const(-1.0, t)))

    return replace(func, body=rewrite(func.body, stored))


@st.composite
def indices(draw: st.DrawFn, depth: int = 3) -> str:
    """An index of a loop `i`, lanes `l`, a size `n` and numbers `p` from memory, each divisor above 0."""
    pick = lambda *options: draw(st.sampled_from(options))  # noqa: E731
    if depth == 0:
        return pick("i", "l", "l", "n", "p[i, l]", str(pick(*EDGES)))
    a, b = (draw(indices(depth - 1)) for _ in "ab")
    divisor = pick("3", "7", "8", "1000", "2147483647", "2147483648", "(n + 1)", "(l + 1)", "(i * 5 + 2)")
    return pick(
        f"({a} + {b})", f"({a} - {b})", f"({a} * {pick(1, 2, 3, 100, 65537)})", f"min({a}, {b})", f"max({a}, {b})",
        f"({a} // {divisor})", f"({a} % {divisor})", f"({a} % {divisor} // {pick(2, 5, 16)})",
    )  # fmt: skip


@SETTINGS
@given(
    indices(), indices(2), st.sampled_from([4, 16]), st.sampled_from(["int8", "uint16", "int32", "uint32", "int64"]),
    st.sampled_from(EDGES), st.data(),
)  # fmt: skip
def test_an_index_in_lanes_is_what_it_is_without_end(
    index: str, other: str, lanes: int, dtype: str, n: int, data: st.DataObject
) -> None:
    func = numbered(
        lp.parse(f"""
def f(n: "size", p: "{dtype}[3, {lanes}]", t: "float32[7]", a: "out int64[3, {lanes}]", b: "out int32[3, {lanes}]",
      c: "out float64[3, {lanes}]", d: "out float32[3, {lanes}]", e: "out int64[3, {lanes}]"):
    for i in range(3):
        for l in vectorize({lanes}):
            e[i, l] = int64(t[{other}])
            a[i, l] = int64(t[{index}])
            b[i, l] = int32(t[{index}])
            c[i, l] = float64(t[{index}])
            d[i, l] = t[({index}) % 7]
""")
    )
    ends = np.iinfo(dtype)
    some = st.sampled_from(
        sorted({max(int(ends.min), min(int(ends.max), sign * x)) for x in EDGES for sign in (1, -1)})
    )
    p = np.array([data.draw(some) for _ in range(3 * lanes)], dtype).reshape(3, lanes)
    t = np.arange(7, dtype=np.float32)
    try:
        want = lp.interpret(func, {"p": p, "t": t}, {"n": n})
        got = lp.Schedule(func).build("llvm", fma=False)(p, t, n=n)
    except (lp.LoopirError, OverflowError):
        return  # an index that 64 bits may not hold is refused
    for name, x in zip("abcde", got, strict=True):
        np.testing.assert_array_equal(x, want[name], err_msg=f"{name}, {index}")


@SETTINGS
@given(st.sampled_from([1, 2, 3, 10, 641, 2**16 + 1, 2**31 - 1, 2**31, 2**40 + 1]), st.integers(0, 2**32))
def test_numbers_of_32_bits_by_a_size(n: int, seed: int) -> None:
    """Quotients are rounded down next to multiples of a divisor, too, and of numbers below 0."""
    kernel = lp.Schedule(
        numbered(
            lp.parse("""
def f(n: "size", p: "int32[512]", t: "float32[7]", q: "out int64[512]", r: "out int64[512]"):
    for o in range(32):
        for l in vectorize(16):
            q[o * 16 + l] = int64(t[p[o * 16 + l] // n])
            r[o * 16 + l] = int64(t[p[o * 16 + l] % n])
""")
        )
    ).build("llvm")
    rng = np.random.default_rng(seed)
    near = rng.integers(-(2**31) // n, 2**31 // n, 384, endpoint=True) * n + np.tile([-1, 0, 1], 128)
    some = np.concatenate([near, rng.integers(-(2**31), 2**31, 120), [-(2**31), 2**31 - 1, -1, 0, 1, 2, -2, 3]])
    p = np.clip(some, -(2**31), 2**31 - 1).astype(np.int32)
    q, r = kernel(p, np.zeros(7, np.float32), n=n)
    np.testing.assert_array_equal(q, p.astype(np.int64) // n)
    np.testing.assert_array_equal(r, p.astype(np.int64) % n)


MODULO = """
def f({params}o: "out float32[{m}, 16]"):
    for i in range({m}):
        for l in vectorize(16):
            o[i, l] = float32((i * {n} + l * 5) % {k} // 3)
"""


def test_indices_that_are_bounded_by_constants_are_of_32_bits() -> None:
    source = source_of(MODULO.format(params="", m=9, n=100, k=13))
    assert "urem <16 x i32>" in source
    assert "<16 x i64>" not in source
    assert "wide" not in source
    source = source_of(MODULO.format(params="", m=9, n=2**31, k=2**33 + 1))
    assert "srem <16 x i64>" in source
    assert "wide" not in source


@pytest.mark.parametrize("n", [1, 12345, 2**20, 2**31 - 1, 2**31, 2**33 + 7, 2**40])
@pytest.mark.parametrize("k", [1, 10, 2**31 - 1, 2**31, 2**35 + 1])
def test_sizes_choose_how_wide_indices_are(n: int, k: int) -> None:
    text = MODULO.format(params='m: "size", n: "size", k: "size", ', m="m", n="n", k="k")
    assert all(f"@f_kernel.{version}" in source_of(text) for version in ("narrow", "wide"))
    kernel, places = lp.Schedule(lp.parse(text)).build("llvm"), np.arange(16)
    want = np.array([(i * n + places * 5) % k // 3 for i in range(5)], np.float32)
    np.testing.assert_array_equal(kernel(m=5, n=n, k=k), want)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_run_ranges_of_the_kernel_that_sizes_choose(threads: int) -> None:
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", m: "size", x: "float32[n, m]", o: "out float32[n, m]"):
    for i in parallel(n):
        for j in range(m):
            o[i, j] = x[(i + 2) % n, (j * 3 + i) % m]
""")
    )
    kernel = s.split("j", 8).vectorize("j_i").build("llvm", threads=threads)
    x: Any = np.random.default_rng(0).random((50, 41), np.float32)
    i, j = np.indices(x.shape)
    np.testing.assert_array_equal(kernel(x), x[(i + 2) % 50, (j * 3 + i) % 41])


def test_places_from_memory_are_gathered_in_32_bits() -> None:
    text = """
def f(x: "float32[1000]", p: "int64[64]", o: "out float32[64]"):
    for i in range(4):
        for l in vectorize(16):
            o[i * 16 + l] = x[p[i * 16 + l]] if 0 <= p[i * 16 + l] and p[i * 16 + l] < 1000 else -1.0
"""
    assert "trunc <16 x i64>" in source_of(text)
    x, p = np.arange(1000, dtype=np.float32), np.random.default_rng(0).integers(0, 1000, 64)
    p[::7] = 2**40 + 5  # whose last 32 bits are a place
    want = np.where(p < 1000, x[p % 1000], -1)
    np.testing.assert_array_equal(lp.Schedule(lp.parse(text)).build("llvm")(x, p), want)


@SETTINGS
@given(
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.booleans(), st.sampled_from([32, 48, 64]),
    st.sampled_from([-(2**61), -100, -17, -1, 0, 1, 5, 63, 64, 65, 2**40, 2**61]), st.integers(0, 200),
)  # fmt: skip
def test_many_lanes_are_compared_with_what_they_share(op: str, turned: bool, lanes: int, c: int, n: int) -> None:
    sides = ("n + 3 * i - l", f"{c}") if turned else (f"l + {c}", "n + 3 * i")
    func = lp.parse(f"""
def f(n: "size", a: "float32[4, {lanes}]", o: "out float32[4, {lanes}]"):
    for i in range(4):
        for l in vectorize({lanes}):
            o[i, l] = a[i, l] if {sides[0]} {op} {sides[1]} else -1.0
""")
    a = np.arange(4 * lanes, dtype=np.float32).reshape(4, lanes)
    got = lp.Schedule(func).build("llvm")(a, n=n)
    np.testing.assert_array_equal(got, lp.interpret(func, {"a": a}, {"n": n})["o"])
    assert f"<{lanes} x i64>" not in source_of(lp.text(func))
