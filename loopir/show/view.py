"""A schedule as one page: the nest, the steps, and the code it becomes, lines linked by the loop they came from.

The page is a single file with nothing to fetch. Every loop has a colour, on all sides. Pointing at a line lights up
the lines of the same loop; a click keeps them lit, brings them in sight and puts the loop in the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from loopir.schedule.schedule import Schedule
from loopir.show.dag import Box, dag_svg
from loopir.show.notebook import STYLE, line_html, margin_heads, margin_html, margins_at, steps_html
from loopir.show.rows import Row, rows

Line = tuple[str, str | None]
"""A line of code, and the loop that it came from."""
COLOURS = 12

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
{style}<style>
body {{ font-family: system-ui, sans-serif; margin: .8rem; color-scheme: light dark }} h1 {{ font-size: 1.2rem }}
main {{ --high: 72vh; display: grid; gap: .8rem }}
@media (min-width: 64rem) {{ main {{ grid-template-columns: 3fr 2fr }}
  main:has(section:nth-child(3)) > section {{ --high: 34vh }}
  main:has(section:nth-child(3)) > section:first-child {{ grid-row: span 2; --high: calc(68vh + 3rem) }} }}
section {{ min-width: 0 }} h2 {{ font-size: .9rem; margin: .3rem 0 }} p {{ font-size: .8rem }}
.code-of {{ overflow: auto; max-height: var(--high); border: 1px solid #8c959f55; padding: .4rem 0 }}
.code-of > div {{ width: max-content; min-width: 100% }}
.loopir .cells {{ position: sticky; right: 0; margin-left: auto; background: Canvas }}
.loopir {{ font-size: 12px }} .loopir .row {{ padding: 0 .5rem; border-left: 4px solid transparent; cursor: default }}
{colours}
.loopir .lit {{ background: #ffd33d55 !important }}
.loopir .lit .cells {{ background: linear-gradient(#ffd33d55, #ffd33d55), Canvas }}
.dag {{ overflow: auto; max-height: 50vh; margin-bottom: .6rem }} .dag summary {{ font-size: .9rem; font-weight: bold }}
.dag rect {{ fill: #54aeff22; stroke: #54aeff }} .dag path {{ fill: none; stroke: #8c959f }}
.dag text {{ fill: CanvasText; font-size: 12px }}
</style></head><body><h1>{title}</h1>{dag}<main>{sections}</main>{notes}<div class="loopir">{steps}</div>
<script>
const lines = document.querySelectorAll("[data-loop]");
let kept = null;
function light(name) {{
  for (const x of lines) x.classList.toggle("lit", name !== null && x.dataset.loop === name);
}}
function keep(name) {{
  kept = name;
  light(name);
  for (const side of document.querySelectorAll(".code-of")) {{
    const first = side.querySelector(".lit");
    if (first) side.scrollTop = first.offsetTop - side.offsetTop - side.clientHeight / 3;
  }}
}}
for (const x of lines) {{
  x.addEventListener("mouseenter", () => light(x.dataset.loop));
  x.addEventListener("mouseleave", () => light(kept));
  x.addEventListener("click", () => {{ location.hash = kept === x.dataset.loop ? "" : x.dataset.loop; }});
}}
const told = () => keep(decodeURIComponent(location.hash.slice(1)) || null);
window.addEventListener("hashchange", told);
told();
</script></body></html>
"""


def page(
    schedule: Schedule, code: Sequence[tuple[str, Sequence[Line]]], left_out: str = "", nests: Sequence[Box] = ()
) -> str:
    """The page of `schedule` beside `code`: what each part is called, and its lines. `left_out` is told under it.

    Where there are several `nests`, their graph comes first.
    """
    colour = {loop: n % COLOURS for n, loop in enumerate(schedule.loops())}
    lines = rows(schedule.func)
    nest = margin_heads(schedule.func) + "".join(_nest_line(row, colour) for row in lines)
    sections = _section("Loop nest", nest, margins_at(lines))
    for name, part in code:
        sections += _section(name, "".join(_line(loop, escape(line), colour) for line, loop in part))
    return _PAGE.format(
        title=escape(schedule.func.name), style=STYLE, sections=sections, steps=steps_html(schedule, {}),
        dag=_dag(nests) if len(nests) > 1 else "",
        notes=f"<p>{escape(left_out)}</p>" if left_out else "", colours="\n".join(map(_colour, range(COLOURS))),
    )  # fmt: skip


def _dag(nests: Sequence[Box]) -> str:
    return f'<details class="dag" open><summary>Nests</summary>{dag_svg(nests)}</details>'


def _nest_line(row: Row, colour: dict[str, int]) -> str:
    return _line(row.loop, line_html(str(row.line)), colour, margin_html(row))


def _line(loop: str | None, code: str, colour: dict[str, int], margin: str = "") -> str:
    kind = f" of-{colour[loop]}" if loop in colour else ""
    told = "" if loop is None else f' data-loop="{escape(loop)}"'
    return f'<div class="row{kind}"{told}><pre class="code">{code}</pre>{margin}</div>'


def _section(name: str, lines: str, style: str = "") -> str:
    inner = f'<div style="{style}">{lines}</div>'
    return f'<section><h2>{escape(name)}</h2><div class="loopir code-of">{inner}</div></section>'


def _colour(n: int) -> str:
    return f".loopir .of-{n} {{ border-left-color: hsl({n * 360 // COLOURS * 5 % 360} 65% 55%) }}"
