"""Programs whose warpgroups may take turns: loops bound to them, one after the other."""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.testing.generate.draws import between, choose, lines


@st.composite
def warpgroups(draw: st.DrawFn) -> Func:
    """Two loops over warpgroups in a loop over blocks of rows; sometimes one reads what the other makes, sometimes
    something stands between them, or a guard around them."""
    groups, trips = draw(between(2, 3)), draw(between(1, 3))
    lanes = choose(draw, ("range(2)", 'bind("lane", 2)', "range(n)"))
    t = choose(draw, ("float32", "float32", "int32", "float16"))
    second = choose(draw, ("A[i, h, 0]", "B[i, h, 0]", "T[h]", "T[h]"))
    guard = choose(draw, ("", "", "if i < n:", "if n < 2:"))
    beside = choose(draw, ("", "", "C[i, 0, 1] = A[i, 0, 0]"))
    deep = "    " * (2 + bool(guard))
    return parse(
        lines(
            f'def turned(n: "size", A: "{t}[{trips}, {groups}, n + 2]", B: "inout {t}[{trips}, {groups}, n + 2]", '
            f'C: "inout {t}[{trips}, {groups}, 2]"):',
            f"    for i in range({trips}):",
            *([f"        {guard}"] if guard else []),
            f'{deep}with alloc("{t}[{groups}]", scope="shared") as T:',
            f'{deep}    for g in bind("warpgroup", {groups}):',
            f"{deep}        T[g] = A[i, g, 1]",
            f"{deep}        for l in {lanes}:",
            f"{deep}            B[i, g, l] = A[i, g, l] + A[i, g, 0]",
            *([f"{deep}    {beside}"] if beside else []),
            f'{deep}    for h in bind("warpgroup", {groups}):',
            f"{deep}        C[i, h, 0] = {second}",
        )
    )
