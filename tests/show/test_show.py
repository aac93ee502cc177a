"""What is shown is the nest, escaped in HTML, coloured in a terminal, with nothing lost."""

import io
import re
from html import unescape

import pytest
from rich.console import Console

import loopir.intrinsics
import loopir.show
from loopir.ir.parse import parse
from loopir.schedule import Schedule
from loopir.show.highlight import diff_kind, pieces
from loopir.show.notebook import diff_html, html
from loopir.show.terminal import show, show_diff

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
    body = re.search(r'<pre class="loopir">(.*?)</pre>', page, re.DOTALL)
    assert body
    return unescape(re.sub(r"<[^>]*>", "", body[1]))


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
    assert "<ol" not in page


def test_html_lists_the_steps(s: Schedule) -> None:
    assert "<li><code>split(&quot;k&quot;, 4)</code></li>" in html(s.split("k", 4))


def test_terminal_prints_the_text_and_the_steps(s: Schedule, capsys: pytest.CaptureFixture[str]) -> None:
    s.split("k", 4).show()
    out = capsys.readouterr().out
    assert str(s.split("k", 4)) in out
    assert '# 1. split("k", 4)' in out


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
