"""Schedule itself: what it is made of, what it tells, how it goes back, and that it never changes."""

import pickle

import pytest
from hypothesis import given, settings, strategies as st
from two_nests import TWO

import loopir.intrinsics  # noqa: F401
from loopir.errors import ScheduleError, VerifyError
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.schedule import Schedule
from loopir.schedule.core.trace import Step
from loopir.testing.generate.steps import schedules


@pytest.fixture
def s() -> Schedule:
    return Schedule(parse(TWO))


class Tensor:
    """What a tensor looks like from here."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __loopir_func__(self, *others: "Tensor") -> Func:
        names = ", ".join(f'{t.name}: "out float32[2]"' for t in (self, *others))
        stores = "".join(
            f"    for i_{t.name} in range(2):\n        {t.name}[i_{t.name}] = 1.0\n" for t in (self, *others)
        )
        return parse(f"def outputs({names}):\n{stores}")


# ---------------------------------------------------------------- made of


def test_made_of_a_func_or_a_schedule(s: Schedule) -> None:
    assert Schedule(s.func) == s
    assert Schedule(s.split("k", 4)).trace == ()
    assert Schedule(s.split("k", 4)).func == s.split("k", 4).func


def test_made_of_tensors() -> None:
    assert Schedule(Tensor("X")).stages == ("X",)
    assert Schedule([Tensor("X"), Tensor("Y")]).stages == ("X", "Y")
    assert Schedule((Tensor("X"),)).stages == ("X",)


@pytest.mark.parametrize("bad", [3, "text", [], [1], None, Tensor])
def test_made_of_nothing_else(bad: object) -> None:
    with pytest.raises(TypeError, match=r"a Schedule is made of a (Func, a tensor or a )?list of tensors, "):
        Schedule(bad)  # pyright: ignore[reportArgumentType]


def test_an_ill_formed_nest_is_no_schedule(s: Schedule) -> None:
    with pytest.raises(VerifyError):
        Schedule(Func("f", s.func.params[:1], (), s.func.body))


# ---------------------------------------------------------------- what it tells


def test_stages_loops_and_buffers(s: Schedule) -> None:
    assert s.stages == ("C", "D")
    assert s.buffers == ("A", "D", "C")
    assert s.loops() == ("i", "j", "k", "i_1", "j_1")
    assert s.loops("C") == ("i", "j", "k")
    assert s.loops("D") == ("i_1", "j_1")
    assert s.loop("D.i").var == "i_1"
    assert str(s) == TWO.rstrip("\n")
    assert repr(s) == str(s)


def test_names_qualified_by_the_stage(s: Schedule) -> None:
    split = s.split("D.j", 4)
    assert split.loops("D") == ("i_1", "j_1_o", "j_1_i")
    assert split.loop("C.j").var == "j"
    assert split.loop("j_1_o").var == "j_1_o"


def test_a_stage_is_its_buffer_too(s: Schedule) -> None:
    labelled = Schedule(parse(TWO.replace("D[i_1, j_1] =", 'D[i_1, j_1]: "last" =')))
    assert labelled.stages == ("C", "last")
    assert labelled.loops("D") == labelled.loops("last") == ("i_1", "j_1")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x", "there is no loop 'x' in 'two'; the loops there are i, j, k, i_1 and j_1"),
        ("D.k", "there is no loop 'k' around stage 'D'; the loops there are i_1 and j_1"),
        ("E.k", "there is no stage 'E' in 'two'; its stages are C and D"),
        ("j_11", "instead: 'j_1'"),
    ],
)
def test_an_unknown_name_is_told_what_there_is(s: Schedule, name: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        s.split(name, 4)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f'split("{name}", 4): ')
    assert caught.value.loop == name


def test_a_name_that_means_two_loops_is_refused() -> None:
    s = Schedule(parse("def f(A: 'out float32[2, 2]'):\n    for i_1 in range(2):\n        for i_2 in range(2):\n"
                       "            A[i_1, i_2] = 0.0\n"))  # fmt: skip
    with pytest.raises(ScheduleError, match=r"'A\.i' can mean i_1 and i_2"):
        s.split("A.i", 2)


# ---------------------------------------------------------------- steps


def test_steps_leave_the_old_one_alone(s: Schedule) -> None:
    after = s.split("k", 4).unroll("k_i")
    assert s.trace == ()
    assert str(s) == TWO.rstrip("\n")
    assert after.trace == (Step("split", ("k", 4)), Step("unroll", ("k_i",)))
    assert after.undo().undo() == s
    assert after.undo().undo().func is s.func
    with pytest.raises(AttributeError):
        after.func = s.func  # pyright: ignore[reportAttributeAccessIssue]


def test_nothing_to_undo(s: Schedule) -> None:
    with pytest.raises(ScheduleError, match="no step to undo"):
        s.undo()


def test_the_script_rebuilds_it(s: Schedule) -> None:
    after = s.split("k", 3, tail="peel", names=("ko", "ki"))
    assert after.script() == 's = s.split("k", 3, tail="peel", names=("ko", "ki"))\n'
    scope = {"s": s}
    exec(after.script(), scope)
    assert scope["s"] == after
    assert s.script() == ""


def test_a_refusal_is_told_and_leaves_no_trace(s: Schedule) -> None:
    error = s.why("split", "k", 3, tail="exact")
    assert isinstance(error, ScheduleError)
    assert error.primitive == "split"
    assert error.call == 'split("k", 3, tail="exact")'
    assert str(error).startswith('split("k", 3, tail="exact"): 3 does not divide 8')
    assert s.why("split", "k", 4, tail="exact") is None
    with pytest.raises(ScheduleError) as caught:
        s.split("k", 3, tail="exact")
    assert str(caught.value) == str(error)


def test_why_of_no_primitive(s: Schedule) -> None:
    with pytest.raises(AttributeError, match="no primitive 'splat'; did you mean split"):
        s.why("splat", "k")


def test_diff_shows_what_the_last_step_changed(s: Schedule) -> None:
    assert s.diff() == ""
    lines = s.unroll("k").diff().splitlines()
    assert lines[:2] == ['--- before unroll("k")', '+++ after unroll("k")']
    assert [line for line in lines[2:] if line[0] in "+-"] == [
        "-                for k in range(8):",
        "+                for k in unroll(8):",
    ]


def test_a_schedule_can_be_sent_elsewhere(s: Schedule) -> None:
    after = s.split("k", 4)
    again = pickle.loads(pickle.dumps(after))
    assert again == after
    assert hash(again) == hash(after)
    assert again.undo() == s


def test_the_text_parses_back(s: Schedule) -> None:
    assert parse(text(s.func)) == s.func


# ---------------------------------------------------------------- which step it was


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 12), st.integers(0, 13), st.booleans())
def test_bisect_finds_the_first_step_that_a_check_fails_after(steps: int, wrong: int, raising: bool) -> None:
    s = Schedule(parse(TWO))
    for n in range(steps):
        s = s.rename(s.loops("D")[0], f"loop{n}")
    asked: list[int] = []

    def check(tried: Schedule) -> bool | None:
        asked.append(len(tried.trace))
        if raising:
            assert len(tried.trace) < wrong
            return None
        return len(tried.trace) < wrong

    if wrong == 0:
        with pytest.raises(ValueError, match="the check fails for the program itself, before any step"):
            s.bisect(check)
        return
    found = s.bisect(check)
    if steps < wrong:
        assert found is None
        return
    assert found is not None
    assert found.trace == s.trace[:wrong]
    assert found.undo().trace == s.trace[: wrong - 1]
    assert len(asked) <= 2 + steps.bit_length()


def test_bisect_counts_what_loopir_refuses_as_failed_and_passes_other_errors_on(s: Schedule) -> None:
    after = s.rename("k", "kk").rename("D.j", "jj")
    found = after.bisect(lambda t: t.loop("k"))
    assert found is not None
    assert str(found.trace[-1]) == 'rename("k", "kk")'
    with pytest.raises(ZeroDivisionError):
        after.bisect(lambda t: 1 // 0)


def test_a_step_gives_back_what_it_made(s: Schedule) -> None:
    split = s.split("k", 4)
    assert split.last == (("k_o", "k_i"), (), ())
    assert split.with_loops == (split, ("k_o", "k_i"))
    copied = split.cache_read("C", "A", "local", at="k_o")
    loops, stages, buffers = copied.last
    assert set(loops) == set(copied.loops()) - set(split.loops())
    assert set(stages) == set(copied.stages) - set(split.stages)
    assert set(buffers) == set(copied.buffers) - set(split.buffers)
    assert copied.with_stage == (copied, *stages)
    with pytest.raises(ScheduleError, match="last step has made none, not one stage"):
        copied.rename(copied.loops()[0], "renamed").with_stage  # noqa: B018
    assert loops
    assert stages
    assert buffers
    assert split.unroll("k_i").last == ((), (), ())
    assert copied.undo().last == split.last


def test_what_no_step_made_is_not_given_back(s: Schedule) -> None:
    with pytest.raises(ScheduleError, match="no step has been taken"):
        _ = s.last


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_loops_that_a_step_made_are_new_and_in_the_order_of_the_nest(data: st.DataObject) -> None:
    s = data.draw(schedules(parse(TWO), most=3))
    if s.trace:
        before = s.undo()
        assert not {*s.last.loops} & {*before.loops()}
        assert [x for x in s.loops() if x in s.last.loops] == [*s.last.loops]
        assert {*s.loops()} <= {*before.loops(), *s.last.loops}
