"""The statements that correct folds whose terms read other folds that go on: a loop's blocks with what they need."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from loopir.analysis.dataflow.correction import Correction, NoCorrection, correction, number
from loopir.analysis.dataflow.correction_symbolic import propose
from loopir.analysis.dataflow.definitions import Definition, inlined, may_select, nodes_of
from loopir.arith.signs import is_nonnegative
from loopir.arith.simplify import Context, simplify, simplify_cond
from loopir.errors import ScheduleError
from loopir.intrinsics.ops import compare as compare
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Alloc,
    And,
    Body,
    Buffer,
    Cmp,
    Cond,
    Const,
    Func,
    If,
    Index,
    Int,
    Load,
    Loop,
    Node,
    Not,
    Op,
    Or,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
    ValueToCond,
    Var,
    conjuncts,
)
from loopir.ir.ops import REGISTRY
from loopir.ir.printer import text
from loopir.ir.traverse.clone import Renaming, UsedNames, rename_symbols
from loopir.ir.traverse.walk import (
    StmtPath,
    free_vars,
    leaf_paths,
    loaded_buffers,
    nodes,
    path_to,
    rebuild,
    statements,
    stored_buffers,
    substitute,
)
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import find_loop, find_statement, join_names
from loopir.schedule.legality.asked_memory import unwritten_memory
from loopir.schedule.legality.effects import allocates
from loopir.schedule.legality.reductions import nested
from loopir.schedule.transform.shrink_alloc import iteration_footprint, shrink_into_loop, shrink_where_possible

EXTREMES = {"max", "min"}
DRAWS = 100
"""Of random numbers for what terms read."""
Block = Body
"""One iteration's share of a nest."""


@dataclass(frozen=True)
class Made:
    """The buffers that a corrected loop needs."""

    loop: str
    blocks: frozenset[str]
    corrections: tuple[Buffer, ...]

    def confined(self, func: Func) -> Func:
        """`func` with these buffers in the loop, as small as an iteration needs them."""
        for name in sorted(self.blocks - allocates(find_loop(func, self.loop).body)):
            func = shrink_where_possible(func, {name}, find_loop(func, self.loop))
        for b in self.corrections:  # written before they are read in each iteration
            box = iteration_footprint(func, find_loop(func, self.loop), b, {b.name})
            if box is not None:
                func = shrink_into_loop(func, {b.name}, find_loop(func, self.loop), box)
        return func


def corrected(func: Func, loop: Loop, blocks: Sequence[Block]) -> tuple[Stmt, Made]:
    """`loop` with `blocks` at its end, in order, their folds corrected; and what it needs."""
    return _Corrected(func, loop, blocks).done()


@dataclass
class _Corrected:
    func: Func
    loop: Loop
    blocks: Sequence[Block]
    going: set[str] = field(default_factory=set[str])
    """Folds along the loop that stand before the statement looked at."""
    folds: dict[str, StmtPath] = field(default_factory=dict[str, StmtPath])
    stale: dict[str, Definition] = field(default_factory=dict[str, Definition])
    """What blocks make of them, by statements that store."""
    opaque: set[str] = field(default_factory=set[str])
    """What blocks make of them otherwise."""
    nonnegative: set[str] = field(default_factory=set[str])
    before: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    """By fold, its values at the start of an iteration."""
    scales: dict[object, Buffer] = field(default_factory=dict[object, Buffer])
    outer: set[str] = field(default_factory=set[str])
    """The loops around."""

    def __post_init__(self) -> None:
        self.taken = UsedNames.of(self.func)

    def done(self) -> tuple[Stmt, Made]:
        v = self.loop.var
        for p in [*leaf_paths(self.loop.body)]:
            if isinstance(p.stmt, Reduce) and v in p.stmt.over:
                self.goes_on(p, p.stmt, p.stmt.values)
        self.outer = {s.var for s in path_to(self.func, self.loop)[:-1] if isinstance(s, Loop)}
        finite = self.finite()
        self.going |= {b.name for b, _ in finite.values()}
        rest: list[Stmt] = [*self.loop.body, *(s for _, made_of in finite.values() for s in made_of)]
        allocs = [b for b, _ in finite.values()]
        for block in (self.of_finite(body, finite) for body in self.blocks):
            self.require_plain_control(block)
            for p in leaf_paths(block):
                extra, more = self.corrections_of(p)
                rest += extra
                allocs += more
            rest += block
        head: list[Stmt] = []
        finite_names = {b.name for b, _ in finite.values()}
        for name, b in self.before.items():
            if name not in finite_names:
                head += self.for_each(self.folds[name], b, lambda s, name=name: Load(_buffer(s, name), s.at))
                allocs.append(b)
        loop: Stmt = replace(self.loop, body=(*head, *rest))
        for b in reversed(allocs):
            loop = Alloc(b, (loop,))
        return loop, Made(v, frozenset(self.stale) | self.opaque, tuple(allocs))

    @property
    def moving(self) -> set[str]:
        """What is not as it will be at the end."""
        return self.going | self.opaque | self.stale.keys()

    def goes_on(self, p: StmtPath, s: Reduce, terms: tuple[Value, ...]) -> None:
        """The fold at `p`, of `terms`, is one that blocks may read while it goes on."""
        self.going |= {b.name for b in s.buffers}
        self.folds |= {b.name: p for b in s.buffers}
        start = s.init is None or all(is_nonnegative(c, lambda _: False) for c in s.init)
        start = start or (s.monoid.name == "max" and s.init == s.monoid.identity)
        signed = s.monoid.name in ("sum", *EXTREMES) and s.init is not None and start
        if signed and all(is_nonnegative(v, lambda x: x.buffer.name in self.nonnegative) for v in terms):
            self.nonnegative |= {b.name for b in s.buffers}

    # ------------------------------------------------------------ what a statement needs

    def corrections_of(self, p: StmtPath) -> tuple[Body, list[Buffer]]:
        """What is to stand before the statement at `p`, of a block."""
        s, v = p.stmt, self.loop.var
        if isinstance(s, Store):
            if loaded_buffers(s) & self.moving:
                self.define(p, s)
            return (), []
        if v not in s.over:
            if loaded_buffers(s) & self.moving:
                self.opaque |= stored_buffers(s)
            return (), []
        out: Body = ()
        more: list[Buffer] = []
        terms = tuple(inlined(x, self.stale) for x in s.values)
        left = sorted({n for x in terms for n in loaded_buffers(x)} & (self.opaque | self.stale.keys()))
        if left:
            going = join_names(sorted(self.going))
            raise ScheduleError(
                f"what {s.label} folds of {join_names(left)} is not known as an expression of {going}", loop=v,
                suggestion=f"{join_names(left)} stored by one statement, at plain indices, and no fold itself",
            )  # fmt: skip
        found = self.correction_of(s, terms)
        if found is not None:
            self.require_start(s)
            self.require_terms_covered(p, found)
            out, more = self.updates(p, s, found)
        self.goes_on(p, s, terms)
        return out, more

    def define(self, p: StmtPath, s: Store) -> None:
        """Record the definition of a buffer that is computed from unfinished folds, to inline it where it is read."""
        name = s.buffer.name
        if (
            name in self.moving
            or name in loaded_buffers(s)
            or sum(name in stored_buffers(q.stmt) for q in leaf_paths(self.func.body)) > 1
        ):
            raise ScheduleError(
                f"{s.label} is not the only one to store {name}, of folds that go on, once",
                loop=self.loop.var, suggestion=f"one statement that makes {name}",
            )  # fmt: skip
        self.stale[name] = Definition(s, frozenset(x.var for x in p.loops))

    def correction_of(self, s: Reduce, terms: tuple[Value, ...]) -> Correction | None:
        what = join_names(sorted({n for t in terms for n in loaded_buffers(t)} & self.going))
        try:
            found = correction(s.monoid, terms, self.going, self.nonnegative, propose, self.fixed(s, terms))
        except NoCorrection as why:
            raise ScheduleError(
                f"{s.label} cannot be corrected as {what} goes on: {why}", loop=self.loop.var,
                suggestion="a fold by a monoid that merges parts (lp.welford, lp.expsum), or two passes",
            ) from None  # fmt: skip
        if found is not None:
            asked = set[str]().union(*map(free_vars, found.atoms))
            if bad := sorted(asked & {*s.over}):
                raise ScheduleError(
                    f"{s.label} needs another element of {what} for each {join_names(bad)}", loop=self.loop.var,
                    suggestion="a fold whose terms all read one",
                )  # fmt: skip
        return found

    def fixed(self, s: Reduce, terms: Sequence[Value]) -> set[Load]:
        """What `terms` load that is the same all along the fold, and is in memory, and written, wherever it starts."""
        blocks = (*self.loop.body, *(x for block in self.blocks for x in block))
        written = self.moving.union(*(stored_buffers(q.stmt) for q in leaf_paths(blocks)))
        place, over = find_statement(self.func, s.label), {*s.over}
        start = known_at(self.func, place.stmt).start
        left = [x for x in place.around if isinstance(x, If) or (isinstance(x, Loop) and x.var in over)]
        loads = {n for n in nodes_of(terms) if isinstance(n, Load) and n.buffer.name not in written}
        return {
            n
            for n in loads
            if not any(free_vars(x) & over or loaded_buffers(x) for x in n.at)
            and _is_inside(n, start)
            and not unwritten_memory(self.func, s.label, [n], left)
        }

    def require_start(self, s: Reduce) -> None:
        if s.init != s.monoid.identity:
            raise ScheduleError(
                f"{s.label} starts from what is no {s.monoid.name} of nothing, which cannot be corrected",
                loop=self.loop.var, suggestion=f"decompose {s.label}, and add its start afterwards",
            )  # fmt: skip
        if outside := sorted(self.outer & {*s.over}):
            raise ScheduleError(
                f"{s.label} is also over {join_names(outside)}, around {self.loop.var!r}, "
                "where what it reads starts anew",
                loop=self.loop.var, suggestion=f"rfactor {s.label} over {join_names(outside)} first",
            )  # fmt: skip

    def require_terms_covered(self, p: StmtPath, found: Correction) -> None:
        """Refuse if a term may be folded where an extreme that it reads is of nothing yet."""
        for n in nodes_of(found.atoms):
            if isinstance(n, Load) and (fold := self.folds.get(n.buffer.name)) is not None:
                s = fold.stmt
                assert isinstance(s, Reduce)
                if s.monoid.name in EXTREMES and not has_term_wherever(fold, n, p, self.loop):
                    raise ScheduleError(
                        f"{p.stmt.label} may fold a term where {s.label} has folded none yet", loop=self.loop.var,
                        suggestion=f"the guards of {s.label} around {p.stmt.label}, or a mask by select",
                    )  # fmt: skip

    def require_plain_control(self, block: Block) -> None:
        """Refuse if where, or whether, something is done depends on folds that go on."""
        moving = self.moving
        for s in statements(block):
            if isinstance(s, Store | Reduce):
                moving |= stored_buffers(s) if loaded_buffers(s) & moving else set()
                asked = set[str]().union(*(loaded_buffers(ix) for ix in s.at))
            else:
                asked = loaded_buffers(s.extent if isinstance(s, Loop) else s.cond if isinstance(s, If) else Int(0))
            if late := sorted(asked & moving):
                raise ScheduleError(
                    f"what is done in a block depends on {join_names(late)}, which goes on "
                    f"until {self.loop.var!r} ends",
                    loop=self.loop.var, suggestion="a select in the value",
                )  # fmt: skip

    # ------------------------------------------------------------ the statements

    def updates(self, p: StmtPath, s: Reduce, found: Correction) -> tuple[Body, list[Buffer]]:
        """What corrects the fold at `p`: the scale or shift, one for all elements that share it, and its use."""
        over = {*s.over}
        shells = [x for x in _shells(p) if (x.var not in over if isinstance(x, Loop) else not free_vars(x) & over)]
        read = {x for n in nodes_of(found.atoms) if isinstance(n, Load) for ix in n.at for x in free_vars(ix)}
        mine = [x for x in shells if isinstance(x, Loop) and x.var in read]
        out: Body = ()
        more: list[Buffer] = []
        stores: list[Store] = []
        for make, kind, b in zip(found.make, found.kinds, s.buffers, strict=True):
            if make is None:
                continue
            value = make([self.as_before(a) for a in found.atoms], found.atoms, b.dtype)
            value = self.unless_nothing(value, found, Const(1.0 if kind == "scale" else 0.0, b.dtype))
            by = self.scales.get(key := _canonical(value, mine))
            if by is None:
                by = Buffer(self.taken.name(f"{b.name}_{kind}"), tuple(x.extent for x in mine) or (Int(1),), b.dtype)
                self.scales[key] = by
                more.append(by)
                out += self.stored_once(by, value, shells, mine)
            fn = REGISTRY["mul" if kind == "scale" else "add"]
            stores.append(Store(self.taken.label(b.name), b, s.at, Op(fn, (Load(b, s.at), Load(by, _cell_of(mine))))))
        return (*out, *self.again(nested(shells, tuple(stores)))), more

    def stored_once(self, by: Buffer, value: Value, shells: Sequence[Loop | Cond], mine: Sequence[Loop]) -> Body:
        """The store of `value` to an element of `by` for each iteration of the loops `mine`, under those guards among
        `shells` that depend on no other loop."""
        others = {x.var for x in shells if isinstance(x, Loop)} - {x.var for x in mine}
        around = [x for x in shells if (x in mine if isinstance(x, Loop) else not free_vars(x) & others)]
        return self.again(nested(around, (Store(self.taken.label(by.name), by, _cell_of(mine), value),)))

    def as_before(self, atom: Value) -> Value:
        """`atom` of what the folds were at the start of the iteration."""

        def visit(n: Node) -> Node:
            if isinstance(n, Buffer):
                return n
            n = rebuild(n, visit)
            return Load(self.kept(n.buffer), n.at) if isinstance(n, Load) and n.buffer.name in self.folds else n

        return visit(atom)  # pyright: ignore[reportReturnType]

    def kept(self, b: Buffer) -> Buffer:
        """Where fold `b` is kept as it was at the start of the iteration."""
        if b.name not in self.before:
            self.before[b.name] = replace(b, name=self.taken.name(f"{b.name}_before"), layout=None)
        return self.before[b.name]

    def unless_nothing(self, value: Value, found: Correction, neutral: Const) -> Value:
        """`value`, and `neutral` where an extreme is of nothing yet: then the fold is, too."""
        for n in nodes_of(found.atoms):
            if isinstance(n, Load) and n.buffer.name in self.folds:
                s = self.folds[n.buffer.name].stmt
                assert isinstance(s, Reduce)
                if s.monoid.name in EXTREMES:
                    nothing = Op(REGISTRY["eq"], (Load(self.kept(n.buffer), n.at), s.monoid.identity[0]))
                    return Select(ValueToCond(nothing), neutral, value)
        return value

    def for_each(self, fold: StmtPath, to: Buffer, value: Callable[[Reduce], Value]) -> Body:
        """A store to `to` for each element of a fold, of `value` of the fold."""
        s = fold.stmt
        assert isinstance(s, Reduce)
        shells = [x for x in _shells(fold) if not free_vars(x) & {*s.over} or isinstance(x, Loop)]
        shells = [x for x in shells if not (isinstance(x, Loop) and x.var in s.over)]
        return self.again(nested(shells, (Store(self.taken.label(to.name), to, s.at, value(s)),)))

    def again(self, body: Body) -> Body:
        """`body` with loops of its own names."""
        old = [x.var for s in body for x in statements((s,)) if isinstance(x, Loop)]
        new = {v: self.taken.name(v) for v in old}
        return tuple(rename_symbols(s, Renaming(loops=new)) for s in body)

    # ------------------------------------------------------------ extremes of nothing yet

    def finite(self) -> dict[str, tuple[Buffer, Body]]:
        """By extreme that may be of nothing so far but infinities, of a mask say: what terms read instead, 0 then.

        Infinities less one another would be no numbers, in blocks that have nothing else in some row. With 0 such terms
        are neutral, which is asked of each fold.
        """
        out: dict[str, tuple[Buffer, Body]] = {}
        stores: dict[str, list[Value]] = {}
        for p in leaf_paths(self.func.body):
            if isinstance(p.stmt, Store):
                stores.setdefault(p.stmt.buffer.name, []).append(p.stmt.value)
        for name in sorted(self.going):
            place = self.folds[name]
            s = place.stmt
            assert isinstance(s, Reduce)
            nothing = s.monoid.identity[0]
            if s.monoid.name not in EXTREMES or len(s.buffers) > 1:
                continue
            if not any(name in loaded_buffers(p.stmt) for body in self.blocks for p in leaf_paths(body)):
                continue
            if self.neutral_terms(name, float(nothing.value), float(nothing.value)):
                continue  # the program sees to it
            if not self.neutral_terms(name, float(nothing.value), 0.0):
                sources = loaded_buffers(s.values[0])
                if not may_select(s.values[0], nothing, stores):
                    continue  # no mask puts it there, and what is given is taken to be finite
                raise ScheduleError(
                    f"{name} may be of nothing in a block, and what is made of that counts", loop=self.loop.var,
                    suggestion=f"terms that are 0 where {join_names(sorted(sources))} is {text(nothing)}",
                )  # fmt: skip
            b = _buffer(s, name)
            new = replace(b, name=self.taken.name(f"{name}_finite"), layout=None)
            self.folds[new.name] = place
            self.before[new.name] = self.kept(b)
            zero = Const(0.0, b.dtype)

            def value(s: Reduce, b: Buffer = b, nothing: Const = nothing, zero: Const = zero) -> Value:
                load = Load(b, s.at)
                return Select(ValueToCond(Op(REGISTRY["eq"], (load, nothing))), zero, load)

            out[name] = new, self.for_each(place, new, value)
        return out

    def of_finite(self, body: Body, finite: Mapping[str, tuple[Buffer, Body]]) -> Body:
        def visit(n: Node) -> Node:
            if isinstance(n, Buffer):
                return n
            n = rebuild(n, visit)
            return Load(finite[n.buffer.name][0], n.at) if isinstance(n, Load) and n.buffer.name in finite else n

        return tuple(visit(s) for s in body) if finite else body  # pyright: ignore[reportReturnType]

    def neutral_terms(self, name: str, nothing: float, now: float) -> bool:
        """Whether all folds of the blocks fold nothing in where a term of fold `name` is `nothing`, if it reads `now`
        of that fold."""
        made: dict[str, Definition] = {}
        for p in (p for body in self.blocks for p in leaf_paths(body)):
            s = p.stmt
            if isinstance(s, Store):
                if loaded_buffers(s) & {name, *made} and s.buffer.name not in loaded_buffers(s):
                    made[s.buffer.name] = Definition(s, frozenset(x.var for x in p.loops))
                continue
            values = tuple(inlined(v, made) for v in s.values)
            reads = [n for n in nodes_of(values) if isinstance(n, Load) and n.buffer.name == name]
            if reads and not is_neutral_where_nothing(self.folds[name], reads[0], p, values, (nothing, now), self.loop):
                return False
        return True


def is_neutral_where_nothing(
    fold: StmtPath, read: Load, term: StmtPath, values: Sequence[Value], numbers: tuple[float, float], loop: Loop
) -> bool:
    """Whether the `values` that the fold at `term` folds are its identity for each element whose term in `fold` is the
    first of `numbers`, if the second one stands for what is `read` of that fold: as random numbers tell, with tests of
    places that turn out either way, alike where they are the same."""
    one, other = fold.stmt, term.stmt
    assert isinstance(one, Reduce)
    assert isinstance(other, Reduce)
    nothing, now = numbers
    of_fold = _with_plain_indices(substitute(one.values[0], _same_element(fold, read, term, loop)))
    values, read = [_with_plain_indices(v) for v in values], cast(Load, _with_plain_indices(read))
    identity = [float(c.value) for c in other.monoid.identity]
    sources = {n for n in nodes(of_fold) if isinstance(n, Load)}  # all else is finite
    rng = random.Random(3)
    for _ in range(DRAWS):
        some: dict[object, float] = {}

        def of(n: object, some: dict[object, float] = some) -> float:
            if n == read:
                return now
            drawn = rng.uniform(-3, 3)
            return some.setdefault(n, rng.choice((nothing, 0.0, 1.0, drawn)) if n in sources else drawn)

        held: dict[Cond, bool] = {}
        try:
            if float(number(_with_tests_decided(of_fold, held, rng), of)) != nothing:
                continue
            if [float(number(_with_tests_decided(v, held, rng), of)) for v in values] != identity:
                return False
        except NoCorrection:
            return False
    return True


def _with_plain_indices(v: Value) -> Value:
    """`v` with indices and tests of places as `simplify` writes them, so that those that are the same look alike."""

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        if isinstance(n, Index):
            return simplify(n, Context())
        n = rebuild(n, visit)
        plain = isinstance(n, Select) and not isinstance(n.cond, ValueToCond)
        return replace(n, cond=simplify_cond(n.cond, Context())) if plain else n  # pyright: ignore

    return cast(Value, visit(v))


def _with_tests_decided(v: Value, held: dict[Cond, bool], rng: random.Random) -> Value:
    """`v` with one side of each choice by places: `held` says how tests turned out, and is told of further ones."""

    def holds(c: Cond) -> bool:
        match c:
            case And(terms):
                return False not in [holds(x) for x in terms]  # each of them is told how it turned out
            case Or(terms):
                return True in [holds(x) for x in terms]
            case Not(x):
                return not holds(x)
            case _:
                return c == TRUE or (c != FALSE and held.setdefault(c, rng.random() < 0.5))

    def visit(n: Node) -> Node:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, visit)
        return (n.a if holds(n.cond) else n.b) if isinstance(n, Select) and not isinstance(n.cond, ValueToCond) else n

    return cast(Value, visit(v))


def _buffer(s: Reduce, name: str) -> Buffer:
    return next(b for b in s.buffers if b.name == name)


def _shells(p: StmtPath) -> list[Loop | Cond]:
    """The loops and conditions around the statement at `p`, in the block it belongs to."""
    out: list[Loop | Cond] = []
    for depth, s in enumerate(p.around):
        if isinstance(s, Loop):
            out.append(s)
        elif isinstance(s, If):
            held = p.path[depth + 1] < len(s.then)
            out += conjuncts(s.cond) if held else (Not(s.cond),)
    return out


def has_term_wherever(fold: StmtPath, read: Load, term: StmtPath, loop: Loop) -> bool:
    """Whether the fold that `read` reads has folded an element wherever the term at `term` is folded."""
    env = _same_element(fold, read, term, loop)
    mine, its = _own_loops(fold, loop), _own_loops(term, loop)
    given = {c for c in _shells(term) if not isinstance(c, Loop)}
    same = {substitute(x.extent, {}) for x in its}
    runs = all((isinstance(x.extent, Int) and x.extent.value > 0) or substitute(x.extent, env) in same for x in mine)
    asked = {substitute(c, env) for c in _shells(fold) if not isinstance(c, Loop)}
    return runs and asked <= given


def _same_element(fold: StmtPath, read: Load, term: StmtPath, loop: Loop) -> dict[str, Index]:
    """The values of the loops of `fold`, which `read` reads, at the element that the term at `term` is of."""
    one = fold.stmt
    assert isinstance(one, Reduce)
    env: dict[str, Index] = {a.name: b for a, b in zip(one.at, read.at, strict=True) if isinstance(a, Var)}
    for a, b in zip(_own_loops(fold, loop), _own_loops(term, loop), strict=False):
        env[a.var] = Var(b.var)
    return env


def _own_loops(p: StmtPath, loop: Loop) -> list[Loop]:
    """The loops that the fold at `p` is over, but `loop`."""
    assert isinstance(p.stmt, Reduce)
    return [x for x in p.loops if x.var in p.stmt.over and x.var != loop.var]


def _cell_of(loops: Sequence[Loop]) -> tuple[Index, ...]:
    """The element for an iteration of `loops`, of a buffer with a dimension for each of them, or one element."""
    return tuple(Var(x.var) for x in loops) or (Int(0),)


def _canonical(value: Value, loops: Sequence[Loop]) -> object:
    """What two scales have in common that may be one."""
    new = {x.var: Var(f"#{n}") for n, x in enumerate(loops)}
    return substitute(value, new), tuple(x.extent for x in loops)


def _is_inside(n: Load, known: Context) -> bool:
    """Whether what `n` reads is known to be in its buffer."""
    tests = (c for x, d in zip(n.at, n.buffer.shape, strict=True) for c in (Cmp("<=", Int(0), x), Cmp("<", x, d)))
    return all(simplify_cond(c, known) == TRUE for c in tests)
