"""What a machine can do is stated by its record alone: no limit or bandwidth stands in other code, or in its prose."""

import ast
import re

from exceptions_list import ROOT, name_of, tree_of

from loopir.machines import MACHINES

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


def test_a_number_of_a_machine_stands_in_its_record() -> None:
    assert not [f"{name_of(p)}:{line} has {n}" for p in FILES for line, n in stated(tree_of(p))]
    counted = re.compile(rf"\b({'|'.join(map(str, sorted(PROCESSORS)))}) (multi)?processors")
    assert not [name_of(p) for p in FILES if counted.search(p.read_text())]


def test_a_number_of_a_machine_is_found() -> None:
    source = "P = 132\nROOM = 227 * 1024\nRATE = 4.8e12\nALL = 232448\nUNIT = 1e12\n"
    assert {line for line, _ in stated(ast.parse(source))} == {1, 2, 3, 4}
