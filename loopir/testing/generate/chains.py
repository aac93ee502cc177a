"""Programs in which folds need the end of another fold: a statistic of each row, powers or shares of it, their sums."""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse

STATISTICS = {
    "largest": ("max", "{a}", "-inf", "exp({c} - M[i])"),
    "smallest": ("min", "{a}", "inf", "exp2(M[i] * 0.5 - {c} * 0.5)"),
    "sum of powers": ("sum", "exp({a})", "0.0", "{c} / (M[i] + 0.5)"),
    "sum of squares": ("sum", "{a} * {a}", "0.0", "{c} * rsqrt(M[i] + 1.0)"),
}
"""By name: how the statistic folds what, from where, and what is made of an element with it."""


@st.composite
def chained_folds(draw: st.DrawFn) -> Func:
    """A statistic M of each row of A; of both a stage P, or none; one or two sums of that; others that read P, too."""
    rows, blocks, width = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    fold, of, start, term = STATISTICS[draw(st.sampled_from([*STATISTICS]))]
    staged, weighted, shown = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    n = blocks * width
    args = [
        f'A: "float32[{rows}, {n}]"',
        f'V: "float32[{n}]"',
        f'M: "out float32[{rows}]"',
        f'L: "out float32[{rows}]"',
    ]
    args += [f'T: "out float32[{rows}]"'] if weighted else []
    args += [f'Y: "out float32[{rows}, {n}]"'] if staged and shown else []

    def at(outer: str, inner: str) -> str:
        return f"{outer} * {width} + {inner}"

    def loops(outer: str, inner: str, body: str) -> list[str]:
        return [f"for {outer} in range({blocks}):", f"    for {inner} in range({width}):", f"        {body}"]

    folded = of.format(a=f"A[i, {at('jo', 'ji')}]")
    body = loops("jo", "ji", f"M[i] = {fold}({folded}, over=(jo, ji), init={start})")
    if staged:
        body += loops("po", "pi", f"P[i, {at('po', 'pi')}] = {term.format(c='A[i, ' + at('po', 'pi') + ']')}")
    for name, outer, inner, weight in (("L", "lo", "li", ""), ("T", "to", "ti", "V"))[: 1 + weighted]:
        where = at(outer, inner)
        value = f"P[i, {where}]" if staged else term.format(c=f"A[i, {where}]")
        value += f" * V[{where}]" if weight else ""
        body += loops(outer, inner, f"{name}[i] = sum({value}, over=({outer}, {inner}), init=0.0)")
    if staged and shown:
        body += loops("yo", "yi", f"Y[i, {at('yo', 'yi')}] = P[i, {at('yo', 'yi')}] + 1.0")
    head = [f"def chain({', '.join(args)}):"]
    if staged:
        head += [f'    with alloc("float32[{rows}, {n}]") as P:', f"        for i in range({rows}):"]
    else:
        head += [f"    for i in range({rows}):"]
    deep = " " * (12 if staged else 8)
    return parse("\n".join([*head, *(deep + line for line in body)]) + "\n")
