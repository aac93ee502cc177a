"""Make a reduction's initial values explicit, as a nest of stores before its outermost `over` loop.

The interpreter, dependence analysis and lowering all define a `Reduce` with `init` in this way. As the nest is outside
the loops, a reduction over no iterations leaves `init`.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopir.errors import VerifyError
from loopir.ir.grammar import Alloc, Body, Cond, Func, If, Loop, Not, Reduce, Stmt, Store, Var, conj, conjuncts
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    leaf_paths,
    replace,
    rewrite,
    substitute,
    take_name,
    taken_names,
)


@memoized
def explicit_init(func: Func) -> Func:
    """`func` with every reduction's `init` stored by a nest of its own before the loops that it reduces over."""
    for place in leaf_paths(func.body):
        if isinstance(place.stmt, Reduce) and place.stmt.init is not None:
            func = explicit_init_of(func, place.stmt.label)
    return func


def explicit_init_of(func: Func, label: str, first: Stmt | None = None) -> Func:
    """`func` with the `init` of the one reduction `label` made explicit; the stores are `label_init`.

    They stand before the loops that it reduces over, or before `first`, a statement around these.
    """
    place = next(p for p in leaf_paths(func.body) if p.stmt.label == label)
    reduce = place.stmt
    assert isinstance(reduce, Reduce)
    first = reduction_start_loop(place) if first is None else first
    before = init_nest(place, taken_names(func), first)
    bare = replace(reduce, init=None)

    def visit(s: Stmt) -> Stmt | Body | None:
        if s is first:
            inner = rewrite((s,), lambda x: bare if x is reduce else None)
            return (*before, *inner)
        return None

    return replace(func, body=rewrite(func.body, visit))


def reduction_start_loop(place: StmtPath) -> Stmt:
    """The loop before which the reduction at `place` starts: its outermost `over` loop, or itself if there is none."""
    assert isinstance(place.stmt, Reduce)
    over = place.stmt.over
    return next((s for s in place.around if isinstance(s, Loop) and s.var in over), place.stmt)


def init_nest(place: StmtPath, taken: set[str], first: Stmt) -> Body:
    """The stores of `init` for every element that the reduction at `place` has under `first`.

    Loops from `first` to the reduction are kept unless they are in `over`, under fresh names; so are the
    guards that speak of no `over` loop. Raises VerifyError where a kept loop's extent depends on a reduced one.
    """
    reduce = place.stmt
    assert isinstance(reduce, Reduce)
    assert reduce.init is not None
    nest = Elements.of(place, first, taken, "_init")
    body: Body = ()
    labels = {*taken, *nest.names}
    for n, (b, value) in enumerate(zip(reduce.buffers, reduce.init, strict=True)):
        label = take_name(f"{reduce.label}_init" if n == 0 else f"{reduce.label}_init_{n}", labels)
        at = tuple(substitute(x, nest.env) for x in reduce.at)
        body = (*body, Store(label, b, at, substitute(value, nest.env)))
    return nest.around(body)


@dataclass(frozen=True, slots=True)
class Elements:
    """A nest over the elements that a statement writes in one execution of an enclosing statement.

    It has copies of the loops and guards between the two, without the reduced loops. `env` maps the names of the loops
    to the variables of the copies.
    """

    shells: tuple[Loop | Cond, ...]
    env: dict[str, Var]

    @staticmethod
    def of(place: StmtPath, first: Stmt, taken: set[str], suffix: str) -> Elements:
        """The loops from `first` to the statement at `place`; VerifyError where one depends on a reduced one."""
        stmt = place.stmt
        over = set(stmt.over) if isinstance(stmt, Reduce) else set[str]()
        start = next((n for n, s in enumerate(place.around) if s is first), len(place.around))
        used = taken | over
        env: dict[str, Var] = {}
        shells: list[Loop | Cond] = []
        for depth, s in enumerate(place.around[start:], start):
            if isinstance(s, Loop) and s.var not in over:
                if free_vars(s.extent) & over:
                    raise VerifyError(
                        f"reduction {stmt.label} cannot start outside its loops: the extent of {s.var} depends on "
                        f"{', '.join(sorted(free_vars(s.extent) & over))}, which it reduces over"
                    )
                name = take_name(f"{s.var}{suffix}", used)
                env[s.var] = Var(name)
                shells.append(Loop(name, s.extent, s.kind, ()))
            elif isinstance(s, If):
                held = place.path[depth + 1] < len(s.then)
                terms = conjuncts(s.cond) if held else (Not(s.cond),)
                shells.append(conj(*(t for t in terms if not free_vars(t) & over)))
            elif isinstance(s, Alloc) and isinstance(stmt, Reduce) and s.buffer in stmt.buffers:
                raise VerifyError(f"reduction {stmt.label} starts outside the memory it reduces into, {s.buffer.name}")
        return Elements(tuple(shells), env)

    @property
    def names(self) -> set[str]:
        return {v.name for v in self.env.values()}

    def around(self, body: Body) -> Body:
        """The nest with `body`, which is written in the copies' variables, inside."""
        for shell in reversed(self.shells):
            if isinstance(shell, Loop):
                body = (replace(shell, extent=substitute(shell.extent, self.env), body=body),)
            elif conjuncts(shell):
                body = (If(substitute(shell, self.env), body),)
        return body
