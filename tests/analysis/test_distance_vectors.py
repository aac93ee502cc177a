"""What the subscripts say of two instances that touch one element is what integer sets say, which take them whole."""

from math import isinf

import pytest
from hypothesis import given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dependence.access import conflicting_pairs, statements_of
from loopir.analysis.dependence.depend import SIZE, Pair, conflicts
from loopir.analysis.dependence.distance_vectors import distance_vectors, element_determines_loops
from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import Func, Int
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import loops_of, replace, replace_loop
from loopir.schedule import Schedule
from loopir.testing.generate import nests
from loopir.testing.generate.guarded import guarded
from loopir.testing.generate.steps import schedules
from loopir.testing.generate.strategies import funcs

MOVES = ("split", "tile", "reorder", "fuse", "skew", "peel", "cache_read", "decompose_reduction", "compute_at")


def proved(func: Func, pairs: int = 12) -> None:
    """Check the offsets of the first clashing accesses: with loops otherwise apart, the solver finds no instances."""
    clashing = ((s, a, t, b) for s, t in conflicting_pairs(statements_of(func)) for a, b in conflicts(s, t))
    for _, (s, a, t, b) in zip(range(pairs), clashing, strict=False):
        apart = distance_vectors(s, a, t, b)
        pair = Pair(func, s, a, t, b)
        system = pair.system({})
        if system.inexact is not None:  # products of sizes cancel, which the solver sees of numbers only
            sizes = dict.fromkeys(func.sizes, 3)
            if not all(cond_holds(c, sizes) for c in func.assumes):
                continue
            system = pair.system(sizes)
        dims = [*(f"{SIZE}{n}" for n in func.sizes), *(f"s.{v}" for v in s.dims), *(f"t.{v}" for v in t.dims)]
        if apart is None:
            assert not system.solvable(dims, [])
        ends = ((v, sign, low if sign < 0 else high) for v, (low, high) in (apart or {}).items() for sign in (-1, 1))
        for v, sign, end in ends:
            if isinf(end):
                continue
            further = {f"s.{v}": sign, f"t.{v}": -sign, "": -sign * int(end) - 1}
            assert not system.solvable(dims, [(further, False)])


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_random_programs(data: st.DataObject) -> None:
    proved(data.draw(schedules(data.draw(funcs()), most=3, primitives=MOVES)).func)


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_scheduled_programs(data: st.DataObject) -> None:
    make = nests.symbolic if data.draw(st.booleans()) else nests.constant
    func = make(data.draw(st.sampled_from(["matmul", "blur", "layernorm"])))
    proved(data.draw(schedules(func, most=3, primitives=MOVES)).func)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_what_an_element_tells(data: st.DataObject) -> None:
    """Where an element is said to tell the iterations of a loop, the solver finds no clash of two different ones."""
    made = data.draw(guarded() if data.draw(st.booleans()) else funcs())
    func = data.draw(schedules(made, most=3, primitives=MOVES)).func
    every = loops_of(func)
    if every and data.draw(st.booleans()):  # what stands in it may start all the same
        func = replace_loop(func, data.draw(st.sampled_from(sorted(every))), lambda s: replace(s, extent=Int(0)))
    for v, nest in loops_of(func).items():
        if element_determines_loops(func, nest, [v]):
            inside = [s for s in statements_of(func) if v in s.dims]
            for s, t in conflicting_pairs(inside):
                for a, b in conflicts(s, t):
                    system = Pair(func, s, a, t, b).system(dict.fromkeys(func.sizes, 4))
                    dims = [*(f"{SIZE}{n}" for n in func.sizes), *(f"s.{x}" for x in s.dims)]
                    dims += [f"t.{x}" for x in t.dims]
                    later = {f"s.{v}": 1, f"t.{v}": -1, "": -1}
                    assert not system.solvable(dims, [(later, False)])


@pytest.mark.parametrize("around", ["for i in range(0):", "for i in range(n):"])
@pytest.mark.parametrize("inside", ["for k in range(i):", "for k in range(2):"])
def test_what_starts_where_nothing_folds(around: str, inside: str) -> None:
    """A fold that never happens starts all the same, at elements that two iterations of j have in common."""
    func = parse(f"""
def f(n: "size", A: "float32[n]", X: "inout float32[2]"):
    {around}
        for j in range(5):
            {inside}
                X[(j + 2) % 2] = sum(A[i], over=(i, k), init=A[j])
""")
    nest = loops_of(func)["j"]
    assert not element_determines_loops(func, nest, ["j"])
    for name, args in (("bind", ("j", "blockIdx.x")), ("parallel", ("j",)), ("vectorize", ("j",)), ("reverse", ("j",))):
        why = Schedule(func).why(name, *args)
        assert why is not None
        assert "X (its init) at (j=0) writes X[0], which X (its init) at (j=2) writes" in str(why)


def clash(source: str) -> dict[str, tuple[float, float]] | None:
    """The offsets of what the one statement of `source` reads or writes and writes again."""
    (s,) = statements_of(parse(source))
    a, b = min(conflicts(s, s), key=lambda pair: pair[0].write)
    found = distance_vectors(s, a, s, b)
    return None if found is None else dict(found)


def sweep(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f'def f(n: "size", a: "inout float32[n + 900]", b: "inout float32[n + 9, n + 9]"):\n{body}'


def test_digits_are_told_apart() -> None:
    tiled = ["for io in range(n):", "    for ii in range(32):", "        a[io * 32 + ii] = a[io * 32 + ii] + 1.0"]
    assert clash(sweep(*tiled)) == {"io": (0, 0), "ii": (0, 0)}
    wide = [line.replace("range(32)", "range(33)") for line in tiled]
    assert clash(sweep(*wide)) == {}, "33 places in steps of 32: two tiles meet"


def test_a_guard_makes_digits() -> None:
    nest = [
        "for o in range(n):",
        "    for j in range(5):",
        "        for k in range(30):",
        "            if j * 30 + k < 128:",
        "                a[o * 128 + j * 30 + k] = a[o * 128 + j * 30 + k] + 1.0",
    ]
    assert clash(sweep(*nest)) == {"o": (0, 0), "j": (0, 0), "k": (0, 0)}
    assert clash(sweep(*(line.replace("128:", "129:") for line in nest))) == {}


def test_a_constant_distance() -> None:
    assert clash(sweep("for i in range(n):", "    a[i + 3] = a[i] + 1.0")) == {"i": (3, 3)}
    assert clash(sweep("for i in range(3):", "    a[i + 3] = a[i] + 1.0")) is None
    assert clash(sweep("for i in range(n):", "    a[i * 2] = a[i * 2 + 1] + 1.0")) is None


def test_one_subscript_helps_another() -> None:
    nest = ["for i in range(n):", "    for j in range(9):", "        b[i, i + j] = b[i, i + j] + 1.0"]
    assert clash(sweep(*nest)) == {"i": (0, 0), "j": (0, 0)}
    assert clash(sweep(*(line.replace("b[i, i + j]", "b[0, i + j]") for line in nest))) == {}


def test_what_is_no_sum_says_nothing() -> None:
    assert clash(sweep("for i in range(n):", "    a[i // 2] = a[i // 2] + 1.0")) == {}
    assert clash(sweep("for i in range(n):", "    a[n - i] = a[i] + 1.0")) == {}


def test_tiles_of_a_matmul_need_no_solver() -> None:
    s = Schedule(nests.symbolic("matmul")).tile("i", "j", 30, 30).tile("i_i", "j_i", 7, 7)
    init, fold = statements_of(s.func)
    a, b = next(conflicts(init, fold))
    assert distance_vectors(init, a, fold, b) == dict.fromkeys(init.dims, (0, 0))


@given(
    st.sampled_from(["l // 4 * 4 + p", "p * 4 + l % 4", "p + l // 2", "l"]),
    st.sampled_from(["{} == l", "l <= {} and {} <= l"]),
)
@settings(max_examples=8, deadline=None)
def test_a_guard_that_says_which_variable_a_subscript_is(ix: str, guard: str) -> None:
    lines = [
        "for l in range(16):",
        "    for p in range(4):",
        f"        if {guard.replace('{}', ix)}:",
        f"            T[{ix}] = 1.0",
    ]
    source = "\n    ".join(['def f(T: "out float32[64]"):', *lines]) + "\n"
    proved(parse(source))
    assert (clash(source) or {})["l"] == (0, 0)
