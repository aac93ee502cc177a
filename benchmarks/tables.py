"""What a benchmark prints, kept as a record: in benchmarks/results, and as a table in docs/performance.md."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "performance.md"


def commit() -> str:
    """The commit that is measured: git's, or LOOPIR_COMMIT where the tree has no history."""
    named = os.environ.get("LOOPIR_COMMIT")
    if named:
        return named
    return subprocess.check_output(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True).strip()


def machine() -> str:
    """What the processor is called."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return model or platform.processor() or platform.machine()


def options(doc: str | None) -> argparse.ArgumentParser:
    """What those are asked that have rows: `chosen` reads `--rows`."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--rows", default="", help="only rows whose name holds one of these, separated by commas")
    writing(parser)
    return parser


def writing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--write", action="store_true", help="keep the record in benchmarks/results, and in the page")


def chosen(asked: str) -> list[str]:
    """The words of which a name is to hold one."""
    return [word for word in asked.split(",") if word]


class Record:
    """Lines that are printed, and written when all are there."""

    def __init__(self, name: str, write: bool) -> None:
        self.path, self.write = RESULTS / name, write
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        print(line, flush=True)
        self.lines.append(line)

    def done(self, table: str | None, brief: Sequence[str] = ()) -> None:
        """Write the record to its file, and it or what is `brief` of it into the page between the marks of `table`, if
        it has a place there."""
        if not self.write:
            return
        text = "\n".join(self.lines)
        self.path.write_text(text + "\n", encoding="utf-8")
        if table is not None:
            text = "\n".join(brief) or text
            PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), table, text), encoding="utf-8")


def replaced(page: str, table: str, text: str) -> str:
    """`page` with `text` between the marks of `table`; ValueError if it has no such marks."""
    begin, end = f"<!-- {table} -->", f"<!-- end of {table} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no place for {table}: {begin} ... {end}")
    return f"{before}{begin}\n```\n{text}\n```\n{end}{after}"
