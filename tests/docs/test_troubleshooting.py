"""What the page of errors quotes is what is raised, and each cure works."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def entries() -> Iterator[tuple[str, list[str]]]:
    """Every message that is quoted, with its blocks of code."""
    for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        quoted = re.match(r"`(.*)`\n", part)
        assert quoted, part[:80]
        yield quoted[1], BLOCK.findall(re.split(r"^## ", part, flags=re.MULTILINE)[0])


ENTRIES = list(entries())


def pattern(quoted: str) -> str:
    return ".*".join(re.escape(piece) for piece in quoted.split("…"))


def ready() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(BLOCK.findall(PAGE)[0], names)
    return names


@pytest.mark.parametrize(("quoted", "blocks"), [e for e in ENTRIES if e[1]], ids=lambda x: x[:40] if x else "")
def test_the_message_is_raised_and_the_cure_works(quoted: str, blocks: list[str]) -> None:
    wrong, right = blocks
    with pytest.raises(Exception, match=re.compile(pattern(quoted), re.DOTALL)):
        exec(wrong, ready())
    exec(right, ready())


@pytest.mark.parametrize("quoted", [q for q, blocks in ENTRIES if not blocks])
def test_a_message_that_cannot_be_had_here_is_in_the_source(quoted: str) -> None:
    source = "\n".join(p.read_text() for p in (ROOT / "loopir").rglob("*.py"))
    pieces = [p for p in re.split(r"…|\(…\)", quoted) if p.strip(" ()")]
    assert pieces
    assert all(p.strip(" ()") in source for p in pieces)


def test_every_kind_of_error_is_there() -> None:
    assert len(ENTRIES) > 30
    raised = set[str]()
    for _, blocks in ENTRIES:
        if blocks:
            try:
                exec(blocks[0], ready())
            except Exception as error:
                raised.add(type(error).__name__)
    assert {"ScheduleError", "ExprError", "ParseError", "TargetError", "TypeError", "ValueError"} <= raised


def test_the_page_starts_a_program_that_runs_by_itself() -> None:
    subprocess.run([sys.executable, "-c", BLOCK.findall(PAGE)[0]], check=True, cwd=ROOT)
