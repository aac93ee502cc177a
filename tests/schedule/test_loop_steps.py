"""Steps that cut, move and skew loops: random programs keep their meaning, and what each step is for comes out."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same, outcome

from loopir.errors import ScheduleError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Func, If, Select
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import loops, nodes
from loopir.schedule import Schedule
from loopir.schedule.core.trace import Step
from loopir.testing.generate.strategies import arguments, funcs, sizes


def taken(func: Func) -> list[Schedule]:
    """`func` after every one of these steps that is accepted."""
    s = Schedule(func)
    names = s.loops()
    steps = [Step(name, (v,)) for name, v in product(("partition", "distribute"), names)]
    steps += [Step("peel", (v,), (("first", 1), ("last", 2))) for v in names]
    steps += [Step("unroll_and_jam", (v, 2), (("tail", t),)) for v, t in product(names, ("guard", "peel"))]
    steps += [Step("hoist", (stage, v)) for stage, v in product(s.stages, names)]
    steps += [Step("skew", (v, w, f)) for v, w in product(names, names) for f in (2, -1)]
    steps += [Step("fuse_loops", (v, w), (("shift", 1), ("tail", "guard"))) for v, w in product(names, names)]
    steps += [Step("merge", (v, w), (("side_by_side", row),)) for v, w, row in product(names, names, (False, True))]
    return [s.apply(x) for x in steps if s.why(x.name, *x.args, **dict(x.kwargs)) is None]


@settings(max_examples=15, deadline=None)
@given(funcs(max_depth=3, max_extent=4), st.data())
def test_random_programs_keep_their_meaning(func: Func, data: st.DataObject) -> None:
    called = data.draw(sizes(func, 5))
    given = data.draw(arguments(func, called))
    expected = interpret(func, given, called, domain="ring")
    for s in taken(func):
        found = interpret(s.func, given, called, domain="ring")
        for one, other in zip(expected.values(), found.values(), strict=True):
            assert np.array_equal(one, other), f"{called}\n{text(func)}\n{s.trace}\n{s}"


# ---------------------------------------------------------------- partition


CONV = """
def conv(n: "size", A: "float32[n, n]", W: "float32[3, 3]", B: "out float32[n, n]"):
    with alloc("float32[n + 2, n + 2]") as P:
        for u in range(n + 2):
            for v in range(n + 2):
                P[u, v] = select(1 <= u and u < n + 1 and (1 <= v and v < n + 1), A[u - 1, v - 1], 0.0)
        for y in range(n):
            for x in range(n):
                for k in range(3):
                    for h in range(3):
                        B[y, x] = sum(P[y + k, x + h] * W[k, h], over=(k, h), init=0.0)
"""


def guards(func: Func, loop: str) -> int:
    (found,) = (x for x in loops(func.body) if x.var == loop)
    return sum(isinstance(n, If | Select) for n in nodes(found))


# ---------------------------------------------------------------- fuse


# ---------------------------------------------------------------- hoist


def test_what_is_hoisted_is_not_read_where_nothing_ran() -> None:
    """The last row is there only if there is a row, and the guard only lets it be read then."""
    s = Schedule(
        parse("""
def f(n: "size", m: "size", A: "float32[n]", B: "inout float32[m]"):
    for i in range(m):
        for j in range(3):
            if 0 < n:
                B[i] = B[i] + exp(A[n - 1])
""")
    )
    after = s.hoist("B", "j").hoist("B_h", "i")
    assert "exp" in str(after).split("for i in")[0]
    for n, m in product((0, 1, 3), (0, 2)):
        assert_same(s.func, after.func, {"n": n, "m": m})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (("T[0] = T[0] * 2.0",), "T reads T, which 'i' writes"),
        (("A[i] = T[0]", "T[0] = 1.0"), "T is read before T"),
        (("T[0] = 1.0", "T[i] = 2.0"), "T is written by others in 'i', too"),
        (("T[0] = sum(A[0])",), "T folds into its previous result in every iteration"),
    ],
)
def test_what_is_not_the_same_each_time_stays(body: tuple[str, ...], reason: str) -> None:
    lines = "\n".join(f"        {x}" for x in body)
    head = 'def f(n: "size", A: "inout float32[n]", T: "inout float32[n]"):'
    s = Schedule(parse(f"{head}\n    for i in range(n):\n{lines}"))
    error = s.why("hoist", "T", "i")
    assert error is not None
    assert reason in str(error)


OTHERS = (
    *("A[i + 1] = 1.0", "A[i] = 1.0", "A[5 - i] = B[i]", "T[i + 2] = 2.0", "T[i] = 2.0"),
    *("B[i] = T[0]", "B[i] = T[i]", "B[i] = T[i + 2]"),
    *("if 0 < i:\n            B[i] = T[1]", "if i + 1 == n:\n            A[0] = T[1]"),
)


@pytest.mark.parametrize("unit", ['T[0]: "U" = A[0] * 2.0', 'T[1]: "U" = A[n] * 2.0', 'T[n]: "U" = A[0] + B[n]'])
def test_what_others_do_matters_where_it_meets_the_statement(unit: str) -> None:
    """Every program of a statement between two others: what is hoisted means the same, and some of these are."""
    legal = 0
    for before, after in product(("", *OTHERS), repeat=2):
        lines = "\n".join(f"        {x}" for x in (before, unit, after) if x)
        head = 'def f(n: "size", A: "inout float32[n + 6]", T: "inout float32[n + 6]", B: "inout float32[n + 6]"):'
        s = Schedule(parse(f"{head}\n    assume(n < 6)\n    for i in range(n):\n{lines}"))
        try:
            hoisted = s.hoist("U", "i")
        except ScheduleError:
            continue
        legal += 1
        for n in range(6):
            assert_same(s.func, hoisted.func, {"n": n})
    assert legal > 15


# ---------------------------------------------------------------- skew and wavefront

IN_PLACE = """
def f(T: "size", n: "size", a: "inout float32[n + 2, n + 2]"):
    for t in range(T):
        for i in range(n):
            for j in range(n):
                a[i + 1, j + 1] = a[i, j + 1] + a[i + 2, j + 1] + a[i + 1, j] + a[i + 1, j + 2] + a[i + 1, j + 1]
"""
TWO_ARRAYS = """
def f(T: "size", n: "size", a: "inout float32[n + 2, n + 2]", b: "inout float32[n + 2, n + 2]"):
    for t in range(T):
        for i in range(n):
            for j in range(n):
                b[i + 1, j + 1] = a[i, j + 1] + a[i + 2, j + 1] + a[i + 1, j] + a[i + 1, j + 2] + a[i + 1, j + 1]
        for y in range(n):
            for x in range(n):
                a[y + 1, x + 1] = b[y + 1, x + 1]
"""


def refused(s: Schedule, name: str, *args: object, **kwargs: object) -> ScheduleError:
    error = s.why(name, *args, **kwargs)
    assert error is not None
    assert error.witness is not None
    return error


@pytest.mark.parametrize("space", [("i",), ("i", "j")])
def test_an_in_place_stencil_is_tiled_in_time_once_it_is_skewed(space: tuple[str, ...]) -> None:
    s = Schedule(parse(IN_PLACE))
    assert "the other way round" in str(refused(s, "tile", "t", *space, 2, *(3 for _ in space)))
    skewed = s
    for v in space:
        skewed = skewed.skew("t", v)
    tiled = skewed.tile("t", *space, 2, *(3 for _ in space))
    for T, n in ((0, 3), (1, 4), (4, 3), (5, 7)):
        assert_same(s.func, tiled.func, {"T": T, "n": n})


def test_two_arrays_are_fused_with_a_shift_and_skewed_by_what_it_takes() -> None:
    s = Schedule(parse(TWO_ARRAYS))
    assert refused(s, "fuse_loops", "i", "y").suggestion == "shift=1"
    fused = s.fuse_loops("i", "y", shift=(1, 0))
    refused(fused, "tile", "t", "i", 2, 3)
    refused(fused.skew("t", "i", 1), "tile", "t", "i", 2, 3)
    tiled = fused.skew("t", "i", 2).tile("t", "i", 2, 3)
    both = s.fuse_loops("i", "y", shift=(1, 1)).skew("t", "i", 2).skew("t", "j", 2).tile("t", "i", "j", 2, 3, 2)
    for T, n in ((0, 3), (1, 4), (4, 3), (5, 7)):
        assert_same(s.func, tiled.func, {"T": T, "n": n})
        assert_same(s.func, both.func, {"T": T, "n": n})


def test_the_iterations_of_a_wave_are_independent() -> None:
    s = Schedule(parse(IN_PLACE))
    refused(s, "parallel", "i")
    wave = s.wavefront("i", "j")
    assert wave.why("parallel", "i") is None
    tight = wave.partition("i").parallel("i")
    assert guards(tight.func, "i") == 0
    for T, n in ((0, 3), (1, 1), (2, 5)):
        assert_same(s.func, tight.func, {"T": T, "n": n})


def test_the_least_factor_is_taken() -> None:
    s = Schedule(
        parse("""
def f(n: "size", a: "inout float32[n + 1, n + 5]"):
    for i in range(n):
        for j in range(n):
            a[i + 1, j] = a[i, j + 5]
""")
    )
    refused(s, "wavefront", "i", "j")
    s = Schedule(
        parse("""
def f(n: "size", a: "inout float32[n + 1, n + 3]"):
    for i in range(n):
        for j in range(n):
            a[i + 1, j + 1] = a[i, j + 3] + a[i + 1, j]
""")
    )
    assert str(s.wavefront("i", "j")) == str(s.wavefront("i", "j", 3))
    for factor in (1, 2):
        assert f"skewed by {factor}, " in refused(s, "wavefront", "i", "j", factor).reason
    for n in (0, 1, 5):
        assert_same(s.func, s.wavefront("i", "j").func, {"n": n})


def test_what_the_programs_compute_is_compared() -> None:
    assert outcome(parse(CONV), {"n": 4}, 0)


@pytest.mark.parametrize(
    ("init", "at", "free"), [("0.0", "j", True), ("C[n - 1 - j]", "j", False), ("0.0", "0", False)]
)
def test_a_start_over_a_loop_that_runs_once_moves_in_if_the_order_lets_it(init: str, at: str, free: bool) -> None:
    s = Schedule(
        parse(f"""
def f(n: "size", A: "float32[1, n]", C: "inout float32[n + 1]"):
    for i in range(1):
        for j in range(n):
            C[{at}] = sum(A[i, j], over=i, init={init})
""")
    )
    error = s.why("fuse", "i", "j")
    assert (error is None) == free, error
    if free:
        for n in (0, 1, 4):
            assert_same(s.func, s.fuse("i", "j").func, {"n": n})
