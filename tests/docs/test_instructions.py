"""The page on instructions: what it names is there, and its example runs."""

import re
from pathlib import Path

import numpy as np

import loopir as lp
from loopir.ir.ops import find_instruction
from loopir.schedule import Schedule
from loopir.testing import check_instruction

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "instructions.md").read_text()


def test_what_is_named_in_full_is_there() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    names = [re.findall(r"`(\w+)`", row)[0] for row in rows]
    assert len(names) >= 13
    for name in names:
        assert find_instruction(name) is not None, name


def test_the_example_runs() -> None:
    shown: list[str] = []
    stores: Schedule | None = None
    scope: dict[str, object] = {"print": lambda x: shown.append(str(x))}
    for code in re.findall(r"```\{code-cell\} python\n(.*?)```", PAGE, re.DOTALL):
        exec(code, scope)
        if len(shown) == 1:
            stores = scope["s"]  # type: ignore[assignment]
    assert stores is not None
    assert 'wait(1, "stores")' in shown[0]
    a = np.arange(512, dtype=np.float32).reshape(64, 8)
    assert np.array_equal(lp.interpret(stores.func, [a])["C"], a * 2)
    assert "with fma8():" in shown[1]
    assert "fms8: C[0] is " in shown[2]


def test_the_instructions_of_the_page_do_what_they_mean() -> None:
    """Those that it shows, and does not run where it is made."""
    (code,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    for spelt, needs, name, nest in re.findall(
        r'@lp\.instruction\((needs="(\w+)", llvm=.*?)\)\n(?=def (\w+))(def .*?)(?=\n\n|\Z)', code, re.DOTALL
    ):
        fn = eval(f"lp.instruction({spelt})", {"lp": lp})(nest)
        assert fn is find_instruction(name)
        if needs in lp.cpu_features():
            check_instruction(fn, examples=20)
