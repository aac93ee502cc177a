"""docs/pytorch.md: its examples run, in order, as one script."""

import re
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"


def test_the_examples_run() -> None:
    from loopir.frontend.torch import backend

    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    torch._dynamo.reset()
    if "loopir" not in torch._dynamo.list_backends():  # a checkout that is not installed has no entry points
        torch._dynamo.register_backend(backend, "loopir")
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {})
    torch._dynamo.reset()
