"""What is known where a loop stands, and rewriting it there: the sizes, the loops around it, the guards that hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from loopir.analysis.simplify import Context, simplify, simplify_cond
from loopir.analysis.simplify_func import simplify_body
from loopir.ir.grammar import TRUE, Body, Cmp, Func, If, Index, Int, Loop, Not, Stmt
from loopir.ir.walk import bodies, rewrite


@dataclass(frozen=True, slots=True)
class Facts:
    """Questions on indices, answered yes only where it is proved for all sizes that the Func assumes."""

    known: Context

    @staticmethod
    def at(func: Func, target: Stmt) -> Facts:
        """What is known where `target` stands in `func`."""
        return Facts(next(here for s, here in statements_in(func.body, Context.of(func)) if s is target))

    def divides(self, factor: int, extent: Index) -> bool:
        return self.tidy(extent % factor) == Int(0)

    def at_least(self, extent: Index, least: int) -> bool:
        return simplify_cond(Cmp("<=", Int(least), extent), self.known) == TRUE

    def equal(self, a: Index, b: Index) -> bool:
        return self.tidy(a - b) == Int(0)

    def tidy(self, ix: Index) -> Index:
        return simplify(ix, self.known)


def statements_in(body: Body, known: Context) -> Iterator[tuple[Stmt, Context]]:
    """Every statement in `body`, outer ones first, with what is known where it stands."""
    for s in body:
        yield s, known
        inside = known.loop(s.var, s.extent) if isinstance(s, Loop) else known
        for side, inner in enumerate(bodies(s)):
            here = inside.given(Not(s.cond) if side else s.cond) if isinstance(s, If) else inside
            yield from statements_in(inner, here)


def rewrite_loop(func: Func, loop: Loop, make: Callable[[], Stmt | Body]) -> Func:
    """`func` with `loop` replaced by what `make` gives, its indices and guards simplified where they stand."""
    made = make()
    tidied = simplify_body(made if isinstance(made, tuple) else (made,), Facts.at(func, loop).known)
    return replace(func, body=rewrite(func.body, lambda s: tidied if s is loop else None))
