"""What is shown is the nest, escaped in HTML, coloured in a terminal, with nothing lost."""

import io
import re
from html import unescape

import pytest
from rich.console import Console

import loopir.intrinsics
import loopir.show
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.show.highlight import diff_kind, pieces
from loopir.show.notebook import diff_html, html
from loopir.show.terminal import show, show_diff
from loopir.testing.generate.nests import constant, symbolic

SOURCE = """\
def f(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
    assume(n >= 1)
    for i in parallel(n):
        for k in range(8):
            if i < n - 1 and k < 7:
                S[i] = sum(exp(A[i, k]) * 1e-05, over=k, init=0.0)
"""


@pytest.fixture
def s() -> Schedule:
    return Schedule(parse(SOURCE))


def stripped(page: str) -> str:
    """The text of the lines alone, without heads and margins."""
    page = re.sub(r'<div class="row heads">.*?</div>', "", page)
    lines = re.findall(r'<pre(?: class="code")?>(.*?)</pre>', page, re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", "", "\n".join(lines)))


def test_pieces_make_up_the_line() -> None:
    for line in SOURCE.splitlines():
        assert "".join(piece for _, piece in pieces(line)) == line


def test_pieces_know_what_they_are() -> None:
    found = {piece: kind for line in SOURCE.splitlines() for kind, piece in pieces(line)}
    expected = {
        "for": "keyword",
        "parallel": "kind",
        "sum": "fold",
        "exp": "operation",
        "A": "buffer",
        "1e-05": "number",
    }
    assert {piece: found[piece] for piece in expected} == expected


def test_html_is_the_escaped_text(s: Schedule) -> None:
    page = s._repr_html_()
    assert stripped(page) == str(s)
    assert "i &lt; n" in page
    assert "<table" not in page


def test_html_lists_the_steps_with_what_each_did(s: Schedule) -> None:
    page = html(s.split("k", 4))
    assert '<td>1</td><td class="step">split(&quot;k&quot;, 4)</td><td>' in page
    assert page.count("<tr>") == 3


def test_html_folds_loops_without_script_and_is_small() -> None:
    for nest in (Schedule(symbolic("attention")), Schedule(constant("stencils"))):
        page = nest._repr_html_()
        assert page.count("<details open>") == page.count("</details>") == len(nest.loops())
        assert "<script" not in page
        assert len(page) < 200_000
        assert stripped(page) == str(nest)


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


def test_a_schedule_shows_itself_where_rich_is_wanted(s: Schedule) -> None:
    assert s._repr_mimebundle_()["text/plain"] == str(s)
    assert s._repr_mimebundle_()["text/html"] == s._repr_html_()


def test_branches_stand_side_by_side(s: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    one, other = s.split("k", 4), s.split("k", 2)
    wide = str(one.beside(other)).splitlines()
    assert wide[0].startswith('1. split("k", 4): traffic')
    assert '| 2. split("k", 2): traffic' in wide[0]
    marked = [line for line in wide if "| *" in line]
    assert len(marked) == 4
    assert all("k_o" in line or "k_i" in line for line in marked)
    monkeypatch.setenv("COLUMNS", "80")
    assert str(one.beside(other)).count("\n") > len(wide)
    page = one.beside(other)._repr_html_()
    assert page.count('class="row changed"') == 4
    with pytest.raises(TypeError, match="beside another Schedule"):
        one.beside()


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
    assert stripped(diff_html(after)) == after.diff()
    assert '<span class="added">' in diff_html(after)
    assert [diff_kind(line) for line in ("+++ a", "@@ 1", "+a", "-a", " a")] == [
        *("header", "header", "added", "removed", "context")
    ]


def test_the_room_shows_what_it_lends(s: Schedule, capsys: pytest.CaptureFixture[str]) -> None:
    loopir.show.show_diff(s.rename("k", "kk"))
    assert "+        for kk in range(8):" in capsys.readouterr().out


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
