"""Whatever sequence of steps is accepted, the nest computes what it did: exactly, at every size, over a ring."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby, product

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir.intrinsics  # noqa: F401
from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.schedule.core.trace import Step

PROGRAMS = {
    "matmul": """
def matmul(n: "size", m: "size", A: "float32[n, 3]", B: "float32[3, m]", D: "out float32[n, m]"):
    with alloc("float32[n, m]") as C:
        for i in range(n):
            for j in range(m):
                for k in range(3):
                    C[i, j] = sum(A[i, k] * B[k, j], over=k, init=0.0)
        for i_1 in range(n):
            for j_1 in range(m):
                D[i_1, j_1] = maximum(C[i_1, j_1], 0.0)
""",
    "sum outside": """
def f(n: "size", m: "size", A: "float32[m, n]", S: "out float32[n]"):
    for k in range(m):
        for i in range(n):
            S[i] = sum(A[k, i], over=k, init=1.0)
""",
    "square sum": """
def f(n: "size", m: "size", A: "float32[n, m]", S: "out float32[1]"):
    for i in range(n):
        for j in range(m):
            S[0] = sum(A[i, j], over=(i, j), init=0.0)
""",
    "sweep": """
def f(n: "size", m: "size", a: "inout float32[n, m]"):
    for i in range(n - 1):
        for j in range(m - 1):
            a[i + 1, j] = a[i, j + 1] + 1.0
""",
    "triangle": """
def f(n: "size", m: "size", A: "inout float32[n]", S: "inout float32[n]"):
    for i in range(n):
        for j in range(i):
            S[i] = sum(A[j] * 2.0, over=j)
        A[i] = S[i]
""",
    "chain": """
def f(n: "size", m: "size", A: "inout float32[n]", B: "inout float32[n]"):
    with alloc("float32[n]") as T, alloc("float32[n]") as U:
        for i in range(n):
            T[i] = A[n - 1 - i] * 3.0
        for j in range(n):
            U[j] = T[j] + B[j]
        for k in range(n):
            if k < n - 1:
                B[k] = U[k] * T[k + 1]
""",
    "time loop": """
def f(n: "size", m: "size", A: "inout float32[n]"):
    for t in range(m):
        with alloc("float32[n]") as T:
            for i in range(n):
                T[i] = A[i] + 1.0
            for j in range(n - 2):
                A[j + 1] = T[j] * T[j + 1] + T[j + 2]
""",
    "rows of their own": """
def f(n: "size", m: "size", A: "inout float32[n, m]", S: "out float32[n]"):
    for i in range(n):
        with alloc("float32[m]") as T, alloc("float32[2]") as U:
            for j in range(m):
                T[j] = A[i, j] + 1.0
            for k in range(2):
                U[k] = A[i, k] * 2.0 if k < m else 0.0
            if i % 2 == 0:
                U[1] = sum(U[0] * 3.0)
            for h in range(m):
                A[i, h] = T[m - 1 - h] * U[h % 2]
            S[i] = U[1]
""",
    "padded stencil": """
def f(n: "size", m: "size", A: "float32[n, n]", B: "out float32[n, n]", C: "out float32[n, n]"):
    for i in range(n):
        for j in range(n):
            B[i, j] = select(1 <= i and j < n - 1, A[i - 1, j + 1], A[i, j])
            for k in range(3):
                for h in range(3):
                    if not (i + k < 1 or n < i + k) and 1 <= j + h and j + h < n + 1:
                        B[i, j] = sum(A[i + k - 1, j + h - 1] * 2.0, over=(k, h))
    for y in range(n):
        for x in range(min(n, 2 * y)):
            if y != 0 and x != n - 1:
                C[y, x] = A[max(y - 2, 0), min(2 * x + 1, n - 1)] if 2 * x < n + y else 1.0
            else:
                C[y, x] = 5.0
        for z in range(max(n - 2 * y, 0)):
            C[y, min(2 * y, n) + z] = 7.0
""",
    "the same each time": """
def f(n: "size", m: "size", A: "float32[n, 4]", w: "float32[4]", S: "out float32[n]", T: "inout float32[4]"):
    for i in range(n):
        with alloc("float32[1]") as c, alloc("float32[1]") as d:
            for k in range(4):
                c[0] = sum(w[k], over=k, init=0.0)
            d[0] = A[i, 0] + c[0]
            for h in range(m):
                if n < 4:
                    T[2] = w[1] * exp(A[n - 1, 3]) + T[2] * A[i, 1]
            S[i] = d[0] * c[0] + select(m < 3, w[m], 0.0)
    for x in range(m):
        for y in range(4):
            T[y] = T[y] + w[y] * w[y] + exp(w[1])
""",
    "prefix": """
def f(n: "size", m: "size", A: "float32[n]", B: "out float32[n]", L: "out float32[1]"):
    for i in range(n):
        B[i] = A[i] * 2.0
        L[0] = exp(A[i])
    for k in range(1 - n):
        L[0] = 0.0
""",
    "shared loop": """
def f(n: "size", m: "size", A: "inout float32[n]", B: "out float32[n]"):
    with alloc("float32[n]") as T:
        for i in range(n):
            A[n - 1 - i] = A[i] + 1.0
            T[i] = A[i]
        for j in range(n):
            B[j] = T[j]
""",
    "in place, constant": """
def f(n: "size", m: "size", a: "inout float32[7]", b: "inout float32[7]"):
    for i in range(6):
        a[i + 1] = a[i] + b[i]
    for j in range(7):
        b[j] = b[j] * 3.0
    for k in range(7):
        b[0] = exp(a[k])
""",
    "rows, assumed": """
def f(n: "size", m: "size", A: "float32[n, m]", S: "out float32[n]", T: "inout float32[n]"):
    assume(n >= 3)
    for i in range(n):
        for k in range(m):
            S[i] = sum(A[i, k], over=k, init=0.0)
        for h in range(m):
            T[i] = sum(A[i, h], over=h)
    for i_1 in range(n):
        for k_1 in range(3):
            S[i_1] = max(A[i_1, m - 1] * 2.0, over=k_1, init=7.0)
""",
    "changing bound": """
def f(n: "size", m: "size", ix: "inout int32[4]", B: "inout float32[5]"):
    for i in range(ix[0]):
        ix[0] = 1
        for j in range(ix[1]):
            B[j] = B[j] + 1.0
            ix[1] = 2
    for k in range(ix[2]):
        B[k] = B[k] * 2.0
""",
    "perfect, changing bound": """
def f(n: "size", m: "size", ix: "inout int32[4]", B: "inout float32[4]"):
    for i in range(3):
        for j in range(ix[i]):
            B[i] = B[i] + 1.0
    for k in range(3):
        for h in range(ix[0]):
            ix[0] = 1
    for x in range(4):
        for y in range(x + 1):
            B[x] = B[x] * B[y]
""",
    "guards that never hold": """
def f(n: "size", m: "size", A: "float32[6]", S: "out float32[3]", T: "inout float32[3]"):
    for i in range(3):
        for k in range(2):
            if k >= 3:
                S[i] = sum(A[k], over=k, init=0.0)
        for h in range(6):
            if h < 4 and h >= 7:
                T[i] = A[h]
            else:
                T[i] = sum(A[h], over=h, init=1.0)
""",
    "starts outside": """
def f(n: "size", m: "size", A: "float32[n]", S: "inout float32[6]", T: "inout float32[6]", U: "inout float32[6]"):
    for i in range(6):
        for k in range(n - i):
            if i < n:
                S[i] = sum(A[i + k], over=k, init=1.0)
        for h in range(6):
            if h < n - i and i < n + 1 and h + i >= i:
                T[min(i, n - 1)] = sum(A[min(i, n - 1)], over=h, init=2.0)
        for x in range(n - i):
            for y in range(min(n, i + 2)):
                for z in range(min(1, n - i)):
                    U[z] = sum(A[y], over=x, init=3.0)
""",
    "padded": """
def f(n: "size", m: "size", A: "float32[8]", B: "out float32[7]"):
    with alloc("float32[9, 8]") as T, alloc("float32[8]") as U:
        for i in range(7):
            for k in range(5):
                T[i, k] = A[i] * A[k]
        for j in range(7):
            for h in range(5):
                U[j] = sum(T[j, h], over=h, init=0.0)
        for x in range(7):
            B[x] = U[6 - x]
""",
    "condition": """
def f(n: "size", m: "size", A: "float32[n]", B: "out float32[n]"):
    with alloc("float32[n]") as T, alloc("bool[n]") as P:
        for i in range(n):
            P[i] = A[i] < 2.0
        for i_1 in range(n):
            if P[i_1]:
                T[i_1] = A[i_1]
            else:
                T[i_1] = 4.0
        for i_2 in range(n):
            B[i_2] = T[i_2] if i_2 % 2 == 1 and P[n - 1] else A[i_2]
""",
    "gather": """
def f(n: "size", m: "size", A: "float32[5]", ix: "int32[n]", B: "out float32[n]"):
    with alloc("float32[5]") as T:
        for i in range(5):
            T[i] = A[4 - i]
        for j in range(n):
            B[j] = T[ix[j]]
""",
}


def steps(s: Schedule) -> Iterator[Step]:
    """Every step of these primitives that could be tried on `s`, legal or not."""
    loops = s.loops()
    for loop, factor, tail in product(loops, (1, 2, 3), ("guard", "peel", "shift_inwards", "round_up")):
        yield Step("split", (loop, factor), (("tail", tail),))
    for outer, inner in product(loops, loops):
        yield Step("fuse", (outer, inner))
        yield Step("reorder", (outer, inner))
        yield from (Step("merge", (outer, inner), (("side_by_side", row),)) for row in (False, True))
        yield from (Step("skew", (outer, inner, f)) for f in (1, -2))
        yield from (Step("fuse_loops", (outer, inner), (("shift", d), ("tail", "guard"))) for d in (0, 1))
    yield from (Step(name, (loop,)) for name in ("unroll", "partition") for loop in loops)
    for loop, first, last in product(loops, (0, 1, 2), (0, 1)):
        yield Step("unroll_and_jam", (loop, 2), (("tail", ("guard", "peel")[last]),))
        yield Step("peel", (loop,), (("first", first), ("last", last)))
    yield from (Step("distribute", (loop, *after)) for loop, after in product(loops, ((), *((x,) for x in s.stages))))
    yield from (Step("compute_inline", (stage,)) for stage in s.stages)
    yield from (Step("hoist", (stage, loop)) for stage, loop in product(s.stages, loops))
    for stage in s.stages:
        yield from (Step(name, (stage, loop)) for name in ("rfactor", "decompose_reduction") for loop in s.loops(stage))
    yield from (Step("rename", (name, f"{name}_x")) for name in loops)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_step_keeps_the_meaning(name: str) -> None:
    s = Schedule(parse(PROGRAMS[name]))
    taken = [s.apply(step) for step in steps(s) if s.why(step.name, *step.args, **dict(step.kwargs)) is None]
    assert {t.trace[0].name for t in taken} >= {"split", "rename"}
    for after in taken:
        for n, m in product((0, 1, 4, 5), (0, 3)):
            assert_same(s.func, after.func, {"n": n, "m": m})


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """A program after some steps; those that are refused leave it as it is."""
    s = Schedule(parse(PROGRAMS[draw(st.sampled_from(sorted(PROGRAMS)))]))
    for _ in range(draw(st.integers(2, 4))):
        by_name = {k: list(g) for k, g in groupby(steps(s), key=lambda step: step.name)}
        step = draw(st.sampled_from(by_name[draw(st.sampled_from(sorted(by_name)))]))
        with suppress(ScheduleError):
            s = s.apply(step)
    return s


@settings(max_examples=150, deadline=None)
@given(schedules(), st.integers(0, 6), st.integers(0, 3), st.integers(0, 9))
def test_sequences_of_steps_keep_the_meaning(s: Schedule, n: int, m: int, seed: int) -> None:
    base = s
    while base.trace:
        base = base.undo()
    assert_same(base.func, s.func, {"n": n, "m": m}, seed)
    assert parse(str(s)) == s.func
    assert base.replay(s.trace) == s
