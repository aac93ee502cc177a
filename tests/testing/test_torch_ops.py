"""The judge of operators by torch's samples tells right from fallen back and from wrong. All are run by the command."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
from loopir.frontend.torch.row import OPERATORS, AtenRow  # noqa: E402
from loopir.testing.torch_ops import Tally, _judged  # noqa: E402


def ended(fn: Any, *args: Any) -> str:
    return _judged(fn, SimpleNamespace(input=torch.arange(4.0), args=args, kwargs={}))[0]


def test_samples_end_as_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(torch.add, 1.5) == "right"
    assert ended(torch.polygamma, 2) == "fell back"
    assert ended(torch.reshape, (3, 3)) == "fell back"  # torch refuses it
    monkeypatch.setitem(OPERATORS, "aten.exp.default", AtenRow(lambda x: x + 1))
    assert ended(torch.exp) == "wrong"


def test_a_tally_counts() -> None:
    tally = Tally()
    tally.add("add", "right")
    tally.add("exp", "wrong", "off by 1")
    assert str(tally).splitlines() == [
        "2 operators, 1 of them claimed; 2 samples: 1 right, 0 fell back, 1 wrong", "exp: off by 1"]  # fmt: skip
