"""reorder: the loops of a perfect nest trade places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loopir.analysis.dependence.access import is_affine_visible
from loopir.analysis.dependence.depend import Clash
from loopir.analysis.dependence.reordering import permutation_invariant, violated_dependence
from loopir.errors import ScheduleError
from loopir.ir.grammar import Body, Cond, Func, If, Index, Loop, Store, conj
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    leaf_paths,
    leaf_writes,
    loaded_buffers,
    loops as nest_loops,
    replace_loop,
)
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.legality.asked_memory import require_extent_there
from loopir.schedule.legality.effects import require_stable_extent
from loopir.schedule.legality.loop_kinds import require_loop_kinds
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.schedule import primitive


@primitive
def reorder(func: Func, *loops: str) -> Func:
    """Put `loops`, which are nested perfectly, in the order given; loops of the nest not named keep their places.

    Guards between the loops move inside them. The folds of one reduction may change their order; every other
    dependence has to keep its direction.

    before:
        def f(n: "size", a: "inout float32[n + 1, n + 1]"):
            for i in range(n):
                for j in range(n):
                    a[i + 1, j + 1] = a[i, j] + 1.0
    call:    reorder("j", "i")
    after:
        def f(n: "size", a: "inout float32[n + 1, n + 1]"):
            for j in range(n):
                for i in range(n):
                    a[i + 1, j + 1] = a[i, j] + 1.0
    refuses: reorder("j", "j")  # 'j' is named twice

    before:
        def g(n: "size", a: "inout float32[n + 1, n + 1]"):
            for i in range(n):
                for j in range(n):
                    a[i + 1, j] = a[i, j + 1] + 1.0
    refuses: reorder("j", "i")  # a at (i=0, j=1) writes a[1, 1], which a at (i=1, j=0) reads later
    """
    return in_order(func, loops)


def in_order(func: Func, loops: Sequence[str], *, free: bool = False) -> Func:
    """`reorder` itself, for steps that are made of it, too: the Func, not yet verified.

    `free`: no iteration of the loops that trade places depends on another one.
    """
    found = _distinct_loops(func, loops)
    named = [loop.var for loop in found]
    if len(named) < 2:
        return func
    band = Band.of(found)
    permuted = rearranged(band.loops, named)
    changed = [n for n, (x, y) in enumerate(zip(band.loops, permuted, strict=True)) if x is not y]
    if not changed:
        return func
    require_bounds(permuted)
    require_stable_extent(*band.loops)
    _require_extents_there(func, band, permuted)
    new = replace_loop(func, band.loops[0].var, lambda _: band.rebuilt(permuted))
    between = band.loops[changed[0] : changed[-1] + 1]
    clash = None if free else _violated(func, new, between)
    if clash is not None:
        kept = join_names(x.var for x in band.loops)
        raise refusal(clash, f"the order {join_names(x.var for x in permuted)} runs these two the other way round",
                      named[0], f"keep the order {kept} for {clash.witness.buffer}")  # fmt: skip
    lanes = [x.var for x in nest_loops(func.body) if x.kind == "vectorize" and named[0] in _inside(x)]
    require_loop_kinds(new, [*lanes, *(x.var for x in band.loops)])
    return new


def _require_extents_there(func: Func, band: Band, order: Sequence[Loop]) -> None:
    """Refuse if an extent is read from memory where it was not: where a loop or a guard around it lets nothing run."""
    for n, x in enumerate(order):
        around = band.steps[: next(k for k, s in enumerate(band.steps) if s is x)]
        require_extent_there(func, x, [s for s in around if not any(s is y for y in order[:n])])


def _distinct_loops(func: Func, names: Sequence[str]) -> list[Loop]:
    """The loops called `names`; ScheduleError if one is named twice."""
    found = [find_loop(func, name) for name in names]
    named = [loop.var for loop in found]
    twice = next((v for v in named if named.count(v) > 1), None)
    if twice is not None:
        raise ScheduleError(f"loop {twice!r} is named twice", loop=twice, suggestion="each loop once")
    return found


def _violated(func: Func, new: Func, between: Sequence[Loop]) -> Clash | None:
    """A dependence of `func` that `new`, with the loops `between` in another order, violates; None if there is none,
    or it is on what each iteration writes before it reads it."""
    moving = [x.var for x in between]
    if permutation_invariant(func, between[0], moving, onward=True):
        return None
    clash, anew = violated_dependence(func, new), _written_anew(between[0], {*moving})
    if clash is not None and anew and violated_dependence(func, new, asks=_but(anew)) is None:
        return None
    return clash


def _written_anew(nest: Loop, moving: set[str]) -> set[str]:
    """What each iteration of the loops `moving`, from `nest` inwards, writes in the same elements, and nobody reads.

    So the last iteration alone counts, which is the same one in every order.
    """
    every = [b for p in leaf_paths((nest,)) for b in leaf_writes(p.stmt)]
    out: set[str] = set()
    for p in leaf_paths((nest,)):
        still = all(is_affine_visible(x) and free_vars(x).isdisjoint(moving) for x in (*_control(p), *p.stmt.at))
        if isinstance(s := p.stmt, Store) and still and every.count(s.buffer.name) == 1:
            out |= {s.buffer.name} - loaded_buffers(nest)
    return out


def _but(anew: set[str]) -> Callable[[str, str, str], bool]:
    """All dependences but those of what one statement writes `anew`."""
    return lambda buffer, one, other: one != other or buffer not in anew


def _control(p: StmtPath) -> Iterator[Index | Cond]:
    """What decides how often the statement at `p` runs."""
    yield from (s.extent if isinstance(s, Loop) else s.cond for s in p.around if isinstance(s, Loop | If))


def rearranged(loops: Sequence[Loop], named: Sequence[str]) -> list[Loop]:
    """`loops` with those `named` in that order; the others keep their places."""
    by_name = {loop.var: loop for loop in loops}
    order = iter(named)
    return [by_name[next(order)] if loop.var in named else loop for loop in loops]


@dataclass(frozen=True, slots=True)
class Band:
    """Loops and guards that stand one right inside the other, outermost first, and what they enclose."""

    steps: tuple[Loop | If, ...]
    body: Body

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple(s for s in self.steps if isinstance(s, Loop))

    @staticmethod
    def of(named: Sequence[Loop]) -> Band:
        """The perfect nest from the outermost to the innermost of the loops named."""
        wanted = {loop.var for loop in named}
        outermost = next(loop for loop in named if wanted <= {loop.var, *_inside(loop)} or loop is named[-1])
        missing = wanted - {outermost.var, *_inside(outermost)}
        if missing:
            raise ScheduleError(
                f"loop {join_names(sorted(missing))} does not stand inside {outermost.var!r}, nor around it",
                loop=outermost.var, suggestion="reorder loops of one nest",
            )  # fmt: skip
        steps: list[Loop | If] = [outermost]
        last, body = outermost, outermost.body
        left = wanted - {outermost.var}
        while left:
            if len(body) == 1 and isinstance(body[0], Loop):
                last = body[0]
                steps.append(last)
                left.discard(last.var)
                body = last.body
            elif len(body) == 1 and isinstance(body[0], If) and not body[0].orelse and is_affine_visible(body[0].cond):
                steps.append(body[0])
                body = body[0].then
            else:
                one = f"a statement, {type(body[0]).__name__}," if body else "nothing"
                what = "several statements" if len(body) > 1 else one
                raise ScheduleError(
                    f"between {last.var!r} and {join_names(sorted(left))} is {what}; only perfect nests are reordered",
                    loop=last.var, suggestion=f"reorder inside {last.var!r} only",
                )  # fmt: skip
        return Band(tuple(steps), body)

    def rebuilt(self, loops: Sequence[Loop]) -> Loop:
        """The nest with its loops as `loops` and the guards innermost."""
        return nested(loops, [s.cond for s in self.steps if isinstance(s, If)], self.body)


def nested(loops: Sequence[Loop], guards: Sequence[Cond], body: Body) -> Loop:
    """`loops` around each other, the guards innermost, around `body`."""
    if guards:
        body = (If(conj(*guards), body),)
    for loop in reversed(loops):
        body = (Loop(loop.var, loop.extent, loop.kind, body),)
    (nest,) = body
    assert isinstance(nest, Loop)
    return nest


def _inside(loop: Loop) -> set[str]:
    return {x.var for x in nest_loops(loop.body)}


def require_bounds(order: list[Loop]) -> None:
    """Refuse an order in which a loop's extent speaks of a loop that would stand inside it."""
    for n, loop in enumerate(order):
        later = {x.var for x in order[n + 1 :]}
        if bad := sorted(free_vars(loop.extent) & later):
            raise ScheduleError(
                f"the extent of {loop.var!r} depends on {join_names(bad)}, which would stand inside it",
                loop=loop.var,
                suggestion=f'rectangularize("{loop.var}") before it, and trim after it; '
                f"or keep {join_names(bad)} around {loop.var!r}",
            )
