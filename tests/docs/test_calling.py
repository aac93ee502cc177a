"""The page on calls: its programs are Python here, and are run where a GPU is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "calling.md").read_text(encoding="utf-8")
PROGRAM = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))


def test_its_programs_are_python() -> None:
    assert PROGRAM.count("assert") >= 6
    compile(PROGRAM, "calling.md", "exec")


@pytest.mark.gpu
def test_its_programs_run() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    exec(compile(PROGRAM, "calling.md", "exec"), {})
