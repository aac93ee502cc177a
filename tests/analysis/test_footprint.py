"""Boxes around what an iteration touches: they hold all of it, and under guards on one loop nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.analysis.regions.footprint import accesses_in, footprint, upper_sides
from loopir.arith.poly import Poly, to_index
from loopir.ir.grammar import Func, Index, Int, Loop, Max, Min, Var
from loopir.ir.layout.layouts import evaluate
from loopir.ir.traverse.walk import loops
from loopir.schedule.core.facts import known_in

NEST = """
def f(n: "size", m: "size", X: "float32[8 * n + 8 * m + 99]", Y: "out float32[8, n + 8]"):
    for i in range({outer}):
        for k in range({inner}):
            for j in range({innermost}):
                if {guard}:
                    Y[0, i] = sum(X[{at}], over=(k, j), init=0.0)
"""
GRID = [(n, m) for n in (0, 1, 2, 5) for m in (0, 1, 4)]


def box_at(func: Func, i: int, sizes: dict[str, int]) -> tuple[int, int, int]:
    """What the region says of an iteration of the outer loop: where it starts, how long it is, and its room."""
    outer = next(x for x in loops(func.body) if x.var == "i")
    known = known_in(func, outer)
    b = next(a.buffer for a in func.args if a.buffer.name == "X")
    box = footprint(accesses_in(outer.body, known, {"X"}), known.here, b.shape)

    def at(x: Index) -> int:
        return evaluate(x, {**sizes, "i": i})

    return at(box.base[0]), at(box.extent[0]), at(box.size[0])


def touched(func: Func, i: int, sizes: dict[str, int], guard: str, at: str) -> list[int]:
    """The elements, by brute force."""
    by_name: dict[str, Loop] = {x.var: x for x in loops(func.body)}
    out: list[int] = []
    for k in range(evaluate(by_name["k"].extent, {**sizes, "i": i})):
        for j in range(evaluate(by_name["j"].extent, {**sizes, "i": i, "k": k})):
            env = {**sizes, "i": i, "k": k, "j": j}
            if eval(guard, {}, env):
                out.append(eval(at, {}, env))
    return out


def outer_iterations(func: Func, sizes: dict[str, int]) -> range:
    return range(evaluate(next(loops(func.body)).extent, sizes))


def parsed(outer: str, inner: str, innermost: str, guard: str, at: str) -> Func:
    return lp.parse(NEST.format(outer=outer, inner=inner, innermost=innermost, guard=guard, at=at))


@pytest.mark.parametrize(
    ("inner", "guard", "at"),
    [
        ("n", "k <= i", "k"),
        ("n", "i <= k", "k + 1"),
        ("n", "k == i", "k + m"),
        ("n", "i - 1 <= k and k <= i + 1", "k"),
        ("n", "2 * k <= i", "k"),
        ("n", "k < 2 * i", "3 * k"),
        ("n", "k < m", "n - k"),
        ("n", "k + 2 < i", "k"),
        ("n", "i < 2 * k + 1", "k + i"),
        ("n", "k < i and k < m", "k"),
        ("n", "m <= k and k <= i", "k"),
        ("i + 1", "k < m", "k"),
    ],
)
def test_boxes_under_guards_are_exact(inner: str, guard: str, at: str) -> None:
    func = parsed("n", inner, "1", guard, at)
    for n, m in GRID:
        sizes = {"n": n, "m": m}
        for i in outer_iterations(func, sizes):
            found, (base, extent, size) = touched(func, i, sizes, guard, at), box_at(func, i, sizes)
            assert max(0, extent) <= max(0, size)
            if found:
                assert (base, base + extent - 1) == (min(found), max(found)), f"{sizes}, i={i}\n{lp.text(func)}"


TERMS = ("k <= i", "j <= k", "i <= j + 1", "k + j < n", "k - i <= 2", "j < m", "k != i", "2 * k + j <= i + 3",
         "m <= k + i", "k == j", "j * 3 < n", "k // 2 <= i", "k % 2 == 0")  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_boxes_hold_all_that_is_touched(data: st.DataObject) -> None:
    extents = st.sampled_from(["n", "m", "i + 1", "4", "n - i", "2 * n"])
    inner = data.draw(extents)
    innermost = data.draw(st.sampled_from(["n", "m", "k + 1", "3", "i + 1"]))
    guard = " and ".join(data.draw(st.lists(st.sampled_from(TERMS), min_size=1, max_size=3)))
    at = data.draw(st.sampled_from(["k", "j", "k + j", "k + 2 * j + 1", "n + k - j + m + 1", "n + i + m - k + 2 * n"]))
    func = parsed("n", inner, innermost, guard, at)
    for n, m in GRID:
        sizes = {"n": n, "m": m}
        for i in outer_iterations(func, sizes):
            base, extent, size = box_at(func, i, sizes)
            found = touched(func, i, sizes, guard, at)
            assert all(base <= x < base + extent for x in found), f"{sizes}, i={i}\n{lp.text(func)}"
            assert extent <= max(0, size), f"{sizes}, i={i}\n{lp.text(func)}"


def test_room_is_not_told_by_a_division_by_what_may_be_0() -> None:
    """The memory of a copy was to have `-1 // n + 7` elements: at n = 0, a division by zero."""
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", Y: "out float32[n, 6]"):
    for i in range(6):
        for j in range(n):
            Y[j, i] = 0.0
""")
    )
    s = s.fuse("i", "j").cache_write("Y", "global")
    for n in (0, 3):
        assert s.build("interpret")(n=n).shape == (n, 6)


@given(st.tuples(*[st.integers(-1, 1)] * 4), st.integers(1, 2), st.integers(1, 2))
def test_sides_of_minima_in_one_another_bound_them_from_above(parts: tuple[int, ...], a: int, b: int) -> None:
    """The side of one may take off another that stood beside it."""
    n = Var("n")
    least, most = Min(Int(a), n), Max(Int(b), n)
    atoms = (Min(Int(b), n - least), least, Max(Int(a), n - most), most)
    p: Poly = {(x,): c for x, c in zip(atoms, parts, strict=True) if c}
    for q in upper_sides(p):
        for value in range(6):
            assert evaluate(to_index(p), {"n": value}) <= evaluate(to_index(q), {"n": value})
