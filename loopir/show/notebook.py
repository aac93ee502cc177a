"""A nest as HTML: static, with no script; loops fold, figures stand at the right, colours follow the page.

Every loop is a <details>, its head the summary; pieces of lines have classes that a page may colour otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from loopir.ir.grammar import Func
from loopir.schedule.schedule import Schedule
from loopir.show.highlight import diff_kind, pieces
from loopir.show.history import HEADS as EFFECTS, MEANINGS as EFFECTS_MEAN, history
from loopir.show.margins import HEADS, MEANINGS
from loopir.show.rows import Row, rows, taken_at

STYLE = """<style>
.loopir { font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
.loopir { --lp-line: #8c959f55; --lp-dim: #6e7781; max-width: 100%; overflow-x: auto }
.loopir pre, .loopir pre.code { font: inherit; color: inherit; margin: 0; padding: 0; white-space: pre }
.loopir .row { display: flex; white-space: pre; min-height: 1.45em } .loopir .row:hover { background: #8c959f22 }
.loopir .code { flex: none; min-width: var(--lp-at); background: none; border: 0 }
.loopir summary { list-style: none; cursor: pointer }
.loopir summary::-webkit-details-marker { display: none }
.loopir details:not([open]) > summary .code::after { content: " \\2026"; color: var(--lp-dim) }
.loopir .cells { display: flex; flex: none }
.loopir .cell { flex: none; width: 9ch; text-align: right; color: var(--lp-dim); user-select: none }
.loopir .first { width: 14ch; padding-left: 2ch } .loopir .last { width: 12ch }
.loopir .heads { border-bottom: 1px solid var(--lp-line) }
.loopir table { border-collapse: collapse; border: 0; font: inherit; margin: .6em 0 0 }
.loopir table tr { background: none } .loopir table th { font-weight: normal; color: var(--lp-dim) }
.loopir table td, .loopir table th { padding: 0 1ch; text-align: right }
.loopir table td.step, .loopir table th.step { text-align: left; white-space: pre-wrap }
.loopir .beside { display: flex; gap: 3ch; flex-wrap: wrap }
.loopir .beside > div { flex: 1 1 40ch; min-width: 0; overflow-x: auto }
.loopir .changed { background: #d4a72c33 }
.loopir .keyword { color: #8250df } .loopir .kind { color: #0550ae; font-weight: bold }
.loopir .fold, .loopir .operation { color: #953800 } .loopir .type, .loopir .string { color: #116329 }
.loopir .number { color: #0550ae } .loopir .comment, .loopir .header { color: var(--lp-dim) }
.loopir .added { color: #116329 } .loopir .removed { color: #a40e26 }
@media (prefers-color-scheme: dark) { html:not([data-theme="light"]) body:not([data-jp-theme-light="true"]) .loopir {
  .keyword { color: #d2a8ff } .kind, .number { color: #79c0ff } .fold, .operation { color: #ffa657 }
  .type, .string, .added { color: #7ee787 } .removed { color: #ff7b72 } } }
</style>"""


def html(schedule: Schedule, **sizes: int) -> str:
    """The nest of `schedule` with its margins, and under it the steps that led to it with what each did."""
    lines = rows(schedule.func, sizes)
    body = margin_heads(schedule.func, sizes) + "".join(_nest(lines))
    return boxed(f'<div style="{margins_at(lines)}">{body}</div>{steps_html(schedule, sizes)}')


def diff_html(schedule: Schedule) -> str:
    """What the last step of `schedule` changed."""
    lines = "\n".join(_span(diff_kind(line), line) for line in schedule.diff().splitlines())
    return boxed(f"<pre>{lines}</pre>")


def boxed(content: str) -> str:
    """`content` in what the style speaks of."""
    return f'{STYLE}<div class="loopir">{content}</div>'


def line_html(line: str) -> str:
    """One line of a nest, escaped, its pieces in classes."""
    return "".join(_span(kind, piece) for kind, piece in pieces(line))


def margin_heads(func: Func, sizes: Mapping[str, int] | None = None) -> str:
    """The line over the margins of `func`."""
    told = taken_at(func, sizes)
    cells = "".join(
        f'<span class="{_cell(n)}" title="{escape(meant)}">{head}</span>'
        for n, (head, meant) in enumerate(zip(HEADS, MEANINGS, strict=True))
    )
    cells = f'<span class="cells">{cells}</span>'
    told = f"each loop {told}" if told else ""
    return f'<div class="row heads"><span class="code comment">{escape(told)}</span>{cells}</div>'


def _nest(lines: Sequence[Row]) -> Iterator[str]:
    """Lines, each loop open around what is in it."""
    open_at: list[int] = []
    for n, row in enumerate(lines):
        while open_at and open_at[-1] >= row.line.depth:
            open_at.pop()
            yield "</details>"
        content = f'<pre class="code">{line_html(str(row.line))}</pre>{margin_html(row)}'
        if n + 1 < len(lines) and lines[n + 1].line.depth > row.line.depth and row.cells:
            open_at.append(row.line.depth)
            yield f'<details open><summary class="row">{content}</summary>'
        else:
            yield f'<div class="row">{content}</div>'
    yield "</details>" * len(open_at)


def margins_at(lines: Sequence[Row]) -> str:
    """Where margins begin, as a style of what is around `lines`: after the longest line that has one."""
    return f"--lp-at: {max((len(str(row.line)) for row in lines if row.cells), default=0)}ch"


def margin_html(row: Row) -> str:
    """What stands beside a line."""
    cells = "".join(f'<span class="{_cell(k)}">{escape(c)}</span>' for k, c in enumerate(row.cells))
    return f'<span class="cells">{cells}</span>' if cells else ""


def _cell(n: int) -> str:
    return "cell" + (" first" if n == 0 else " last" if n == len(HEADS) - 1 else "")


def steps_html(schedule: Schedule, sizes: dict[str, int]) -> str:
    """A table of the steps, if there are any."""
    if not schedule.trace:
        return ""
    heads = "".join(f'<th title="{m}">{h}</th>' for h, m in zip(EFFECTS, EFFECTS_MEAN, strict=True))
    lines: list[str] = []
    for n, entry in enumerate(history(schedule, sizes)):
        cells = "".join(f"<td>{c}</td>" for c in entry.cells())
        lines.append(f'<tr><td>{n or ""}</td><td class="step">{escape(entry.step)}</td>{cells}</tr>')
    return f'<table><tr><th></th><th class="step">step</th>{heads}</tr>{"".join(lines)}</table>'


def _span(kind: str, piece: str) -> str:
    return escape(piece) if kind in ("plain", "context") else f'<span class="{kind}">{escape(piece)}</span>'
