"""The command line: the demo passes its checks, and the other commands say what they found."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopir import demo
from loopir.__main__ import main


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


def test_doctor_names_what_is_here_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "islpy" in out
    assert "target llvm:" in out
    assert "target cuda:" in out


def test_show_takes_text_and_python_and_tells_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nest = 'def f(a: "inout float32[4]"):\n    for i in range(4):\n        a[i] = 1.0\n'
    (tmp_path / "nest.ir").write_text(nest)
    assert main(["show", str(tmp_path / "nest.ir")]) == 0
    assert "for i in range(4):" in capsys.readouterr().out
    (tmp_path / "sched.py").write_text(f"import loopir as lp\ns = lp.Schedule(lp.parse('''{nest}''')).split('i', 2)\n")
    assert main(["show", str(tmp_path / "sched.py")]) == 0
    assert "for i_o in range(2):" in capsys.readouterr().out
    (tmp_path / "none.py").write_text("x = 1\n")
    assert main(["show", str(tmp_path / "none.py")]) == 1
    assert "no Schedule called s" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "absent")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_cache_is_found_and_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    assert main(["cache", "path"]) == 0
    assert str(tmp_path) in capsys.readouterr().out
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "abc").write_bytes(b"x")
    assert main(["cache", "clear"]) == 0
    assert "removed 1" in capsys.readouterr().out
