"""Machine code of a GPU as text, by NVIDIA's nvdisasm where it is installed, with the line of CUDA C each line is from.

The disassembler is found on the PATH, or in the package nvidia-cuda-nvdisasm.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from loopir.errors import TargetError
from loopir.requirements import install_extra

PACKAGE = "nvidia-cuda-nvdisasm"
_LINE = re.compile(r'\s*//## File ".*", line (\d+)')
_CODE = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(.*;)")
_LABEL = re.compile(r"(\.L_x_\d+|[A-Za-z_]\w*):$")


def nvdisasm() -> Path:
    """Where the disassembler is; TargetError, with what to install, if it is not here."""
    found = shutil.which("nvdisasm")
    if found:
        return Path(found)
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.stem == "nvdisasm":
            return Path(str(file.locate()))
    raise TargetError(f"machine code is read by nvdisasm, which is not here; {install_extra('sass')}")


def disassemble(cubin: bytes) -> list[tuple[str, int | None]]:
    """The instructions and labels in `cubin`, each with the line of source that it is from, counted from 1.

    Lines are known where it was compiled with them. Raises TargetError where there is no disassembler.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [str(nvdisasm()), "--print-code", "--print-line-info", str(file)]
        run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if run.returncode:
        raise TargetError(f"nvdisasm cannot read the machine code: {run.stderr.strip()}")
    return list(parsed(run.stdout))


def parsed(listing: str) -> Iterator[tuple[str, int | None]]:
    """Instructions and labels in what nvdisasm prints; padding after the last one is left out."""
    at: int | None = None
    kept: list[tuple[str, int | None]] = []
    for line in listing.splitlines():
        if told := _LINE.match(line):
            at = int(told[1])
        elif code := _CODE.match(line):
            kept.append((f"    {code[1]}", at))
            if not code[1].startswith("NOP"):
                yield from kept
                kept.clear()
        elif label := _LABEL.match(line):
            yield from kept
            kept.clear()
            at = None if not label[1].startswith(".L") else at
            yield label[0], at
