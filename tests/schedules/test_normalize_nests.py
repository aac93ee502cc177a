"""Nests as they are written by hand: updates become folds in nests of their own, and products among them are tiled."""

from itertools import permutations

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.grammar import Int
from loopir.ir.parser.parse import parse
from loopir.testing import assert_equivalent
from schedules.common.contraction import contraction
from schedules.common.normalize_nests import normalized, rectangular
from schedules.llvm.auto_cpu import cpu

UPDATES = (
    "C[i, j] += A[i, k] * B[k, j]", "C[i, j] = C[i, j] + A[i, k] * B[k, j]", "C[i, j] -= A[i, k] * A[j, k]",
    "C[i, j] = maximum(C[i, j], A[i, k] + B[k, j])", "C[i, j] = C[i, j] - A[i, k] * B[k, j] - B[j, i]",
    "C[i, j] += A[k, i] * C[k, j]", "C[i, j] += A[i, k] * B[k, j] - B[i, k] * A[j, k]",
)  # fmt: skip


@st.composite
def nests(draw: st.DrawFn) -> lp.Func:
    """An update in loops of any order, a triangle perhaps, after what it starts from in one of these loops."""
    order = draw(st.permutations("ijk"))
    n = draw(st.sampled_from((1, 4, 9)))
    lines: list[str] = []
    for depth, v in enumerate(order):
        around = [x for x in order[:depth] if x != "k"]
        extents = [str(n), *(y for x in around if v != "k" for y in (f"{x} + 1", f"{n} - {x}"))]
        lines.append(f"{'    ' * (depth + 1)}for {v} in range({draw(st.sampled_from(extents))}):")
    inside = max(order.index("i"), order.index("j")) + 1
    start = f"{'    ' * (inside + 1)}C[i, j] = C[i, j] * 2.0"
    if inside < 3 and draw(st.booleans()):
        lines.insert(inside, start)
    lines.append(f"{'    ' * 4}{draw(st.sampled_from(UPDATES))}")
    if draw(st.booleans()):
        lines.append(f"{'    ' * 2}d[{order[0]}] = C[{order[0]}, 0]")
    head = (
        f'def f(A: "float64[{n}, {n}]", B: "float64[{n}, {n}]", C: "inout float64[{n}, {n}]", d: "inout float64[{n}]"):'
    )
    return parse("\n".join([head, *lines]))


@settings(max_examples=12, deadline=None)
@given(nests())
def test_nests_in_normal_form_and_scheduled_are_the_same(func: lp.Func) -> None:
    s = lp.Schedule(func)
    assert_equivalent(s, normalized(s))
    assert_equivalent(s, cpu(s, 4))


@pytest.mark.parametrize("order", [*permutations("ijk")], ids="".join)
def test_a_product_is_found_in_every_order_of_its_loops(order: tuple[str, ...]) -> None:
    i, j, k = order
    extents = {"i": 24, "j": 32, "k": 16}
    s = lp.Schedule(
        parse(f"""
def f(A: "float64[24, 16]", B: "float64[16, 32]", C: "inout float64[24, 32]"):
    for {i} in range({extents[i]}):
        for {j} in range({extents[j]}):
            for {k} in range({extents[k]}):
                C[i, j] += A[i, k] * B[k, j]
""")
    )
    t = normalized(s)
    (found,) = (c for x in t.stages if (c := contraction(t, x)) is not None)
    assert (found.row, found.column) == ("i", "j")
    assert_equivalent(s, cpu(s, 4))


@pytest.mark.parametrize("start", ["C[i, i + j] = 0.0", "C[i, i + j] = C[i, i + j] * 2.0"])
@pytest.mark.parametrize("right", ["A[k, i + j]", "A[i + j, k]", "B[i + j, k]"])
def test_a_product_over_a_triangle_is_one_over_the_rectangle_around_it(start: str, right: str) -> None:
    s = lp.Schedule(parse(f"""
def f(A: "float64[9, 9]", B: "float64[9, 9]", C: "inout float64[9, 9]", D: "out float64[9, 9]"):
    for i in range(9):
        for j in range(9 - i):
            {start}
            for k in range(9):
                C[i, i + j] += 1.5 * A[{"k, i" if right.startswith("A[k") else "i, k"}] * {right}
            D[i + j, i] = C[i, i + j]
"""))  # fmt: skip
    t = normalized(s)
    assert any(contraction(t, x) is not None for x in t.stages)
    assert_equivalent(s, t)
    assert_equivalent(s, cpu(s, 4))


@pytest.mark.parametrize("columns", ["range(i + 1)", "range(37)", "range(i)"])
def test_tiles_outside_of_a_triangle_are_left_out(columns: str) -> None:
    s = lp.Schedule(parse(f"""
def f(A: "float64[37, 20]", B: "float64[37, 20]", C: "inout float64[37, 37]"):
    for i in range(37):
        for j in {columns}:
            for k in range(20):
                C[i, j] += A[i, k] * B[j, k]
"""))  # fmt: skip
    t = cpu(s, 4)
    loops = t.loops("C_rf") if "C_rf" in t.stages else t.loops("C")
    assert any(not isinstance(t.loop(x).extent, Int) for x in loops if x.startswith("i")) == ("i" in columns[6:])
    assert_equivalent(s, t)


def test_memory_that_iterations_write_anew_is_no_obstacle() -> None:
    s = lp.Schedule(
        parse("""
def f(A: "inout float64[5, 6, 8]", C: "float64[8, 8]"):
    with alloc("float64[8]") as t:
        for r in range(5):
            for q in range(6):
                for p in range(8):
                    t[p] = 0.0
                    for k in range(8):
                        t[p] += A[r, q, k] * C[k, p]
                for p1 in range(8):
                    A[r, q, p1] = t[p1]
""")
    )
    t = normalized(s)
    assert any(contraction(t, x) is not None for x in t.stages)
    assert_equivalent(s, cpu(s, 4))


def test_a_program_without_updates_is_left_as_it_is() -> None:
    x = lp.placeholder((8, 8), "float32", name="x")
    s = lp.Schedule((x @ x).sum(axis=0))
    assert normalized(s).func is s.func
    assert not normalized(s).trace


def test_a_sum_of_two_products_is_two_products() -> None:
    s = lp.Schedule(parse("""
def f(A: "float64[64, 64]", B: "float64[64, 64]", C: "inout float64[64, 64]"):
    for i in range(64):
        for k in range(64):
            for j in range(i + 1):
                C[i, j] += A[j, k] * 1.5 * B[i, k] + B[j, k] * 1.5 * A[i, k]
"""))  # fmt: skip
    made = cpu(s)
    assert sum("matmul_cpu" in str(step) for step in made.trace) == 2


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(["0.0", "-2.5"]))
def test_a_fold_starts_from_the_nest_before_it(n: int, m: int, start: str) -> None:
    """Where its loops are written in another order than those of what it starts from."""
    s = lp.Schedule(parse(f'''
def f(p: "float64[{n}, {m}]", V: "float64[{m}, 5]", O: "out float64[{n}, 5]"):
    for i in range({n}):
        for d in range(5):
            O[i, d] = {start}
        for j in range({m}):
            for d1 in range(5):
                O[i, d1] += p[i, j] * V[j, d1]
'''))  # fmt: skip
    made = normalized(s)
    assert len(made.stages) == 1 or 1 in (n, m)
    assert_equivalent(made.func, s.func)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 7))
def test_triangles_are_folded_over_the_rectangle_around_them(n: int) -> None:
    s = lp.Schedule(parse(f'''
def f(A: "int32[{n}, {n}]", c: "inout int32[1]"):
    for i in range({n}):
        for j in range(i):
            for k in range(j):
                c[0] += A[i, j] * A[j, k]
'''))  # fmt: skip
    made = rectangular(normalized(s))
    assert_equivalent(made.func, s.func)
