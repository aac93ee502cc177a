"""Records of the tuner: what a program is called in a database, and steps that are proved when they are applied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loopir.schedules.plan import flat
from loopir.schedules.tuning.records import (
    Record,
    Refused,
    apply_record,
    canonical,
    machine_name,
    parse_record,
    subject_of,
)

import loopir as lp
from loopir import schedules


def test_programs_that_differ_in_names_have_one_key() -> None:
    def program(a: str, b: str) -> lp.Schedule:
        x, y = (lp.placeholder((8, 8), "float32", name=n) for n in (a, b))
        return lp.Schedule((x @ y).named(f"{a}{b}"))

    one, other = (subject_of(program(*names), "llvm", "m") for names in (("A", "B"), ("P", "Q")))
    assert one.program.replace("AB", "PQ") == other.program
    n = lp.symbol("n")
    s = lp.Schedule(lp.placeholder((n,), "float32", name="x") + 1.0)
    assert subject_of(s, "llvm", "m").sizes == (("n", 1024),)
    assert subject_of(s, "llvm", "m", {"n": 7}).key != subject_of(s, "llvm", "m").key
    with pytest.raises(ValueError, match=r"has no size 'k'; its sizes are n"):
        subject_of(s, "llvm", "m", {"k": 7})
    assert canonical(s).func.name == "part"
    assert "threads" in machine_name("llvm")


def recorded(s: lp.Schedule) -> Record:
    made = schedules.auto(canonical(s), "llvm")
    return Record(subject_of(s, "llvm", "m"), "winner", "auto", (), flat(made.trace), "ok")


def test_steps_are_taken_on_a_program_of_other_names() -> None:
    x, y = (lp.placeholder((20, 33), "float32", name=n) for n in ("x", "y"))
    first, other = lp.Schedule(lp.softmax(x).named("p")), lp.Schedule(lp.softmax(y).named("q"))
    found = parse_record(recorded(first).line()[:-1])
    made = apply_record(other, found)
    assert made.trace[0].name == "schedule_nests"
    a = np.random.default_rng(0).standard_normal((20, 33), np.float32)
    np.testing.assert_allclose(made.build("llvm")(a), other.build("llvm")(a), rtol=1e-5)


RUNNING_SUM = """
def running_sum(a: "inout float32[17]"):
    for i in range(16):
        a[i + 1] = a[i + 1] + a[i]
"""


def test_steps_that_are_not_legal_are_refused_with_a_sentence() -> None:
    s = lp.Schedule(lp.parse(RUNNING_SUM))
    record = recorded(s)
    forged = {
        (("parallel", ("i",), ()),): "is not legal for this program",
        (("no_such_step", (), ()),): "no primitive",
        (("split", ("no_such_loop", 4), ()),): "is not legal|there is no loop",
        (("split", (), (("tail", ()),)),): "is not legal|damaged",
    }
    for trace, said in forged.items():
        with pytest.raises(Refused, match=said):
            apply_record(s, replace(record, trace=trace))


@pytest.mark.parametrize("text", ["\x1b[31mred\x1b[0m", "fused\nok: 1.00 x", "\u202eevil", "\x00", "a\tb"])
def test_what_a_record_says_moves_no_cursor(text: str) -> None:
    record = Record(subject_of(lp.Schedule(lp.parse(RUNNING_SUM)), "llvm", "m"), "candidate", text,
                    ((text, text, text),), (), "hung", text)  # fmt: skip
    found = parse_record(record.line())
    assert all(x.isprintable() for x in (found.name, found.said, found.label))
    for part in ("program", "target", "machine"):
        subject = replace(record.subject, **{part: text})
        if part == "program" and "\n" in text:
            assert parse_record(replace(record, subject=subject).line()).subject == subject
            continue
        with pytest.raises(Refused, match="not printable"):
            parse_record(replace(record, subject=subject).line())


@pytest.mark.parametrize("when", [1e12, 1e308])
def test_a_record_of_a_day_that_no_calendar_has_is_refused(when: float) -> None:
    record = replace(recorded(lp.Schedule(lp.parse(RUNNING_SUM))), when=when)
    with pytest.raises(Refused, match="seconds after 1970"):
        parse_record(record.line())
