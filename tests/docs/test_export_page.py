"""docs/export.md: its examples run, in order, as one script."""

import re
from pathlib import Path

from support.cuda_on_cpu import needs_compiler

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"


@needs_compiler
def test_the_examples_run() -> None:
    text = PAGE.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    scope: dict[str, object] = {}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), scope)
    (prototype,) = re.findall(r"^```c\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert prototype in (Path(str(scope["folder"])) / "product.h").read_text()
