"""Schedule functions of one's own: one step in the trace, replayed by what they took, refused as a whole."""

import pytest

import loopir as lp

NEST = """
def f(n: "size", A: "float32[n, 64]", B: "out float32[n, 64]"):
    for i in range(n):
        for j in range(64):
            B[i, j] = A[i, j] + 1.0
"""


@lp.composite
def lanes(s: lp.Schedule, loop: str, count: int) -> lp.Schedule:
    return s.split(loop, count).vectorize(f"{loop}_i")


@lp.composite
def fast(s: lp.Schedule, stage: str, *, count: int = 8) -> lp.Schedule:
    outer, inner = s.loops(stage)
    return lanes(s, inner, count).parallel(outer)


def base() -> lp.Schedule:
    return lp.Schedule(lp.parse(NEST))


def test_it_is_one_step_that_holds_the_ones_it_took() -> None:
    s = fast(base(), "B", count=4)
    (step,) = s.trace
    assert str(step) == 'fast("B", count=4)'
    assert [str(x) for x in step.steps] == ['lanes("j", 4)', 'parallel("i")']
    assert [str(x) for x in step.steps[0].steps] == ['split("j", 4)', 'vectorize("j_i")']
    assert s.undo() == base()
    assert s.diff().startswith('--- before fast("B", count=4)')


def test_its_script_and_its_trace_need_the_primitives_alone() -> None:
    s = fast(base(), "B")
    assert base().replay(s.trace) == s
    scope = {"s": base()}
    exec(s.script(), scope)
    assert scope["s"].func == s.func
    assert s.script().splitlines()[:2] == ['# fast("B"):', '#   lanes("j", 8):']


def test_a_refusal_inside_names_both_calls_and_changes_nothing() -> None:
    s = base()
    with pytest.raises(lp.ScheduleError, match=r'lanes\("k", 4\): split\("k", 4\): there is no loop') as caught:
        lanes(s, "k", 4)
    assert caught.value.primitive == "split"
    assert s == base()


def test_taking_no_step_is_no_step() -> None:
    s = base()
    assert lp.composite(lambda s: s)(s) is s


def test_what_does_not_come_from_the_schedule_is_refused() -> None:
    with pytest.raises(TypeError, match="has to return a Schedule, not NoneType"):
        lp.composite(lambda s: None)(base())  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="comes from the one it was given"):
        lp.composite(lambda s: base())(base())
