"""The command bench checks every row, and says what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopir.__main__ import main
from loopir.cli import bench


def test_bench_checks_every_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["bench", "--target", "llvm", "--size", "65"]) == 0
    out = capsys.readouterr().out
    assert [line.split("  ")[0] for line in out.splitlines()[2:-1]] == [row.name for row in bench.rows(65)]
    assert "every result was checked" in out
    assert main(["bench", "--target", "llvm", "--size", "8", "--rows", "nothing"]) == 2
    assert "there are matmul, add" in capsys.readouterr().out
    assert main(["bench", "--size", "0"]) == 2
    row = next(bench.rows(8))
    monkeypatch.setattr(bench, "rows", lambda n: iter([replace(row, tolerance=-1.0)]))
    assert main(["bench", "--target", "llvm", "--size", "8"]) == 1
    assert "1 of 1 results are wrong" in capsys.readouterr().out
