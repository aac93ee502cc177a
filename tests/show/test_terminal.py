"""A nest in a terminal: coloured where it can be, with margins where there is room, and nothing lost."""

import io
import re

import pytest
from rich.console import Console

import loopir.intrinsics
import loopir.show
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.show.terminal import show, show_diff


def test_terminal_prints_a_nest_with_margins_that_parses_and_the_steps(
    s: Schedule, capsys: pytest.CaptureFixture[str]
) -> None:
    after = s.split("k", 4)
    after.show(n=64)
    out = capsys.readouterr().out
    assert parse(out) == after.func
    assert re.search(r"for i in parallel\(n\): +# +n  2.3 kB +1.\d+ x +64 +100 %", out)
    assert "at n=64" in out
    assert re.search(r'# 1\. split\("k", 4\) ', out)


def test_a_narrow_terminal_is_told_what_was_left_out(s: Schedule) -> None:
    out = io.StringIO()
    show(s, Console(file=out, force_terminal=True, width=50, color_system=None))
    assert "margins left out: they need" in out.getvalue()
    assert parse(out.getvalue()) == s.func


def test_colour_goes_where_it_is_not_wanted(s: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    show(s, Console(file=out, force_terminal=True))
    assert not re.search(r"\x1b\[[\d;]*3\dm", out.getvalue())


def test_terminal_colours_where_it_can(s: Schedule) -> None:
    plain, coloured = io.StringIO(), io.StringIO()
    show(s, Console(file=plain))
    show(s, Console(file=coloured, force_terminal=True, color_system="standard"))
    assert "\x1b[" not in plain.getvalue()
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured.getvalue()) == plain.getvalue()
    assert coloured.getvalue() != plain.getvalue()


def test_diff_is_shown_line_by_line(s: Schedule) -> None:
    after = s.rename("k", "kk")
    out = io.StringIO()
    show_diff(after, Console(file=out))
    assert out.getvalue().rstrip("\n") == after.diff()


def test_what_is_deep_is_one_line_with_its_stages() -> None:
    s = Schedule(
        parse("""
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                for k in range(8):
                    B[i] = sum(A[i, k], over=k, init=0.0)
            for j in range(n):
                C[j] = B[j] * 2.0
        """)
    )
    out = io.StringIO()
    show(s, Console(file=out, width=200), depth=1)
    lines = [line.partition("  #")[0].rstrip() for line in out.getvalue().splitlines() if "..." not in line]
    assert lines[1:] == [
        'def f(n: "size", A: "float32[n, 8]", B: "out float32[n]", C: "out float32[n]"):',
        "    for i in range(n):",
        "    for j in range(n):",
    ]
    assert [line.strip() for line in out.getvalue().splitlines() if "..." in line] == [
        "...  # 2 lines: B",
        "...  # 1 line: C",
    ]


def test_the_room_shows_what_it_lends(s: Schedule, capsys: pytest.CaptureFixture[str]) -> None:
    loopir.show.show_diff(s.rename("k", "kk"))
    assert "+        for kk in range(8):" in capsys.readouterr().out
