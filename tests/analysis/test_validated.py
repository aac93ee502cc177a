"""docs/validated.md says what is so: the programs of it that take no long proof are validated anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from named_programs import PROGRAMS
from validated import validated

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validated.md"
TABLE = {
    cells[0]: dict(zip(("cpu constant", "cpu all", "gpu constant", "gpu all"), cells[1:], strict=True))
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and (cells := line.strip("| ").split(" | "))[0] != "program"
}
QUICK = [
    (name, column)
    for name in ("blur", "unsharp mask", "softmax", "layernorm", "transposed matmul", "histogram", "ragged row sums")
    for column in ("cpu constant", "cpu all", "gpu constant")
] + [
    ("jacobi", "cpu constant"), ("jacobi", "gpu all"), ("conv direct", "cpu all"), ("conv in groups", "gpu constant"),
    ("batched matmul", "gpu all"), ("prefix sum", "cpu all"), ("prefix sum", "gpu constant"),
]  # fmt: skip


def test_every_program_is_in_the_table() -> None:
    assert list(TABLE) == list(PROGRAMS)
    count = sum(x == "proved" for cells in TABLE.values() for x in cells.values())
    said = re.search(r"^(\d+) of (\d+) are proved", PAGE.read_text(), re.MULTILINE)
    assert said is not None
    assert said.groups() == (str(count), str(4 * len(TABLE)))


@pytest.mark.parametrize(("name", "column"), QUICK)
def test_the_table_says_what_is_proved(name: str, column: str) -> None:
    target, sizes = column.split()
    assert validated(name, target, sizes).replace("|", "/") == TABLE[name][column]
