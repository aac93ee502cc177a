"""The command line: the demo passes its checks, and the other commands say what they found."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from loopir.__main__ import main
from loopir.cli import bench, demo, doctor
from loopir.requirements import install, install_extra
from loopir.runtime.cuda import disassembler

ROOT = Path(__file__).resolve().parent.parent


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
    for told in ("islpy", "target llvm:", "target cuda:", "NVRTC", "driver", "nvdisasm", "browser", "compile cache:"):
        assert told in out


def test_doctor_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: None)
    monkeypatch.setattr(disassembler, "PACKAGE", "no-such-package")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert f"numpy is not installed: {install('numpy')}" in out
    assert f"matplotlib is not installed, for s.report().plot(): {install('matplotlib')}" in out
    assert f"nvdisasm: machine code is read by nvdisasm, which is not here; {install_extra('sass')}" in out
    assert "browser: none on the PATH" in out
    assert f"everything is compiled anew: {tmp_path} cannot be written; set LOOPIR_CACHE_DIR" in out
    assert f"LOOPIR_CACHE_DIR={tmp_path}" in out


def test_bench_checks_every_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["bench", "--target", "llvm", "--size", "65"]) == 0
    out = capsys.readouterr().out
    assert [line.split("  ")[0] for line in out.splitlines()[2:-1]] == [row.name for row in bench.rows(65)]
    assert "every result was checked" in out
    assert main(["bench", "--target", "llvm", "--size", "8", "--rows", "nothing"]) == 2
    assert "there are matmul, add" in capsys.readouterr().out
    assert main(["bench", "--size", "0"]) == 2
    row = next(bench.rows(8))
    monkeypatch.setattr(bench, "rows", lambda n: iter([replace(row, tolerance=-1.0)]))
    assert main(["bench", "--target", "llvm", "--size", "8"]) == 1
    assert "1 of 1 results are wrong" in capsys.readouterr().out


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
