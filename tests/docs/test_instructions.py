"""The page on instructions: what it names is there, and its example runs."""

import re
from pathlib import Path

import numpy as np

import loopir as lp
from loopir.ir.ops import find_instruction

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "instructions.md").read_text()


def test_what_is_named_in_full_is_there() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    names = [re.findall(r"`(\w+)`", row)[0] for row in rows]
    assert len(names) >= 13
    for name in names:
        assert find_instruction(name) is not None, name


def test_the_example_runs() -> None:
    (code,) = re.findall(r"```\{code-cell\} python\n(.*?)```", PAGE, re.DOTALL)
    shown: list[str] = []
    scope: dict[str, object] = {"print": shown.append}
    exec(code, scope)
    assert 'wait(1, "stores")' in shown[0]
    a = np.arange(512, dtype=np.float32).reshape(64, 8)
    assert np.array_equal(lp.interpret(scope["s"].func, [a])["C"], a * 2)  # type: ignore[attr-defined]
