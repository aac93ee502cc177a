"""Bodies with nothing in them: what a step leaves behind, and what it may meet beside the loops it is about."""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.ir.dtypes import float32
from loopir.ir.grammar import Alloc, Body, Buffer, Cmp, Func, If, Index, InstrRegion, Int, Loop, Stmt, WarpSpecialized
from loopir.ir.traverse.walk import replace, rewrite, statements, take_name, taken_names
from loopir.ir.verify.verify import verify
from loopir.testing.generate.draws import choose


@st.composite
def with_empties(draw: st.DrawFn, func: Func, most: int = 3) -> Func:
    """`func` with up to `most` allocations, loops and conditions around nothing, in any of its bodies."""
    for _ in range(draw(st.integers(1, most))):
        func = _with_one(draw, func)
    verify(func, "schedule")
    return func


def _with_one(draw: st.DrawFn, func: Func) -> Func:
    whole = {
        id(x) for s in statements(func.body) if isinstance(s, InstrRegion | WarpSpecialized) for x in statements(s.body)
    }
    bodies = [s for s in statements(func.body) if isinstance(s, Loop | If | Alloc) and id(s) not in whole]
    target = choose(draw, [None, *bodies])
    taken = taken_names(func)

    def put(body: Body) -> Body:
        n = draw(st.integers(0, len(body)))
        return (*body[:n], _empty(draw, taken, Int(4)), *body[n:])

    def visit(s: Stmt) -> Stmt | None:
        if s is not target:
            return None
        assert isinstance(s, Loop | If | Alloc)
        return replace(s, then=put(s.then)) if isinstance(s, If) else replace(s, body=put(s.body))

    return replace(func, body=put(func.body) if target is None else rewrite(func.body, visit))


def _empty(draw: st.DrawFn, taken: set[str], extent: Index) -> Stmt:
    """An allocation, a loop or a condition with nothing in it, or with another such thing."""
    inner: Body = (_empty(draw, taken, extent),) if draw(st.integers(0, 3)) == 3 else ()
    kind = choose(draw, ("alloc", "alloc", "loop", "if"))
    if kind == "if":
        return If(Cmp("<", Int(0), extent), inner)
    name = take_name("T" if kind == "alloc" else "q", taken)
    if kind == "loop":
        return Loop(name, choose(draw, (extent, Int(0), Int(1))), "serial", inner)
    return Alloc(Buffer(name, (extent,), float32), inner)
