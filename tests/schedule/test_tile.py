"""tile in one go is the splits and the reorder that it stands for; what is said to be tied keeps its order for sure."""

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st
from meaning import require_decided

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dependence.reordering import permutation_invariant, violated_dependence
from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import leaf_paths, loops, replace_loop
from loopir.schedule import Schedule
from loopir.schedule.primitives.loops.reorder import Band
from loopir.schedule.primitives.loops.tile import step_by_step, tile
from loopir.testing.generate import nests
from loopir.testing.generate.steps import schedules
from loopir.testing.generate.strategies import funcs
from loopir.testing.oracles.equivalence import assert_equivalent

MOVES = ("split", "reorder", "tile", "decompose_reduction", "skew", "peel")


def both_ways(func: Func, names: list[str], factors: list[int], tail) -> None:
    """tile gives what its steps give, or refuses as they do."""
    one, other = (
        outcome(f)
        for f in (lambda: step_by_step(func, names, factors, tail), lambda: tile(func, *names, *factors, tail=tail))
    )
    assert one == other


def outcome(step: Callable[[], Func]) -> str:
    try:
        return text(step())
    except ScheduleError as error:
        require_decided(error)
        return f"{error.reason}: {error.witness}"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_programs(data: st.DataObject) -> None:
    func = data.draw(schedules(data.draw(funcs()), most=2, primitives=MOVES)).func
    bands = [[x.var for x in p.loops if x.kind == "serial"] for p in leaf_paths(func.body)]
    bands = [b for b in bands if b]
    if bands:
        band = data.draw(st.sampled_from(bands))
        names = data.draw(st.permutations(band))[: data.draw(st.integers(1, 3))]
        factors = [data.draw(st.sampled_from([1, 2, 3, 4])) for _ in names]
        both_ways(func, names, factors, data.draw(st.sampled_from(["guard", "exact"])))


@pytest.mark.parametrize("make", [nests.constant, nests.symbolic])
def test_a_matmul_in_two_levels(make) -> None:
    s = Schedule(make("matmul")).tile("i", "j", 32, 30)
    for pair in [("i", "j"), ("j", "k"), ("k", "i")]:
        both_ways(make("matmul"), [*pair], [32, 30], "guard")
    for pair in combinations(s.loops(), 2):
        both_ways(s.func, [*pair], [5, 4], "guard")


def test_names_are_taken_in_the_order_of_the_loops() -> None:
    source = """
def f(A: "float32[8, 8]", B: "out float32[8, 8]"):
    for i in range(8):
        for i_o in range(8):
            B[i, i_o] = A[i_o, i]
"""
    both_ways(parse(source), ["i", "i_o"], [2, 2], "guard")
    both_ways(parse(source), ["i_o", "i"], [2, 2], "guard")


def test_inits_at_the_edge() -> None:
    """A guard that speaks of the loop that a reduction is over does not keep it from starting."""
    s = Schedule(
        parse("""
def f(n: "size", m: "size", A: "float32[n, m]", S: "out float32[n]"):
    for i in range(n):
        for k in range(m):
            if i + k < m:
                S[i] = sum(A[i, k], over=k, init=1.0)
""")
    )
    for order in (("i", "k"), ("k", "i")):
        assert_equivalent(s, s.tile(*order, 2, 3), trials=20)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_tied_keeps_its_order(data: st.DataObject) -> None:
    """Against the whole question, for any order of the loops of a band."""
    func = data.draw(schedules(data.draw(funcs()), most=2, primitives=MOVES)).func
    for nest in loops(func.body):
        chain = [nest]
        while len(chain[-1].body) == 1 and (inner := [*loops(chain[-1].body)]) and len(chain) < 4:
            chain.append(inner[0])
            try:
                band = Band.of(chain)
            except ScheduleError:
                break
            order = data.draw(st.permutations(band.loops))
            if permutation_invariant(func, nest, [x.var for x in band.loops]):
                new = replace_loop(func, nest.var, lambda _, band=band, order=order: band.rebuilt(order))
                assert violated_dependence(func, new) is None


def test_two_reductions_that_start_at_different_loops_are_not_tied() -> None:
    source = """
def f(n: "size", A: "float32[n, n]", S: "out float32[1]"):
    for i in range(n):
        for j in range(n):
            S[0] = sum(A[i, j], over=(i, j), init=0.0)
"""
    func = parse(source)
    (nest,) = func.body
    assert permutation_invariant(func, nest, ["i", "j"])
    twice = parse(source.replace("init=0.0)\n", "init=0.0)\n            S[0] = sum(A[j, i], over=j, init=0.0)\n"))
    (nest,) = twice.body
    assert not permutation_invariant(twice, nest, ["i", "j"])
