"""The demo passes its checks, and one that fails is an exit status."""

from __future__ import annotations

import pytest

from loopir.__main__ import main
from loopir.cli import demo


def test_the_demo_passes_its_checks_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--target", "llvm", "--elements", "100001"]) == 0
    out = capsys.readouterr().out
    assert "1797 digits" in out
    assert "6 of 6 checks passed on llvm" in out
    assert "--- as written" in out
    assert "--- scheduled for llvm" in out


def test_a_failed_check_is_an_exit_status() -> None:
    assert not demo.Check("what", float("nan"), 1.0).passed
    assert not demo.Check("what", 2.0, 1.0).passed
    assert demo.Check("what", 1.0, 1.0).passed
