"""The command line: the demo passes its checks, and the other commands say what they found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loopir.__main__ import main

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("command", [["doctor"], ["show", "nest.ir"], ["view", "nest.ir", "--target", "llvm"]])
def test_output_can_go_anywhere(command: list[str], tmp_path: Path) -> None:
    """Into a file, with no colour, on a terminal of a few columns, under an encoding of seven bits."""
    (tmp_path / "nest.ir").write_text('def f(a: "inout float32[4]"):\n    for i in range(4):\n        a[i] = 1.0\n')
    surroundings = {"NO_COLOR": "1", "COLUMNS": "20", "TERM": "dumb", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    run = subprocess.run(
        [sys.executable, "-m", "loopir", *command], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, **surroundings, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "\x1b" not in run.stdout
    assert run.stdout


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
    (tmp_path / "ab" / ("ab" * 32)).write_bytes(b"x")
    assert main(["cache", "size"]) == 0
    assert capsys.readouterr().out.strip() == "1 entries, 1 bytes"
    assert main(["cache", "clear"]) == 0
    assert "removed 1" in capsys.readouterr().out
