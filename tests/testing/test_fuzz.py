"""All primitives over random programs: no sequence of steps that is accepted fails an oracle, and none crashes."""

from __future__ import annotations

import pytest

from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing import fuzz


@pytest.mark.parametrize("seed", [0, 1])
def test_random_schedules_of_random_programs(seed: int) -> None:
    said: list[str] = []
    assert fuzz.fuzz(0, seed, examples=60, oracles=fuzz.QUICK, say=said.append) == 0, "\n".join(said)


def test_on_every_backend() -> None:
    said: list[str] = []
    assert fuzz.fuzz(0, 12, examples=8, say=said.append) == 0, "\n".join(said)


def test_a_failure_is_a_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A primitive that is broken on purpose is found, by name, and the script shows it."""

    def broken(func: object, loop: str) -> object:
        raise KeyError(loop)

    monkeypatch.setitem(PRIMITIVES, "unroll", broken)
    assert fuzz.main(["--seconds", "0", "--seed", "1", "--primitives", "unroll", "--quick", "--here"]) == 1
    said = capsys.readouterr().out
    assert "crash: KeyError" in said
    assert "import loopir as lp" in said
    assert 's = s.unroll("' in said
    assert "--seed 1 --share 8" in said
