"""The tests can fail: faults put into our own rules are found, by random programs and exact oracles."""

from __future__ import annotations

from pathlib import Path

import pytest

import loopir as lp
from loopir.schedule import Schedule
from loopir.testing.mutants import MUTANTS, Mutant, hunted
from loopir.testing.mutants.__main__ import main
from loopir.testing.mutants.patch import Stale, patched
from loopir.testing.mutants.warps import WARPS

SAMPLE = (
    "no WAR", "writes before reads", "box one short", "last access only", "one too many", "tail from the wrong place",
    "last iteration forgotten", "factor not put back", "init lost", "starts in every tile",
    "no barrier before", "half a tree", "fills what is read", "its own block alone",
)  # fmt: skip
"""A bounded part, of every family; the command hunts them all."""

TAIL = """
def f(A: "float32[5]", B: "out float32[5]"):
    for i in range(5):
        B[i] = A[i]
"""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_every_mutant_still_changes_its_rule(mutant: Mutant) -> None:
    with mutant.applied():
        pass


def test_names_are_told_apart() -> None:
    assert len({m.name for m in MUTANTS}) == len(MUTANTS)


def test_a_fault_is_there_and_gone() -> None:
    """Who has imported the function, and who has wrapped it, meets the fault; afterwards nobody does."""
    s = Schedule(lp.parse(TAIL))
    right = str(s.split("i", 4))
    with patched("schedule.primitives.loops.split:Tiling.once", 'Cmp("<"', 'Cmp("<="'):
        assert "i_o * 4 + i_i <= 5" in str(s.split("i", 4))
    assert str(s.split("i", 4)) == right


def test_a_rule_that_was_rewritten_is_told() -> None:
    with pytest.raises(Stale, match=r"split:Tiling\.once has 0 times"), patched(
        "schedule.primitives.loops.split:Tiling.once", "no such text", ""
    ):  # fmt: skip
        pass


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_is_killed(name: str) -> None:
    (mutant,) = (m for m in MUTANTS if m.name == name)
    result = hunted(mutant, patience=0.3)
    assert result.outcome == "killed", name
    assert result.found is not None
    assert result.found.loops <= (4 if mutant.family != WARPS[0].family else 9)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--name", "one too many", "--patience", "0.5"]) == 0
    said = capsys.readouterr().out
    assert "killed     tails and predicates: one too many" in said
    assert "s = s.split(" in said
    assert "1 of 1 killed" in said
    assert str(Path.cwd()) not in said
