"""A nest as HTML: an escaped <pre> whose pieces have classes, with colours that a page may override."""

from __future__ import annotations

from html import escape

from loopir.schedule.schedule import Schedule
from loopir.show.highlight import diff_kind, pieces

STYLE = """<style>
.loopir { line-height: 1.35 }
.loopir .keyword { color: #8250df } .loopir .kind { color: #0550ae; font-weight: bold }
.loopir .fold, .loopir .operation { color: #953800 } .loopir .type, .loopir .string { color: #116329 }
.loopir .number { color: #0550ae } .loopir .comment, .loopir .header { color: #6e7781 }
.loopir .added { color: #116329 } .loopir .removed { color: #a40e26 }
</style>"""


def html(schedule: Schedule) -> str:
    """The nest of `schedule`, and under it the steps that led to it."""
    source = "\n".join(map(line_html, str(schedule).splitlines()))
    steps = "".join(f"<li><code>{escape(str(step))}</code></li>" for step in schedule.trace)
    return f'{STYLE}<pre class="loopir">{source}</pre>' + (f'<ol class="loopir">{steps}</ol>' if steps else "")


def diff_html(schedule: Schedule) -> str:
    """What the last step of `schedule` changed."""
    lines = "\n".join(_span(diff_kind(line), line) for line in schedule.diff().splitlines())
    return f'{STYLE}<pre class="loopir">{lines}</pre>'


def line_html(line: str) -> str:
    """One line of a nest, escaped, its pieces in classes."""
    return "".join(_span(kind, piece) for kind, piece in pieces(line))


def _span(kind: str, piece: str) -> str:
    return escape(piece) if kind in ("plain", "context") else f'<span class="{kind}">{escape(piece)}</span>'
