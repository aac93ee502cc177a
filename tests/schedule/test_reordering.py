"""What the subscripts say at once changes no verdict: steps come out as they do when the solver is always asked."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from meaning import require_decided
from stages import programs

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dataflow import coverage
from loopir.analysis.dependence import depend, reordering
from loopir.analysis.dependence.access import Statement
from loopir.analysis.presburger.constraints import ConstraintSystem
from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import loops
from loopir.schedule import Schedule
from loopir.schedule.core.trace import Step
from loopir.schedule.legality import launches
from loopir.schedule.primitives.loops import fuse_loops, merge, reorder, tile, unroll_and_jam, wavefront
from loopir.schedule.primitives.placement import (
    compute_at,
    compute_inline,
    reverse_compute_at,
    reverse_compute_inline,
)
from loopir.schedule.primitives.reduction import decompose_reduction
from loopir.schedule.transform import placement
from loopir.testing.generate import nests
from loopir.testing.generate.steps import schedules, steps
from loopir.testing.generate.strategies import funcs
from loopir.testing.oracles.brute_force import first_violation

ORDERED = (
    "compute_at", "decompose_reduction", "distribute", "fuse_loops", "merge", "parallel", "bind", "reorder",
    "reverse_compute_at", "skew", "tile", "unroll_and_jam", "vectorize", "wavefront",
)  # fmt: skip
"""The steps that ask of dependences."""
PLACED = ("compute_at", "compute_inline", "reverse_compute_at", "reverse_compute_inline", "compute_root")


def outcome(source: str, step: Step) -> str:
    """The nest that the step makes, or the refusal, from nodes about which nothing is known yet."""
    try:
        return text(Schedule(parse(source)).apply(step).func)
    except ScheduleError as error:
        require_decided(error)
        return f"{error.reason}: {error.witness}"


def check(func: Func, step: Step) -> None:
    source = text(func)
    found = outcome(source, step)
    with pytest.MonkeyPatch.context() as patch:
        for room in (coverage, depend, reordering):
            patch.setattr(room, "distance_vectors", lambda *_: {})
        for room in (depend, reordering):
            patch.setattr(room, "element_determines_loops", lambda *_, **__: False)
        for room in (decompose_reduction, reorder, tile, unroll_and_jam, wavefront):
            patch.setattr(room, "permutation_invariant", lambda *_, **__: False)
        patch.setattr(unroll_and_jam, "straight", lambda *_: False)
        patch.setattr(reordering, "may_precede", lambda *_: True)
        patch.setattr(reordering, "_unchanged_nests", lambda *_: (set(), set()))
        patch.setattr(Statement, "equal", {})
        patch.setattr(ConstraintSystem, "refutes", lambda *_: False)
        patch.setattr(placement, "is_covered", lambda *_: False)
        patch.setattr(placement, "INDEPENDENT", ())
        patch.setattr(compute_at, "may_turn", lambda *_: True)
        patch.setattr(reverse_compute_at, "sliding_lag", lambda *_: None)
        patch.setattr(compute_inline, "_far", lambda _: None)
        for room in (compute_at, reverse_compute_at):
            patch.setattr(
                room, "violated_dependence", lambda *args, moving, **asks: reordering.violated_dependence(*args, **asks)
            )
        patch.setattr(fuse_loops, "violated_dependence", lambda *args, past: reordering.violated_dependence(*args))
        patch.setattr(merge, "_starts_with", lambda _: True)
        patch.setattr(launches, "_nested_with", lambda func, _: [x.var for x in loops(func.body)])
        assert found == outcome(source, step)


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_programs(data: st.DataObject) -> None:
    func = data.draw(schedules(data.draw(funcs()), most=2, primitives=(*ORDERED, "split", "peel"))).func
    check(func, data.draw(steps(func, ORDERED)))


@given(st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_programs(data: st.DataObject) -> None:
    make = nests.symbolic if data.draw(st.booleans()) else nests.constant
    func = make(data.draw(st.sampled_from(["blur", "layernorm", "matmul"])))
    func = data.draw(schedules(func, most=2, primitives=("split", "tile", "fuse_loops", "reorder"))).func
    check(func, data.draw(steps(func, ORDERED)))


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_that_is_tied_would_be_refused(data: st.DataObject) -> None:
    func = data.draw(schedules(data.draw(funcs()), most=1, primitives=("split", "skew"))).func
    check(func, data.draw(steps(func, ("decompose_reduction", "unroll_and_jam", "wavefront"))))


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_stages(data: st.DataObject) -> None:
    before = ("split", "reorder", "parallel", "bind", *PLACED)
    func = data.draw(schedules(parse(data.draw(programs())), most=2, primitives=before)).func
    check(func, data.draw(steps(func, PLACED)))


@pytest.mark.parametrize("step", [Step("reverse_compute_at", ("B", "j")), Step("reverse_compute_inline", ("B",))])
@pytest.mark.parametrize("lane", ["r", "r + 1", "l // 2", "l"])
def test_what_a_guard_picks(step: Step, lane: str) -> None:
    """A consumer that wants one iteration of a loop around, or another one than all have that are around."""
    func = parse(f"""
def staged(A: "float32[4, 16, 32]", B: "out float32[4, 2, 16]"):
    for b in range(4):
        for r in range(2):
            with alloc("float32[16, 32]") as T:
                for p in range(2):
                    for i in range(8):
                        for j in range(32):
                            T[p * 8 + i, j] = A[b, p * 8 + i, j]
                for l in range(16):
                    B[b, r, l] = T[l, {lane}]
""")
    check(func, step)


@given(st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_consumer_put_straight_into_its_place(data: st.DataObject) -> None:
    """It is the nest that placing and computing inline make; where it is another, or that is refused, brute force finds
    nothing wrong with either."""
    func = parse(data.draw(programs()))
    func = data.draw(schedules(func, most=1, primitives=("split", "reorder", "compute_at", "fuse_loops"))).func
    step = data.draw(steps(func, ("reverse_compute_inline",)))
    found = outcome(text(func), step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reverse_compute_inline, "_straight", lambda *_: None)
        other = outcome(text(func), step)
    if found != other:
        after = Schedule(parse(text(func))).apply(step).func
        few = [dict(zip(func.sizes, at, strict=True)) for at in ((0, 0), (2, 1), (1, 3))]
        assert first_violation(func, after, few) is None, f"{text(func)}\n{step}"
        if other.startswith("def"):
            assert first_violation(func, parse(other), few) is None, f"{text(func)}\n{step}\n{other}"
