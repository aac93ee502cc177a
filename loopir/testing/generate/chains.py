"""Programs in which folds need the end of another fold: a statistic of each row, powers or shares of it, their sums."""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.schedule.schedule import Schedule

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


PARTIALS = (
    ("max", "A[i, j]", "-inf", "sum", "exp(A[i_1, k] - M[i_1])", "0.0"),
    ("max", "select(j < 3, A[i, j], -inf)", "-inf", "sum", "exp(select(k < 3, A[i_1, k], -inf) - M[i_1])", "0.0"),
    ("min", "A[i, j]", "inf", "sum", "exp(M[i_1] - A[i_1, k]) * V[k]", "0.0"),
    ("max", "A[i, j]", "-inf", "sum", "exp2(A[i_1, k] * 0.5 - M[i_1] * 0.5)", "2.0"),
    ("sum", "A[i, j]", "0.0", "max", "A[i_1, k] - M[i_1]", "-inf"),
    ("sum", "A[i, j] * A[i, j]", "0.0", "sum", "A[i_1, k] * V[k] * rsqrt(M[i_1] + 1.0)", "0.0"),
)
"""Two folds, the second of which reads what the first comes to: operation, terms and start of each."""


@st.composite
def partial_folds(draw: st.DrawFn) -> Func:
    """A statistic M of each row of A, and one or two folds of terms with it, all made of partial results of as many
    parts; the second of them, U, may have used those of M already."""
    rows, n, size = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    fold, of, start, then, term, first = draw(st.sampled_from(PARTIALS))
    guard = draw(st.sampled_from(("", "", "", f"if k < {n - 1}: ")))
    more = draw(st.integers(0, 2)) == 2
    seen = "".join(f', {x}: "out float32[{rows}]"' for x in ("MTU" if more else "MT"))
    out = [
        f'def chain(A: "float32[{rows}, {n}]", V: "float32[{n}]"{seen}):',
        f"    for i in range({rows}):",
        f"        for j in range({n}):",
        f"            M[i] = {fold}({of}, over=j, init={start})",
        f"    for i_1 in range({rows}):",
        f"        for k in range({n}):",
        f"            {guard and guard.strip()}",
        f"            {'    ' if guard else ''}T[i_1] = {then}({term}, over=k, init={first})",
    ]
    if more:
        again = term.replace("i_1", "i_2").replace("k]", "h]")
        out += [f"    for i_2 in range({rows}):", f"        for h in range({n}):"]
        out += [f"            U[i_2] = {then}({again.replace('k < 3', 'h < 3')}, over=h, init={first})"]
    s = Schedule(parse("\n".join(line for line in out if line.strip()) + "\n"))
    for stage, row, loop in (("M", "i", "j"), ("T", "i_1", "k"), ("U", "i_2", "h"))[: 2 + more]:
        s = s.split(loop, size, tail="guard", names=(f"{loop}o", f"{loop}i"))
        by_parts = draw(st.integers(0, 7)) if stage == "M" else draw(st.integers(0, 1))  # else the rows are outside
        s = s.reorder(f"{loop}o", row, f"{loop}i") if by_parts else s
        s = s.rfactor(stage, f"{loop}o")
    used = more and draw(st.booleans()) and s.why("use_partials", "U", "M") is None
    return s.use_partials("U", "M").func if used else s.func
