"""The doctor names what is here and what is missing, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopir.__main__ import main
from loopir.cli import doctor
from loopir.requirements import install, install_extra
from loopir.runtime.cuda import disassembler


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
