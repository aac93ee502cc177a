"""docs/onnx.md: its examples run, in order, as one script."""

import re
from pathlib import Path

import pytest

pytest.importorskip("onnx")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "onnx.md"


def test_the_examples_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {})
