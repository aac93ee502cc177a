"""A campaign in parts: what processes log is added up, and one that hangs or dies is counted and started again."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given, settings, strategies as st

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.campaign import (
    ACCEPTED,
    LONG_SCHEDULES,
    MOST_JUDGED,
    PATIENCE,
    PHASES,
    Counts,
    Worker,
    WorkerProcess,
    _look_after,  # pyright: ignore[reportPrivateUsage]
    campaign,
    free_part,
    merged,
    small_program,
)
from loopir.testing.checking import QUIET
from loopir.testing.generate.varied import longest
from loopir.testing.legality import JUDGED, judge_taken, take, verdict
from loopir.testing.oracles.brute_force import small_sizes


class Process:
    """A process that stands still until it is killed."""

    def __init__(self, *, alive: bool = True, exitcode: int | None = None) -> None:
        self.alive, self.exitcode, self.pid = alive, exitcode, -1

    def is_alive(self) -> bool:
        return self.alive


@pytest.mark.parametrize("name", ["split", "privatize", LONG_SCHEDULES])
def test_a_round_is_logged_and_read_back(name: str, tmp_path: Path) -> None:
    clock = [0.0, 0.0, 0.0]
    worker = Worker(tmp_path / "log", clock, part=1, number=2, seed=3)
    worker.round(name, 5)
    found = Counts().read((tmp_path / "log").read_text().splitlines())
    assert found.failures == 0, found.cases
    assert clock[0] > 0
    if name == LONG_SCHEDULES:
        assert 6 < found.others[LONG_SCHEDULES] <= 12
    else:
        assert found.verdicts[name].total() > 5
        assert found.accepted(name) > 0
    assert Worker(tmp_path / "log", clock, 1, 2, 3).counts == found


def test_what_is_judged_to_be_illegal_counts_for_the_share_of_its_primitive() -> None:
    """Else a judge that errs on one gives half of all rounds to it."""
    found = Counts().read(['["verdict", "split", "accepted, illegal"]'] * 2 + ['["verdict", "fuse", "accepted"]'])
    assert (found.taken_of("split"), found.taken_of("fuse"), found.taken_of("tile")) == (2, 1, 0)


def test_parts_are_added_up(tmp_path: Path) -> None:
    one = Counts().read(['["verdict", "split", "accepted"]', '["count", "hang", 1]', '["case", "hang", "a program"]'])
    (tmp_path / "part-0.json").write_text(one.json())
    (tmp_path / "part-7.json").write_text(one.json())
    total = merged(tmp_path)
    assert (total.accepted("split"), total.others["hang"], len(total.cases), total.failures) == (2, 2, 2, 2)
    assert "| split | 2 | 2 | 0 |" in total.report
    (tmp_path / "part-8-0.log").write_text(f'["verdict", "split", "accepted"]\n["count", "{ACCEPTED}", 3]\n["verd')
    ended = merged(tmp_path)  # in the middle of a line
    assert (ended.tried, ended.taken) == (6, 6)


@pytest.mark.parametrize(
    ("phase", "ago", "why"),
    [("step", 11.0, "hang"), ("draw", 11.0, "hang while drawing"), ("judge", 11.0, None), ("step", 1.0, None),
     ("judge", 21.0, "given up by a judge")],
)  # fmt: skip
def test_what_takes_too_long_is_told_apart(phase: str, ago: float, why: str | None) -> None:
    clock = [monotonic() - ago, PHASES.index(phase), 0.0]
    assert WorkerProcess(lambda *_: None, Path("log"), clock, Process()).over(10.0) == why


def test_a_process_that_dies_is_counted() -> None:
    held = WorkerProcess(lambda *_: None, Path("log"), [0.0, 0.0, 0.0], Process(alive=False, exitcode=-11))
    assert held.over(10.0) == "died"
    held.process.exitcode = 0
    assert held.over(10.0) is None


def test_one_that_is_ended_at_the_end_counts_once(tmp_path: Path) -> None:
    """It is not started again, and is looked at again until all others have ended."""
    log = tmp_path / "part-1-0.log"
    process = Process(alive=False, exitcode=-9)
    process.join = lambda: None  # type: ignore[attr-defined]
    held = WorkerProcess(lambda *_: None, log, [0.0, 0.0, 0.0, -1], process)
    for _ in range(5):
        _look_after(held, monotonic() + 0.5, 10.0)
    assert Counts().read(log.read_text().splitlines()).others["died"] == 1


def test_a_primitive_that_takes_nothing_does_not_get_every_turn() -> None:
    found = Counts().read(
        ['["verdict", "split", "accepted"]'] * 30 + ['["verdict", "fuse", "no rewrite"]'] * 40 * PATIENCE
    )
    assert min(("fuse", "split", "tile"), key=found.served) == "tile"
    assert min(("fuse", "split"), key=found.served) == "split"


@settings(QUIET, max_examples=20)
@given(st.sampled_from(["prefetch", "unroll_and_jam", "trim"]).flatmap(small_program))
def test_programs_are_met_by_some_size_and_short(func: Func) -> None:
    assert small_sizes(func)
    assert longest(func) <= MOST_JUDGED


@pytest.mark.parametrize("name", ["retime", "multicast", "reorder"])
def test_of_each_primitive_steps_are_taken_and_none_is_illegal(name: str, tmp_path: Path) -> None:
    worker = Worker(tmp_path / "log", [0.0] * 4, part=1, number=0, seed=0)
    worker.round(name, 2)
    assert worker.counts.accepted(name) > 3
    assert not worker.counts.verdicts[name]["accepted, illegal"]


def test_a_part_is_written_and_leaves_nothing_else(tmp_path: Path) -> None:
    found = campaign(0.0, 1, 4, tmp_path, names=sorted(PRIMITIVES)[:1])
    assert [p.name for p in tmp_path.iterdir()] == ["part-4.json"]
    assert merged(tmp_path) == found


def test_what_divides_is_judged_over_a_field() -> None:
    """Over the ring 1 / x and x have nothing to do with one another."""
    func = parse("""
def f(A: "float32[4]", c: "float32[1]", S: "out float32[1]"):
    for i in range(4):
        S[0] = sum(A[i] / c[0], over=i, init=0.0)
""")
    assert {"factor_out", "rolling_update"} <= {*JUDGED}
    assert verdict(func, Step("factor_out", ("S",), ())) == ("accepted", "")


def test_an_update_that_becomes_a_fold_is_judged_by_its_values() -> None:
    """The element that a store reads is no read of the fold, so that who wrote what it read tells nothing."""
    func = parse("""
def f(A: "float32[2]", C: "inout float32[2, 2]"):
    for k in range(2):
        for j in range(2):
            C[0, j] = C[0, j] - A[k]
""")
    step = Step("fold_into_reduce", ("C",), ())
    assert verdict(func, step) == ("accepted", "")
    taken = take(func, step)
    assert isinstance(taken, Func)
    other = parse(text(taken).replace("-A[k]", "A[k]"))
    assert judge_taken(func, step, other)[0] == "accepted, illegal"


def test_a_line_for_each_primitive_says_what_came_of_its_steps() -> None:
    what = ["accepted"] * 3 + ["accepted, illegal", "crash", "slow", "refused, legal", "refused", "no rewrite"]
    found = Counts().read([f'["verdict", "split", "{x}"]' for x in what])
    assert "| split | 9 | 4 | 1 | 1 | 1 | 1 | 20.00 |" in found.legality.splitlines()
    assert "| fuse | 0 | 0 | 0 | 0 | 0 | 0 | 0.00 |" in found.legality.splitlines()
    assert found.failures == 3
    assert found.report.endswith("9 steps tried, 4 accepted, of each primitive 0 or more; 3 failures")


def test_the_same_command_goes_on_with_the_next_part(tmp_path: Path) -> None:
    assert free_part(tmp_path) == 1
    for name in ("part-1.json", "part-2-0.log"):
        (tmp_path / name).write_text("")
    assert free_part(tmp_path) == 3


def test_a_step_that_is_ended_is_slow_for_its_primitive(tmp_path: Path) -> None:
    log = tmp_path / "part-1-0.log"
    process = Process(alive=False, exitcode=-11)
    process.join = lambda: None  # type: ignore[attr-defined]
    for clock, what in (([1.0, 1, 0.0, JUDGED.index("split")], "verdict"), ([1.0, 1, 0.0, -1], "count")):
        _look_after(WorkerProcess(lambda *_: None, log, clock, process), 0.0, 10.0)
        kinds = [json.loads(line)[0] for line in log.read_text().splitlines()]
        assert kinds == [what, "case"]
        log.unlink()
