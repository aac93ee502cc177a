"""What makes a function a primitive: arguments are checked, refusals name the call, results are verified and known."""

import pickle

import pytest
from two_nests import TWO

import loopir.intrinsics  # noqa: F401
from loopir.errors import ScheduleError, VerifyError
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.verify.scope import Stage
from loopir.ir.verify.verify import verify
from loopir.schedule import Schedule, primitive
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.schedule.transform.subprogram import extract


@pytest.fixture
def s() -> Schedule:
    return Schedule(parse(TWO))


def test_a_step_that_was_asked_about_is_checked_once(s: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    twin, checked = Schedule(parse(text(s.func))), list[str]()

    def counted(func: Func, stage: Stage) -> None:
        checked.append(text(func))
        verify(func, stage)

    monkeypatch.setattr("loopir.schedule.core.primitive.verify", counted)
    assert s.why("split", "k", 4) is None
    made = s.split("k", 4)
    assert checked == [text(made.func)]
    assert pickle.loads(pickle.dumps(s)) == s
    assert s.split("k", 2) == twin.split("k", 2)
    assert made == s.split("k", 4) == twin.split("k", 4)
    assert len(checked) == 4
    assert s.split("k", 4).why("split", "k", 4) is not None


def test_steps_taken_again_on_the_same_nests_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    func = parse(
        'def f(A: "float32[8]", B: "out float32[8]", C: "out float32[8]"):\n'
        "    for i in range(8):\n        B[i] = A[i]\n    for j in range(8):\n        C[j] = B[j]\n"
    )
    part = Schedule(extract(func, ("C",)).func)
    steps = (("split", ("j", 4), ()), ("unroll", ("j_i",), ()))
    made, checked = part.split("j", 4).unroll("j_i"), list[str]()

    def counted(func: Func, stage: Stage) -> None:
        checked.append(func.name)
        verify(func, stage)

    monkeypatch.setattr("loopir.schedule.core.primitive.verify", counted)
    whole = Schedule(func).schedule_nests((("C",), steps))
    assert checked == ["f"]
    apart = Schedule(func).replay([Step("split", ("j", 4)), Step("unroll", ("j_i",))])
    assert text(whole.func) == text(apart.func)
    assert part.split("j", 4).unroll("j_i").func is made.func


def test_a_step_that_is_known_is_taken_for_no_other(s: Schedule) -> None:
    assert s.split("k", 1) == s.split("k", 1)
    with pytest.raises(TypeError, match="factor is int, not True"):
        s.split("k", True)
    assert s.split("k", 1, tail="guard") != s.split("k", 2, tail="guard")


def test_the_outermost_call_is_the_one_named(s: Schedule) -> None:
    with pytest.raises(ScheduleError, match=r'^tile\("i", "j", 2, 0\): a tile of 0 iterations'):
        s.tile("i", "j", 2, 0)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        (("k", "4"), {}, TypeError, 'split: factor is int, not "4"'),
        (("k", True), {}, TypeError, "split: factor is int, not True"),
        (("k", 4.0), {}, TypeError, "split: factor is int, not 4.0"),
        ((3, 4), {}, TypeError, "split: loop is str, not 3"),
        (("k",), {}, TypeError, "missing a required argument: 'factor'"),
        (("k", 4), {"tial": "peel"}, TypeError, "there is no tial=; split takes loop, factor"),
        (("k", 4), {"names": "ab"}, TypeError, r"split: names is tuple\[str, str\] \| None, not \"ab\""),
        (("k", 4), {"names": ("a",)}, TypeError, r"not \(\"a\",\)"),
        (("k", 4), {"tail": "loose"}, ScheduleError, 'tail is one of "guard", "exact", .* not "loose"'),
        (("k", 4), {"tail": None}, TypeError, "split: tail is Literal"),
    ],
)
def test_arguments_are_checked(s: Schedule, args: tuple, kwargs: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        s.split(*args, **kwargs)


def test_what_counts_as_an_int_is_taken(s: Schedule) -> None:
    import numpy as np

    assert s.split("k", np.int64(4)).func == s.split("k", 4).func
    assert s.split("k", 4, names=["a", "b"]).func == s.split("k", 4, names=("a", "b")).func


def test_a_primitive_takes_a_func(s: Schedule) -> None:
    from loopir.schedule.primitives.loops.split import split

    assert split(s.func, "k", 4) == s.split("k", 4).func
    with pytest.raises(TypeError, match="split takes a Func first, not Schedule"):
        split(s, "k", 4)  # pyright: ignore[reportArgumentType]


def test_a_primitive_of_ones_own(s: Schedule) -> None:
    try:

        @primitive
        def twice(func: Func, loop: str) -> Func:
            """Split `loop` twice by 2."""
            return PRIMITIVES["split"](PRIMITIVES["split"](func, loop, 2), f"{loop}_o", 2)

        after = s.twice("k")  # pyright: ignore[reportAttributeAccessIssue]
        assert after.loops("C") == ("i", "j", "k_o_o", "k_o_i", "k_i")
        assert s.why("twice", "x").call == 'twice("x")'  # pyright: ignore[reportOptionalMemberAccess]
        with pytest.raises(ValueError, match="has a method 'twice' already"):
            primitive(twice)
        with pytest.raises(ValueError, match="has a method 'undo' already"):

            @primitive
            def undo(func: Func) -> Func:
                return func
    finally:
        del PRIMITIVES["twice"]
        del Schedule.twice  # pyright: ignore[reportAttributeAccessIssue]


def test_a_primitive_that_breaks_the_nest_is_found_out(s: Schedule) -> None:
    try:

        @primitive
        def broken(func: Func) -> Func:
            """Break it."""
            return Func(func.name, (), (), func.body)

        with pytest.raises(VerifyError):
            s.broken()  # pyright: ignore[reportAttributeAccessIssue]
    finally:
        del PRIMITIVES["broken"]
        del Schedule.broken  # pyright: ignore[reportAttributeAccessIssue]
