"""Programs whose blocks form clusters: each brings memory to its shared memory, of which each copies a part, or all."""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.testing.generate.draws import between, choose, lines


@st.composite
def clustered(draw: st.DrawFn) -> Func:
    """Blocks that copy what all of them read, mostly, once or in each iteration of a loop, and use it."""
    blocks, height, width = draw(between(2, 3)), draw(between(1, 2)), draw(between(1, 4))
    rows, trips = blocks * height, draw(between(1, 2))
    t = choose(draw, ("float32", "float32", "int32", "float16"))
    repeated, of_own = draw(st.booleans()), not draw(between(0, 5))
    row = f"p * {height} + i" if height > 1 else "p"
    source = f"A[{'r' if of_own else 'q' if repeated else '0'}, {row}, j]"
    first, last = f"T[l % {rows}, 0]", f"T[{rows - 1} - l % {rows}, {width - 1}]"
    read = choose(draw, (first, last, f"T[r % {rows}, l % {width}]"))
    lanes = choose(draw, ("range(4)", 'bind("lane", 4)'))
    value = choose(draw, ("{}", "{} + {}", "{} * A[0, 0, 0]")).replace("{}", read)
    deep = "    " * (3 + repeated)
    return parse(
        lines(
            f'def clustered(A: "{t}[{max(blocks, trips)}, {rows}, {width}]", B: "inout {t}[{blocks}, {trips}, 4]"):',
            f'    for r in bind("cluster", {blocks}):',
            *([f"        for q in range({trips}):"] if repeated else []),
            f'{deep[4:]}with alloc("{t}[{rows}, {width}]", scope="shared") as T:',
            f"{deep}for p in range({blocks}):",
            *([f"{deep}    for i in range({height}):"] if height > 1 else []),
            f"{deep}    {'    ' * (height > 1)}for j in range({width}):",
            f"{deep}        {'    ' * (height > 1)}T[{row}, j] = {source}",
            f"{deep}for l in {lanes}:",
            f"{deep}    B[r, {'q' if repeated else '0'}, l] = {value}",
        )
    )
