"""Programs that compute the same values at several places, of which one stores them."""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.testing.generate.draws import between, choose, lines

VALUES = ("A[{}] * 2.0", "A[{}] + B[{}]", "maximum(A[{}], 0.5)", "A[{}] * A[{}] - 1.0", "B[{}] * 3.0")


@st.composite
def repeated(draw: st.DrawFn) -> Func:
    """A nest that stores values, one that computes them again, whole or in part, and at times one that changes them."""
    n = draw(between(2, 5))
    value, short = choose(draw, VALUES), not draw(between(0, 5))
    element = choose(draw, ("j", "j", f"{n - 1} - j"))
    stored = [f"for j in range({n - short}):", f"    E[j] = {value.replace('{}', element)}"]
    at = choose(draw, ("i", "i", f"{n - 1} - i", f"(i * 2) % {n}"))
    again = value.replace("{}", at)
    read = choose(draw, (f"sum({again}, over=i, init=0.0)", f"{again} + 1.0", f"{again} * ({again})", again))
    taker = [f"for i in range({n}):", f"    {'S[0]' if read.startswith('sum') else 'Y[i]'} = {read}"]
    changed = [f"for k in range({n}):", "    A[k] = A[k] + 1.0"]
    between_them = draw(between(0, 4))
    nests = [stored, taker] if draw(between(0, 2)) else [taker, stored]
    if between_them == 0:
        nests.insert(draw(between(0, 2)), changed)
    body = [f"    {line}" for nest in nests for line in nest]
    head = (
        f'def again(A: "inout float32[{n}]", B: "float32[{n}]", E: "inout float32[{n}]", S: "inout float32[1]",'
        f' Y: "inout float32[{n}]"):'
    )
    return parse(lines(head, *body))
