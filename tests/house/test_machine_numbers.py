"""What a machine can do is stated by its record alone: no limit or bandwidth stands in other code, or in its prose."""

import ast
import re
from pathlib import Path

import pytest

from loopir.machines import MACHINES

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "loopir" / "machines.py"
FILES = sorted(p for top in ("loopir", "schedules") for p in (ROOT / top).rglob("*.py") if p != RECORDS)
PROCESSORS = {m.processors for m in MACHINES.values()} - {128}  # a power of two, which stands for much else
SHARED = {n for m in MACHINES.values() for n in (m.shared_per_block, m.shared_per_processor)}
BANDWIDTH = range(10**11, 10**17)
"""Where a number can only be a rate of a GPU; 1e12 and the like are units."""


def stated(tree: ast.AST) -> list[tuple[int, object]]:
    """The numbers of machines in `tree`, with their lines; products of constants count as what they give."""
    found: list[tuple[int, object]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = [n.value for n in (node.left, node.right) if isinstance(n, ast.Constant)]
            if len(sides) == 2 and all(isinstance(n, int) for n in sides) and sides[0] * sides[1] in SHARED:
                found.append((node.lineno, sides[0] * sides[1]))
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            rate = isinstance(node.value, float) and BANDWIDTH.start <= node.value < BANDWIDTH.stop
            unit = f"{node.value:e}".startswith("1.000000e")
            if node.value in PROCESSORS | SHARED or (rate and not unit):
                found.append((node.lineno, node.value))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_number_of_a_machine_stands_in_its_record(path: Path) -> None:
    source = path.read_text()
    assert stated(ast.parse(source)) == []
    counted = "|".join(map(str, sorted(PROCESSORS)))
    assert not re.search(rf"\b({counted}) (multi)?processors", source)


def test_a_number_of_a_machine_is_found() -> None:
    source = "P = 132\nROOM = 227 * 1024\nRATE = 4.8e12\nALL = 232448\nUNIT = 1e12\n"
    assert {line for line, _ in stated(ast.parse(source))} == {1, 2, 3, 4}
