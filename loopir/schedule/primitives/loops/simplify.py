"""simplify: indices and guards in their simplest form, by what the loops and guards around them say."""

from __future__ import annotations

from loopir.arith.simplify_func import simplify_body, simplify_func
from loopir.ir.grammar import Func
from loopir.ir.traverse.walk import replace_loop
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import find_loop
from loopir.schedule.schedule import primitive


@primitive
def simplify(func: Func, loop: str | None = None, *, drop_unit_loops: bool = False) -> Func:
    """Simplify each index and guard where it stands, in `loop` or everywhere; what never runs goes.

    With `drop_unit_loops`, a serial loop of one iteration becomes its body. Lowering does both anyway: this is for
    reading what is there, and for nests written by hand.

    before:
        def f(A: "float32[8]", B: "out float32[8]"):
            for i in range(2):
                for j in range(4):
                    if i * 4 + j < 8:
                        B[i * 4 + j] = A[(i * 4 + j) % 8]
    call:    simplify()
    after:
        def f(A: "float32[8]", B: "out float32[8]"):
            for i in range(2):
                for j in range(4):
                    B[i * 4 + j] = A[i * 4 + j]
    refuses: simplify("k")  # there is no loop 'k'

    before:
        def g(B: "out float32[1]"):
            for i in range(1):
                B[i] = 0.0
    call:    simplify(drop_unit_loops=True)
    after:
        def g(B: "out float32[1]"):
            B[0] = 0.0
    """
    if loop is None:
        return simplify_func(func, drop_unit_loops=drop_unit_loops)
    target = find_loop(func, loop)
    known = known_at(func, target)
    return replace_loop(func, target.var, lambda s: simplify_body((s,), known, drop_unit_loops=drop_unit_loops))
