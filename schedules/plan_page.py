"""A plan as one page: its groups as a graph, what each costs and why, and every decision, with nothing to fetch."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import loopir as lp

if TYPE_CHECKING:
    from .plan import Decision, Group, Plan

BOX_WIDTH, BOX_HEIGHT, ACROSS, DOWN = 210, 40, 230, 80
"""Pixels of a group, and from one to the next."""

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font-family: system-ui, sans-serif; margin: .8rem; color-scheme: light dark; font-size: 14px }}
h1 {{ font-size: 1.2rem }} h2 {{ font-size: 1rem }} table {{ border-collapse: collapse }}
td, th {{ padding: .15rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #8c959f55 }}
td.n {{ text-align: right; font-variant-numeric: tabular-nums }}
.taken {{ color: #1a7f37 }} .refused {{ color: #cf222e }}
.graph {{ overflow: auto }} svg rect {{ fill: #54aeff22; stroke: #54aeff }} svg path {{ fill: none; stroke: #8c959f }}
svg text {{ fill: CanvasText; font-size: 12px }} tr:target {{ background: #ffd33d55 }} pre {{ margin: 0 }}
</style></head><body><h1>{title}</h1><p>{head}</p><div class="graph">{graph}</div>
<h2>Groups</h2><table><tr><th>group<th>rule<th>us<th>kernels<th>MB moved<th>MB between<th>other rules</tr>
{groups}</table>
<h2>Decisions</h2><table><tr><th><th>what<th>one<th>other<th>us before<th>us after<th>why</tr>{decisions}</table>
</body></html>
"""


def plan_page(plan: Plan) -> str:
    """The page of `plan`."""
    name = plan.program.func.name
    return _PAGE.format(
        title=escape(f"The plan of {name}"), head=escape(str(plan).splitlines()[0]), graph=_graph(plan),
        groups="".join(_group_row(n, g) for n, g in enumerate(plan.groups)),
        decisions="".join(map(_decision_row, plan.decisions)),
    )  # fmt: skip


def _edges(plan: Plan) -> list[tuple[int, int]]:
    """Which groups need which: (one, another that needs it)."""
    nests = lp.nests(plan.program.func)
    of = {x: n for n, g in enumerate(plan.groups) for x in g.stages}
    group = [of[nest.stages[0]] for nest in nests]
    found = {(group[k], group[n]) for n, nest in enumerate(nests) for k in nest.needs if group[k] != group[n]}
    return sorted(found)


def _graph(plan: Plan) -> str:
    """The groups in rows, each below those that it needs."""
    edges, depth = _edges(plan), [0] * len(plan.groups)
    for a, b in edges:  # groups stand in an order in which each has what it needs
        depth[b] = max(depth[b], depth[a] + 1)
    at: list[tuple[int, int]] = []
    for n, row in enumerate(depth):
        at.append((10 + ACROSS * depth[:n].count(row), 10 + DOWN * row))
    lines = [_line(at[a], at[b]) for a, b in edges]
    boxes = [_box(n, g, *at[n]) for n, g in enumerate(plan.groups)]
    wide, tall = (max((p[k] for p in at), default=0) + size for k, size in ((0, ACROSS), (1, DOWN)))
    wide += 14 * max(depth, default=0)
    return f'<svg width="{wide}" height="{tall}">{"".join([*lines, *boxes])}</svg>'


def _line(a: tuple[int, int], b: tuple[int, int]) -> str:
    x, y, to, down = a[0] + BOX_WIDTH // 2, a[1] + BOX_HEIGHT, b[0] + BOX_WIDTH // 2, b[1]
    if down - y <= DOWN:
        return f'<path d="M{x} {y} C{x} {y + 20} {to} {down - 20} {to} {down}"/>'
    x, to, rows = a[0] + BOX_WIDTH, b[0] + BOX_WIDTH, (b[1] - a[1]) // DOWN  # beside the boxes between
    y, down, side = a[1] + BOX_HEIGHT // 2, b[1] + BOX_HEIGHT // 2, max(x, to) + 14 * rows
    return f'<path d="M{x} {y} C{side} {y} {side} {down} {to} {down}"/>'


def _box(n: int, g: Group, x: int, y: int) -> str:
    title = " + ".join(g.stages)
    short = title if len(title) <= 28 else f"{title[:27]}…"
    said = f"{g.seconds * 1e6:.1f} us, {g.bytes / 1e6:.1f} MB, {g.how}"
    frame = f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4"/>'
    return (
        f'<a href="#group-{n}"><title>{escape(title)}</title>{frame}'
        f'<text x="{x + 8}" y="{y + 16}">{escape(short)}</text><text x="{x + 8}" y="{y + 32}">{escape(said)}</text></a>'
    )


def _group_row(n: int, g: Group) -> str:
    others = [f"{how}: {seconds * 1e6:.1f} us" for how, seconds in g.candidates if how != g.how]
    others += [f"{how}: {said}" for how, said in g.refused]
    numbers = (f"{g.seconds * 1e6:.1f}", str(g.kernels), f"{g.bytes / 1e6:.1f}", f"{g.temp_bytes / 1e6:.1f}")
    cells = "".join(f'<td class="n">{x}' for x in numbers)
    return f'<tr id="group-{n}"><td>{escape(" + ".join(g.stages))}<td>{escape(g.how)}{cells}<td>{_lines(others)}</tr>'


def _decision_row(d: Decision) -> str:
    sign = '<td class="taken">+' if d.accepted else '<td class="refused">-'
    priced = d.before_us or d.after_us
    cost = "".join(f'<td class="n">{x:.1f}' if priced else "<td>" for x in (d.before_us, d.after_us))
    why = [d.reason, *(f"{rule}: {said}" for rule, said in d.refused)]
    one, other = (escape(" + ".join(x)) for x in (d.a, d.b))
    return f"<tr>{sign}<td>{escape(d.kind)}<td>{one}<td>{other}{cost}<td>{_lines(why)}</tr>"


def _lines(texts: Sequence[str]) -> str:
    return "<br>".join(escape(x) for x in texts if x)
