"""Machine code as text: what nvdisasm prints is told line by line of the source; without it, how it is installed."""

import subprocess
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loopir.errors import TargetError
from loopir.runtime.cuda import disassembler
from loopir.runtime.cuda.disassembler import disassemble, nvdisasm, parsed

LISTING = """
.text.f:
.text.g:
first_kernel:
	//## File "/tmp/kernel.cu", line 3
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   S2R R0, SR_CTAID.X ;
	//## File "/tmp/kernel.cu", line 5
.L_x_1:
        /*0020*/              @!P0 BRA `(.L_x_1) ;
        /*0030*/                   NOP;
        /*0040*/                   EXIT ;
.L_x_2:
        /*0050*/                   BRA `(.L_x_2);
        /*0060*/                   NOP;
        /*0070*/                   NOP;
second:
        /*0000*/                   EXIT ;
        /*0010*/                   NOP;
"""


def test_a_listing_is_told_by_lines() -> None:
    assert list(parsed(LISTING)) == [
        ("first_kernel:", None),
        ("    MOV R1, c[0x0][0x28] ;", 3),
        ("    S2R R0, SR_CTAID.X ;", 3),
        (".L_x_1:", 5),
        ("    @!P0 BRA `(.L_x_1) ;", 5),
        ("    NOP;", 5),
        ("    EXIT ;", 5),
        (".L_x_2:", 5),
        ("    BRA `(.L_x_2);", 5),
        ("    NOP;", 5),
        ("    NOP;", 5),
        ("second:", None),  # of another function nothing is known until it is told
        ("    EXIT ;", None),
    ]


def test_padding_after_the_last_instruction_is_left_out() -> None:
    assert list(parsed("        /*0000*/                   NOP;\n")) == []
    assert list(parsed("")) == []


def test_the_disassembler_is_on_the_path_or_in_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(disassembler.shutil, "which", lambda name: str(tmp_path / name))
    assert nvdisasm() == tmp_path / "nvdisasm"
    monkeypatch.setattr(disassembler.shutil, "which", lambda _: None)
    files = [SimpleNamespace(stem=x, locate=lambda x=x: tmp_path / x) for x in ("cuobjdump", "nvdisasm")]
    monkeypatch.setattr(metadata, "files", lambda _: files)
    assert nvdisasm() == tmp_path / "nvdisasm"
    for none in (None, files[:1]):
        monkeypatch.setattr(metadata, "files", lambda _, none=none: none)
        with pytest.raises(TargetError, match=r"machine code is read by nvdisasm, which is not here; .*pip install"):
            nvdisasm()


@pytest.mark.parametrize("code", [0, 1])
def test_a_cubin_is_given_to_it_as_a_file(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[str] = []

    def run(command: list[str], **_: Any) -> Any:
        assert Path(command[-1]).read_bytes() == b"cubin"
        files.append(command[-1])
        return SimpleNamespace(returncode=code, stdout=LISTING, stderr="no ELF\n")

    monkeypatch.setattr(disassembler, "nvdisasm", lambda: Path("nvdisasm"))
    monkeypatch.setattr(subprocess, "run", run)
    if code:
        with pytest.raises(TargetError, match=r"nvdisasm cannot read the machine code: no ELF$"):
            disassemble(b"cubin")
    else:
        assert disassemble(b"cubin") == list(parsed(LISTING))
    assert not Path(files[0]).exists()
