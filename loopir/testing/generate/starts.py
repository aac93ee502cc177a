"""Reductions right after the number that is stored where they fold, or nearly so."""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.testing.generate.draws import between, choose, lines


@st.composite
def started(draw: st.DrawFn) -> Func:
    """Rows that are each set to a number and folded over one or two loops, under guards and beside others at times."""
    rows, n, m = draw(between(1, 4)), draw(between(0, 4)), draw(between(1, 3))
    t = choose(draw, ("float32", "float32", "int32", "float16", "float64"))
    fold = choose(draw, ("sum", "sum", "max", "min"))
    at = choose(draw, ("i", "i", f"{rows - 1} - i", "i // 2", "0"))
    two, outer = draw(st.booleans()), at == "0" and draw(st.booleans())
    order = choose(draw, (("k", "h"), ("h", "k"))) if two else ("k",)
    over = choose(draw, ("k", ", ".join(order))) if two else "k"
    value = choose(draw, ("{}", "{} * {}", "{} + {}", "abs({})")).replace("{}", f"A[i, k{' + h' if two else ''}]")
    start = choose(draw, ("0", "1", "2", "-1")) + (".0" if t.startswith("float") else "")
    stored = f'S[{at}]: "start" = {start}'
    trips = {"k": n, "h": m}
    nest = [f"{'    ' * d}for {v} in range({trips[v]}):" for d, v in enumerate(order)]
    inside = "    " * len(order)
    if not draw(between(0, 3)):
        nest.append(f"{inside}if {choose(draw, ('k < 2', 'i + k < 4', 'k > 0', 'i != 1'))}:")
        inside += "    "
    along = f"({over}, i)" if outer else f"({over},)"
    nest.append(f'{inside}S[{at}] = {fold}({value}, over={along}, label="folded")')
    other = choose(draw, ("T[i] = A[i, 0]", f"T[i] = S[{at}]", f"S[{at}] = A[i, 0]"))
    row = [stored, *nest]
    if not draw(between(0, 3)):
        row.insert(choose(draw, (0, 1, len(row))), other)
    if at == "0" and draw(st.booleans()):
        row.append(f"S[0] = {fold}(A[i, 1], over=i, init={start})")
    kind = choose(draw, ("range", "range", "range", "parallel")) if at == "i" else "range"
    return parse(
        lines(
            f'def started(A: "{t}[{rows}, {n + m + 2}]", S: "inout {t}[{rows}]", T: "inout {t}[{rows}]"):',
            f"    for i in {kind}({rows}):",
            *[f"        {line}" for line in row],
        )
    )
