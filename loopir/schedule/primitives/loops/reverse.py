"""reverse: run a loop backwards."""

from __future__ import annotations

from dataclasses import replace

from loopir.analysis.dataflow.equivalence import same_values
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.ir.grammar import Func, Var
from loopir.ir.traverse.walk import leaf_paths, replace_loop, substitute
from loopir.schedule.core.find import find_serial
from loopir.schedule.legality.effects import require_stable_extent
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import drop_unused_over


@primitive
def reverse(func: Func, loop: str) -> Func:
    """Run the iterations of `loop` from the last one to the first.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range(n):
                B[i] = A[i]
    call:    reverse("i")
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]"):
            for i in range(n):
                B[n - 1 - i] = A[n - 1 - i]
    refuses: reverse("j")  # there is no loop 'j'

    before:
        def scan(n: "size", a: "inout float32[n + 1]"):
            for i in range(n):
                a[i + 1] = a[i + 1] + a[i]
    refuses: reverse("i")  # a at (i=0) writes a[1], which a at (i=1) reads later
    """
    old = find_serial(func, loop)  # "i" or "C.i"; refuses what is no serial loop
    require_stable_extent(old)  # "n - 1 - i" reads the extent again
    back = old.extent - 1 - Var(old.var)
    body = drop_unused_over(tuple(substitute(s, {old.var: back}) for s in old.body))
    new = replace_loop(func, old.var, lambda s: replace(s, body=body))
    came = {p.stmt.label: Origin(p.stmt.label, {old.var: back}) for p in leaf_paths(old.body)}
    clash = violated_dependence(func, new, came)  # two iterations that depend on one another and trade places
    if clash is not None and not same_values(func, new):  # values that nobody looks at may be others
        reason = f"to run {old.var!r} backwards would reverse two dependent iterations"
        raise refusal(clash, reason, old.var, "keep the order of the loop")
    return new
