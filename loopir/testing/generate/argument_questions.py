"""What can be asked of an argument in a nest: whether a stage is a fold, a loop has a guard that speaks of it ...

Each question takes the nest, the argument and those chosen before it, and is answered with yes or no from the form of
the nest alone; nothing here uses the analyses that decide whether a step is legal. They stand in one table, by the name
of the parameter that they are about. `loopir.testing.generate.argument_needs` finds out which of them a primitive
needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

from loopir.arith.simplify import EMPTY, poly
from loopir.ir.grammar import Alloc, Func, If, InstrRegion, Int, Load, Loop, Op, Reduce, Stmt, Store, Value, Var
from loopir.ir.instr.match_nest import misplaced_operand, unify
from loopir.ir.ops import INSTRUCTIONS, Instruction
from loopir.ir.traverse.walk import (
    StmtPath,
    accessed_buffers,
    bodies,
    free_vars,
    leaf_paths,
    leaf_writes,
    loaded_buffers,
    loops,
    nodes,
    statements,
    stored_buffers,
    substitute,
)

LANES = range(2, 65)
"""Lengths that a loop of lanes may have."""


def done_by(fn: Instruction, loop: Loop) -> bool:
    """Whether `loop` does what `fn` means, on memory that `fn` works on, or that has yet to get its layout."""
    found = unify(fn, (loop,))
    if isinstance(found, str):
        return False
    operands = [(a.buffer.scope, found.operands[a.buffer.name].buffer) for a in fn.meaning.args]
    bare = any(b.scope == scope == "fragment" and b.layout is None for scope, b in operands)
    return bare or misplaced_operand(fn, found) is None


class Nest:
    """A nest in which arguments are looked for, as the questions want it."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.places = tuple(leaf_paths(func.body))
        self.labels = [p.stmt.label for p in self.places]
        self.loops = {x.var: x for x in loops(func.body)}

    @cached_property
    def allocs(self) -> dict[str, Alloc]:
        return {s.buffer.name: s for s in statements(self.func.body) if isinstance(s, Alloc)}

    @cached_property
    def pairs(self) -> tuple[tuple[Loop, Loop], ...]:
        """Loops that stand one right after the other."""
        rows = (self.func.body, *(b for s in statements(self.func.body) for b in bodies(s)))
        return tuple((a, b) for row in rows for a, b in pairwise(row) if isinstance(a, Loop) and isinstance(b, Loop))

    @cached_property
    def doable(self) -> frozenset[str]:
        """The loops that some instruction does as they stand."""
        every = INSTRUCTIONS.values()
        done = {x.var for s in statements(self.func.body) if isinstance(s, InstrRegion) for x in loops((s,))}
        return frozenset(v for v, x in self.loops.items() if v not in done and any(done_by(fn, x) for fn in every))

    def place(self, label: object) -> StmtPath | None:
        return next((p for p in self.places if p.stmt.label == label), None)

    def within(self, loop: object) -> list[StmtPath]:
        """The statements in a loop."""
        return [p for p in self.places if any(x.var == loop for x in p.loops)]

    def writers(self, buffer: str) -> list[StmtPath]:
        return [p for p in self.places if buffer in leaf_writes(p.stmt)]

    def readers(self, buffer: str) -> list[StmtPath]:
        return [p for p in self.places if buffer in loaded_buffers(p.stmt)]

    def touching(self, buffer: str) -> list[StmtPath]:
        return [p for p in self.places if buffer in accessed_buffers(p.stmt)]


Chosen = Mapping[str, Any]
Question = Callable[[Nest, Any, Chosen], bool]
QUESTIONS: dict[str, dict[str, Question]] = {}
"""By parameter and name."""
BESIDE: dict[str, str] = {}
"""Questions that make sense only of primitives that also have a certain parameter, with its name."""


def about(*parameters: str, beside: str = "") -> Callable[[Question], Question]:
    """A question about arguments for `parameters`."""

    def add(question: Question) -> Question:
        for p in parameters:
            QUESTIONS.setdefault(p, {})[question.__name__] = question
        if beside:
            BESIDE[question.__name__] = beside
        return question

    return add


def questions(parameter: str, others: Collection[str]) -> dict[str, Question]:
    """What can be asked of an argument for `parameter` of a primitive that has also `others`."""
    return {n: q for n, q in QUESTIONS.get(parameter, {}).items() if BESIDE.get(n, parameter) in (*others, parameter)}


# ---------------------------------------------------------------- of a stage


def of_stage(ask: Callable[[Nest, StmtPath], bool], beside: str = "") -> Question:
    """A question about the statement that a label means."""

    def question(nest: Nest, stage: Any, chosen: Chosen) -> bool:
        place = nest.place(stage)
        return place is not None and ask(nest, place)

    question.__name__ = ask.__name__
    return about("stage", beside=beside)(question)


@of_stage
def fold(nest: Nest, p: StmtPath) -> bool:
    return isinstance(p.stmt, Reduce)


@of_stage
def store(nest: Nest, p: StmtPath) -> bool:
    return isinstance(p.stmt, Store)


@of_stage
def start(nest: Nest, p: StmtPath) -> bool:
    return isinstance(p.stmt, Reduce) and p.stmt.init is not None


@of_stage
def goes_on(nest: Nest, p: StmtPath) -> bool:
    """Folds into what is there."""
    return isinstance(p.stmt, Reduce) and p.stmt.init is None


@of_stage
def one_value(nest: Nest, p: StmtPath) -> bool:
    return len(leaf_writes(p.stmt)) == 1


@of_stage
def guarded(nest: Nest, p: StmtPath) -> bool:
    return any(isinstance(s, If) for s in p.around)


@of_stage
def unguarded(nest: Nest, p: StmtPath) -> bool:
    return not guarded(nest, p.stmt.label, {})


@of_stage
def alone(nest: Nest, p: StmtPath) -> bool:
    """Nothing else stands in its nest."""
    return not p.loops or len([*leaf_paths(p.loops[0].body)]) == 1


@of_stage
def in_company(nest: Nest, p: StmtPath) -> bool:
    return not alone(nest, p.stmt.label, {})


@of_stage
def consumes(nest: Nest, p: StmtPath) -> bool:
    """Reads what one before it writes."""
    return any(leaf_writes(q.stmt) & loaded_buffers(p.stmt) for q in nest.places[: nest.places.index(p)])


@of_stage
def feeds(nest: Nest, p: StmtPath) -> bool:
    """One after it reads what it writes."""
    return any(leaf_writes(p.stmt) & loaded_buffers(q.stmt) for q in nest.places[nest.places.index(p) + 1 :])


@of_stage
def sole(nest: Nest, p: StmtPath) -> bool:
    """No other statement writes what it does."""
    return all(len(nest.writers(b)) == 1 for b in leaf_writes(p.stmt))


@of_stage
def fills_own(nest: Nest, p: StmtPath) -> bool:
    """Writes memory of the program's own."""
    return leaf_writes(p.stmt) <= nest.allocs.keys()


@of_stage
def takes_over(nest: Nest, p: StmtPath) -> bool:
    """Reads memory of the program's own that one statement stores, and no other reads."""
    own = (b for b in loaded_buffers(p.stmt) if b in nest.allocs)
    return any(
        nest.readers(b) == [p] and len(w := nest.writers(b)) == 1 and isinstance(w[0].stmt, Store) and w[0] != p
        for b in own
    )


def _reads_at_loops(nest: Nest, p: StmtPath) -> bool:
    """Of memory of the program's own it reads what its loops count, and no neighbours of that."""
    read = (n for n in nodes(p.stmt) if isinstance(n, Load) and n.buffer.name in nest.allocs)
    return all(isinstance(x, Var) for n in read for x in n.at)


of_stage(_reads_at_loops, beside="value")


# ---------------------------------------------------------------- of a loop


def of_loop(*others: str, beside: str = "") -> Callable[[Callable[[Nest, Loop], bool]], Question]:
    """A question about the loop that a name means, for parameters `loop` and `others`."""

    def add(ask: Callable[[Nest, Loop], bool]) -> Question:
        def question(nest: Nest, name: Any, chosen: Chosen) -> bool:
            return name in nest.loops and ask(nest, nest.loops[name])

        question.__name__ = ask.__name__
        return about("loop", *others, beside=beside)(question)

    return add


@of_loop("outer", "inner", "first", "second")
def serial(nest: Nest, loop: Loop) -> bool:
    return loop.kind == "serial"


@of_loop()
def several(nest: Nest, loop: Loop) -> bool:
    """Holds more than one statement."""
    return len(nest.within(loop.var)) > 1


@of_loop()
def constant(nest: Nest, loop: Loop) -> bool:
    return isinstance(loop.extent, Int)


@of_loop()
def lanes(nest: Nest, loop: Loop) -> bool:
    return isinstance(loop.extent, Int) and loop.extent.value in LANES


@of_loop()
def memory(nest: Nest, loop: Loop) -> bool:
    """Has memory of each iteration's own."""
    return any(isinstance(s, Alloc) for s in statements(loop.body))


@of_loop()
def begins_with_copies(nest: Nest, loop: Loop) -> bool:
    """Its body is memory, and first what fills that and reads nothing that the loop writes."""
    fresh: set[str] = set()
    body = loop.body
    while len(body) == 1 and isinstance(only := body[0], Alloc):
        fresh.add(only.buffer.name)
        body = only.body
    return bool(fresh and body) and stored_buffers(body[0]) <= fresh and not _read(body[0]) & stored_buffers(loop)


def _read(s: Stmt) -> frozenset[str]:
    return frozenset[str]().union(*(loaded_buffers(p.stmt) for p in leaf_paths((s,))))


@of_loop()
def cut(nest: Nest, loop: Loop) -> bool:
    """A guard in it speaks of it, and not of memory."""
    conds = [s.cond for s in statements(loop.body) if isinstance(s, If)]
    return any(loop.var in free_vars(c) and not loaded_buffers(c) for c in conds)


@of_loop()
def shared_out(nest: Nest, loop: Loop) -> bool:
    """Stands in a loop over the blocks of a cluster that runs as often."""
    outer = [x for p in nest.within(loop.var)[:1] for x in p.loops if x.kind == "cluster"]
    return any(x.extent == loop.extent and x is not loop for x in outer)


@of_loop()
def recurs(nest: Nest, loop: Loop) -> bool:
    """Holds one store alone, which reads the element that the iteration before has stored."""
    (p, *others) = nest.within(loop.var) or [None]
    if others or p is None or not isinstance(s := p.stmt, Store) or p.loops[-1] is not loop:
        return False
    step = {loop.var: Var(loop.var) + 1}
    read = [n.at for n in nodes(s.value) if isinstance(n, Load) and n.buffer.name == s.buffer.name]
    return any(all(poly(substitute(x, step), EMPTY) == poly(y, EMPTY) for x, y in zip(at, s.at)) for at in read)


@of_loop(beside="instruction")
def an_instruction(nest: Nest, loop: Loop) -> bool:
    """Some instruction does it as it stands."""
    return loop.var in nest.doable


def of_both(*others: str) -> Callable[[Callable[[Nest, Loop, StmtPath], bool]], Question]:
    """A question about a loop beside the stage that is chosen, for parameters `loop` and `others`."""

    def add(ask: Callable[[Nest, Loop, StmtPath], bool]) -> Question:
        def question(nest: Nest, name: Any, chosen: Chosen) -> bool:
            place = nest.place(chosen.get("stage"))
            named = [nest.loops.get(n) for n in (name if isinstance(name, list | tuple) else [name])]  # pyright: ignore
            return place is not None and all(x is not None and ask(nest, x, place) for x in named)

        question.__name__ = ask.__name__
        return about("loop", *others, beside="stage")(question)

    return add


@of_both("at", "loops")
def around(nest: Nest, loop: Loop, p: StmtPath) -> bool:
    return loop in p.loops


@of_both()
def beside(nest: Nest, loop: Loop, p: StmtPath) -> bool:
    return loop not in p.loops


@of_both()
def later(nest: Nest, loop: Loop, p: StmtPath) -> bool:
    """All that is in the loop comes after the stage."""
    return all(nest.places.index(q) > nest.places.index(p) for q in nest.within(loop.var))


@of_both()
def earlier(nest: Nest, loop: Loop, p: StmtPath) -> bool:
    """All that is in the loop comes before the stage."""
    return all(nest.places.index(q) < nest.places.index(p) for q in nest.within(loop.var))


@of_both()
def uses(nest: Nest, loop: Loop, p: StmtPath) -> bool:
    """Something in the loop reads what the stage writes."""
    return any(leaf_writes(p.stmt) & loaded_buffers(q.stmt) for q in nest.within(loop.var))


@of_both()
def makes(nest: Nest, loop: Loop, p: StmtPath) -> bool:
    """What the stage reads is written in the loop, by a statement in which all the loops speak of the element."""
    made = [q for q in nest.within(loop.var) if leaf_writes(q.stmt) & loaded_buffers(p.stmt)]
    return bool(made) and all(loop.var in _placed(q) for q in made)


def _placed(p: StmtPath) -> set[str]:
    return set().union(*(free_vars(x) for x in p.stmt.at))


@of_both()
def folded(nest: Nest, loop: Loop, p: StmtPath) -> bool:
    return isinstance(p.stmt, Reduce) and loop.var in p.stmt.over


@of_both("loops")
def asked(nest: Nest, loop: Loop, p: StmtPath) -> bool:
    """A guard around the stage speaks of the loop."""
    return any(loop.var in free_vars(c) for c, held in p.conds() if held)


@of_both()
def leaves_alone(nest: Nest, loop: Loop, p: StmtPath) -> bool:
    """The stage stands in the loop, and it, or a value in it, is made of memory that the loop does not change."""
    if loop not in p.loops:
        return False
    moving = {x.var for x in loops(loop.body)} | {loop.var}
    unit = next((s for s in (*p.around[p.around.index(loop) + 1 :], p.stmt) if not isinstance(s, Alloc)), p.stmt)
    reads = loaded_buffers(unit) - stored_buffers(unit)
    if not isinstance(unit, If) and loop.var not in _spoken(unit) and not reads & stored_buffers(loop):
        return not (isinstance(p.stmt, Reduce) and (p.stmt.init is None or loop.var in p.stmt.over))
    return any(
        loaded_buffers(v) and not free_vars(v) & moving and not loaded_buffers(v) & stored_buffers(loop)
        for v in _values(p.stmt)
    )


def _spoken(s: Stmt) -> frozenset[str]:
    return free_vars(s).union(*(p.stmt.over for p in leaf_paths((s,)) if isinstance(p.stmt, Reduce)))


def _values(s: Store | Reduce) -> Iterator[Value]:
    """The operations in what a statement stores or folds."""
    for value in (s.value,) if isinstance(s, Store) else s.values:
        yield from (n for n in nodes(value) if isinstance(n, Op))
