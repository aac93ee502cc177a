"""Every primitive's docstring, run: what it says it does, what it says it refuses, and the rules all of them keep."""

import numpy as np
import pytest
from meaning import assert_same, outcome

import loopir.intrinsics  # noqa: F401  (the parser knows operations by name)
from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.schedule.core.doc import Example, examples, summary
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing.generate.steps import OF_NUMBERS

CASES = [(name, e) for name, f in sorted(PRIMITIVES.items()) for e in examples(f)]
ACCEPTED = [c for c in CASES if c[1].after is not None]
REFUSED = [c for c in CASES if c[1].refusal is not None]


def ids(case: object) -> str:
    return case.call if isinstance(case, Example) else ""


def take(s: Schedule, call: str) -> Schedule:
    return eval(f"s.{call}", {"s": s})


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_a_primitive_says_what_it_does_and_what_it_refuses(name: str) -> None:
    f = PRIMITIVES[name]
    assert summary(f)
    assert any(e.after for e in examples(f))
    assert any(e.refusal for e in examples(f))


@pytest.mark.parametrize(("name", "example"), ACCEPTED, ids=ids)
def test_before_becomes_after(name: str, example: Example) -> None:
    s = Schedule(parse(example.before))
    assert str(s) == example.before
    after = take(s, example.call)
    assert str(after) == example.after
    assert parse(str(after)) == after.func
    assert after.trace[-1].name == name


@pytest.mark.parametrize(("name", "example"), REFUSED, ids=ids)
def test_what_is_refused_names_the_call_and_the_reason(name: str, example: Example) -> None:
    s = Schedule(parse(example.before))
    with pytest.raises(ScheduleError) as caught:
        take(s, example.call)
    assert example.refusal
    assert example.refusal in str(caught.value)
    assert str(caught.value).startswith(f"{example.call}: ")
    assert caught.value.primitive == name
    assert s.trace == ()
    assert str(s) == example.before


@pytest.mark.parametrize(("name", "example"), ACCEPTED, ids=ids)
def test_the_meaning_stays(name: str, example: Example) -> None:
    s = Schedule(parse(example.before))
    after = take(s, example.call)
    for size in (0, 1, 3, 4, 7):
        sizes = dict.fromkeys(s.func.sizes, size)
        if name in OF_NUMBERS:
            one, other = (outcome(x, sizes, 0, "real") for x in (s.func, after.func))
            assert all(np.allclose(one[x], other[x], rtol=2**-16, atol=0) for x in one)
        else:
            assert_same(s.func, after.func, sizes)


@pytest.mark.parametrize(("name", "example"), ACCEPTED, ids=ids)
def test_the_trace_rebuilds_it(name: str, example: Example) -> None:
    base = Schedule(parse(example.before))
    after = take(base, example.call)
    scope = {"s": base}
    exec(after.script(), scope)
    assert scope["s"] == after
    assert base.replay(after.trace) == after
    assert after.undo() == base
