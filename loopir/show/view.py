"""A schedule as one page: the nest, the steps, and the code it becomes, lines linked by the loop they came from.

The page is a single file with nothing to fetch. Pointing at a line lights up the lines of the same loop on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from loopir.schedule.schedule import Schedule
from loopir.show.notebook import STYLE, line_html

Line = tuple[str, str | None]
"""A line of code, and the loop that it came from."""
_HEAD = re.compile(r"\s*for (\w+) in ")

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>{style}<style>
body {{ font-family: system-ui, sans-serif; margin: 1rem; color-scheme: light dark }}
main {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(36rem, 1fr)); gap: 1rem }}
section {{ min-width: 0 }} h2 {{ font-size: 1rem; margin: .4rem 0 }}
pre {{ overflow: auto; max-height: 85vh; border: 1px solid #8c959f55; padding: .5rem; margin: 0; font-size: 12px }}
pre div {{ min-height: 1.35em; white-space: pre }} pre div.lit {{ background: #ffd33d55 }}
ol.loopir {{ font-size: 12px }}
</style></head><body><h1>{title}</h1><main>{sections}</main>{steps}
<script>
const lines = document.querySelectorAll("[data-loop]");
function light(name) {{
  for (const x of lines) x.classList.toggle("lit", name !== null && x.dataset.loop === name);
}}
for (const x of lines) {{
  x.addEventListener("mouseenter", () => light(x.dataset.loop));
  x.addEventListener("mouseleave", () => light(null));
}}
</script></body></html>
"""


def page(schedule: Schedule, code: Sequence[tuple[str, Sequence[Line]]]) -> str:
    """The page of `schedule` beside `code`: what each part is called, and its lines."""
    parts = [("Loop nest", list(nest_lines(str(schedule)))), *code]
    sections = "".join(_section(name, lines, coloured=n == 0) for n, (name, lines) in enumerate(parts))
    taken = "".join(f"<li><code>{escape(str(step))}</code></li>" for step in schedule.trace)
    steps = f'<h2>Steps</h2><ol class="loopir">{taken}</ol>' if taken else ""
    return _PAGE.format(title=escape(schedule.func.name), style=STYLE, sections=sections, steps=steps)


def nest_lines(text: str) -> Iterator[Line]:
    """The lines of a nest's text, each with the innermost loop around it, or the loop whose head it is."""
    around: list[tuple[int, str]] = []
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        while around and around[-1][0] >= depth:
            around.pop()
        head = _HEAD.match(line)
        if head is not None:
            around.append((depth, head[1]))
        yield line, around[-1][1] if around else None


def _section(name: str, lines: Sequence[Line], *, coloured: bool) -> str:
    out: list[str] = []
    for line, loop in lines:
        told = "" if loop is None else f' data-loop="{escape(loop)}"'
        out.append(f"<div{told}>{line_html(line) if coloured else escape(line)}</div>")
    return f'<section><h2>{escape(name)}</h2><pre class="loopir">{"".join(out)}</pre></section>'
