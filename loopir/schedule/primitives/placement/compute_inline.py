"""compute_inline: a stage is computed where it is read, and its buffer goes away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Any, TypeVar

from loopir.analysis.dataflow.reaching_writes import intervening_write, is_written_before
from loopir.analysis.dependence.access import is_affine_visible, statements_in
from loopir.analysis.dependence.depend import Order, Pair, least_clash
from loopir.analysis.regions.bounds import find_out_of_bounds
from loopir.analysis.regions.footprint import Tops, end, poly_variables, proved
from loopir.arith.poly import Poly, constant_poly, poly_add, poly_scale, to_index
from loopir.arith.simplify import Context, divide, poly
from loopir.arith.simplify_func import simplify_body
from loopir.errors import ScheduleError, pairs
from loopir.ir.grammar import (
    Add,
    Alloc,
    Body,
    Buffer,
    FloorDiv,
    Func,
    If,
    Index,
    InstrRegion,
    Int,
    Load,
    Loop,
    Mod,
    Node,
    Op,
    Reduce,
    Stmt,
    Store,
    Value,
    Var,
)
from loopir.ir.printer import text
from loopir.ir.traverse.free_vars import ARITHMETIC
from loopir.ir.traverse.measure import measured, nesting
from loopir.ir.traverse.walk import (
    accessed_buffers,
    alloc_of,
    bodies,
    declared_names,
    free_vars,
    guarded_loads,
    leaf_paths_in,
    leaf_writes as writes_of,
    loaded_buffers,
    map_body,
    map_stmts,
    nests_touching,
    nodes,
    on_loads,
    path_to,
    replace_stmt,
    rewrite,
    substitute,
)
from loopir.schedule.core.facts import Facts, known_at
from loopir.schedule.core.find import find_stage, join_names
from loopir.schedule.legality.effects import reads
from loopir.schedule.legality.reduction_starts import rebuild_starting
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.split_range import without_unused_over

N = TypeVar("N", bound=Node)


@primitive
def compute_inline(func: Func, stage: str) -> Func:
    """Compute `stage` wherever it is read, instead of storing it. It has to be one plain store.

    Its loops may have been split or reordered: each element has to tell the iteration that stores it.

    before:
        def f(A: "float32[8]", B: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] + 1.0
                for j in range(8):
                    B[j] = T[7 - j] * T[j]
    call:    compute_inline("T")
    after:
        def f(A: "float32[8]", B: "out float32[8]"):
            for j in range(8):
                B[j] = (A[7 - j] + 1.0) * (A[j] + 1.0)
    refuses: compute_inline("B")  # B is an argument

    before:
        def g(A: "inout float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] + 1.0
                for j in range(8):
                    A[j] = T[7 - j]
    refuses: compute_inline("T")  # A, which T is computed from, is written by A
    """
    producer = stored_inline(func, stage)
    body = tuple(read_inline(s, producer) for s in _drop_store(producer.alloc.body, producer.store))
    if not all(isinstance(x, Var) for x in producer.solution.values()):
        body = simplify_body(body, known_at(func, producer.alloc), old=producer.alloc.body)
    new = replace_stmt(func, producer.alloc, body)
    _require_stored_copies(func, new, producer)
    return new


def stored_inline(func: Func, stage: str) -> Producer:
    """The stage as something to be computed where it is read; refuses where it may not be."""
    producer = _producer(func, stage)
    _require_short(func, producer.store)
    _require_kept_inputs(func, producer)
    return producer


MAX_OPERATIONS, NESTED = 1 << 14, 160
"""How many nodes a statement may have when it is written out, and how many parentheses in one another: Python reads
200 of these, brackets of subscripts among them."""


def _require_short(func: Func, store: Store) -> None:
    """Refuse where a reader of `store` would be written out at great length: what is read twice is written twice."""
    name, (size, depth) = store.buffer.name, measured(store.value)
    for place in leaf_paths_in(func, nests_touching(name)):
        s = place.stmt
        count = sum(load.buffer.name == name for load, _ in guarded_loads(s))
        total, nested = measured(s)[0] + count * size, nesting(s) + depth
        if s is not store and count and (total > MAX_OPERATIONS or nested > NESTED):
            raise ScheduleError(
                f"{s.label} reads {store.label} {count} times, and would be {total} operations, in {nested} levels, "
                f"written out; {MAX_OPERATIONS} in {NESTED} are the most",
                suggestion=f"compute_at of {store.label}",
            )


def inlined_but(func: Func, stage: str, reader: Stmt, kept: Load) -> Func:
    """`func` where statement `reader` computes itself what it reads of `stage`, but for the element `kept`."""
    producer = stored_inline(func, stage)
    body = rewrite(producer.alloc.body, lambda s: read_inline(s, producer, kept) if s is reader else None)
    body = simplify_body((Alloc(producer.alloc.buffer, body),), known_at(func, producer.alloc), old=producer.alloc.body)
    return replace_stmt(func, producer.alloc, body)


Far = tuple[str, int]
"""A variable, and a constant that is added to it."""


@dataclass(frozen=True, slots=True)
class Producer:
    """The one store of a stage, the allocation it fills, and its loops as indices over the element, `_element(d)`."""

    store: Store
    alloc: Alloc
    solution: dict[str, Index]
    places: dict[Far, Index] = field(default_factory=dict[Far, Index])
    loads: dict[Stem, dict[Constants, Load]] = field(default_factory=dict["Stem", "dict[Constants, Load]"])
    """What was made for one element, for the others: the neighbours of neighbours are often the same."""
    forms: dict[int, Form | None] = field(default_factory=dict[int, "Form | None"])
    """The loads in the value, by identity; None where a subscript is no variable and a constant."""

    def value(self, at: tuple[Index, ...]) -> Value:
        """What the stage stores in element `at`."""
        known: dict[str, Far] = {}
        for v, ix in self.solution.items():
            d = _DIMENSIONS.get(ix.name, -1) if isinstance(ix, Var) else -1
            far = _far(at[d]) if 0 <= d < len(at) else None
            if far is None:
                return self._value_at(self.store.value, at)
            known[v] = far
        here: dict[Stem, tuple[dict[Constants, Load], Stem, Constants]] = {}
        forms = self.forms

        def load(n: Any) -> Any:
            """What `n`, a part of the value, is where the loops are at variables and constants."""
            if id(n) not in forms:
                forms[id(n)] = _form(n)
            form = forms[id(n)]
            if form is None:
                return self._value_at(n, at)
            stem, more = form
            if stem not in here:
                here[stem] = self._moved(stem, known)
            made, (_, *names), start = here[stem]
            constants = tuple(map(add, start, more))
            found = made.get(constants)
            if found is None:
                found = made[constants] = Load(n.buffer, tuple(map(self._place, names, constants)))
            return found

        return on_loads(self.store.value, load)

    def _moved(self, stem: Stem, known: Mapping[str, Far]) -> tuple[dict[Constants, Load], Stem, Constants]:
        """What was made of such loads where the loops are `known`, by the constants; and what is added to each."""
        name, *variables = stem
        far = [known.get(v, (v, 0)) for v in variables]
        moved = (name, *(v for v, _ in far))
        return self.loads.setdefault(moved, {}), moved, tuple([c for _, c in far])

    def _place(self, v: str, c: int) -> Index:
        found = self.places.get((v, c))
        if found is None:
            found = self.places[v, c] = Var(v) + c
        return found

    def _value_at(self, n: N, at: tuple[Index, ...]) -> N:
        element = {_element(d).name: ix for d, ix in enumerate(at)}
        return substitute(n, {v: substitute(ix, element) for v, ix in self.solution.items()})


Stem = tuple[str, ...]
"""A buffer, and the variables that its subscripts are, but for a constant each."""
Constants = tuple[int, ...]
Form = tuple[Stem, Constants]


def _form(n: Node) -> Form | None:
    """A load's subscripts; None if one is no variable and a constant, or if it is something else."""
    if not isinstance(n, Load):
        return None
    seen = [x for ix in n.at if (x := _far(ix)) is not None]
    return ((n.buffer.name, *(v for v, _ in seen)), tuple([c for _, c in seen])) if len(seen) == len(n.at) else None


def _far(ix: Index) -> Far | None:
    """The variable and the constant whose sum `ix` is; None if it is none."""
    if ix.__class__ is Var:
        return ix.name, 0  # type: ignore[attr-defined]
    if isinstance(ix, Add) and ix.a.__class__ is Var and ix.b.__class__ is Int:
        return ix.a.name, ix.b.value  # type: ignore[attr-defined]
    return None


def _element(d: int) -> Var:
    return Var(f"[{d}]")


_DIMENSIONS = {_element(d).name: d for d in range(16)}
"""The elements' dimensions by name."""


def _producer(func: Func, stage: str) -> Producer:
    """The stage, if it is one plain store that fills a buffer of its own; else a ScheduleError that says why not."""
    place = find_stage(func, stage)[0]
    store = place.stmt
    if not isinstance(store, Store):
        raise ScheduleError(
            f"{store.label} is a reduction, which takes loops of its own; only a store has one value",
            suggestion=f"compute_at of {store.label}",
        )
    name = store.buffer.name
    if any(arg.buffer.name == name for arg in func.args):
        raise ScheduleError(
            f"{name} is an argument of {func.name!r}: the caller sees what is stored in it",
            suggestion=f"a stage that {name} is made from; {name} itself stays stored",
        )
    writers = [p.stmt.label for p in leaf_paths_in(func, nests_touching(name)) if name in writes_of(p.stmt)]
    if len(writers) > 1:
        raise ScheduleError(
            f"{name} is written by {join_names(writers)}; a stage that is computed inline is one store",
            suggestion=f"compute_at of {store.label}, or partition and peel undone",
        )
    if any(isinstance(s, InstrRegion) for s in place.around):
        raise ScheduleError(
            f"{store.label} is done by an instruction, which stores what it computes",
            suggestion="compute_inline before tensorize",
        )
    depth, alloc = next((n, s) for n, s in enumerate(place.around) if isinstance(s, Alloc) and s.buffer.name == name)
    if name in loaded_buffers(store):
        raise ScheduleError(
            f"{store.label} is computed from {name} itself", suggestion=f"keep {store.label} as a stage"
        )
    loops = tuple(s for s in place.around[depth + 1 :] if isinstance(s, Loop))
    solution = _solved(Facts.at(func, alloc).known, store.at, loops)
    unknown = [x.var for x in loops if x.var not in solution and x.var in free_vars(store.value)]
    if unknown:
        target = text(Load(store.buffer, store.at))
        reason = f"{store.label} stores {target}, which does not tell {join_names(unknown)}, and so not the value"
        raise ScheduleError(reason, suggestion="a stage whose element tells the iteration that stores it")
    return Producer(store, alloc, solution)


def _solved(known: Context, at: Sequence[Index], loops: Sequence[Loop]) -> dict[str, Index]:
    """The loops that an element tells: the others are left out.

    An index is solved for the loop that it moves with most, where what else is in it stays below a step of that: for
    4 * o + i, with i below 4, first for o and then for i.
    """
    told = {ix.name: _element(d) for d, ix in enumerate(at) if isinstance(ix, Var)}
    if len(told) == len(at):  # as most often
        return {x.var: told[x.var] for x in loops if x.var in told}
    inside = known
    for x in loops:
        inside = inside.loop(x.var, x.extent)
    tops = [(v, top) for v, top in inside.tops if any(v.name == x.var for x in loops)]
    left = [(poly(ix, known), poly(_element(d), known)) for d, ix in enumerate(at)]
    out: dict[str, Index] = {}
    while found := next(_steps(left, loops, tops, inside), None):
        var, value = found
        out[var] = to_index(value)
        left = [_substitute_var(p, e, Var(var), value) for p, e in left]
    return out


def _substitute_var(p: Poly, e: Poly, v: Var, value: Poly) -> tuple[Poly, Poly]:
    """`p == e` with the value of `v`, where it stands alone."""
    c = p.get((v,), 0)
    return poly_add(p, {(v,): c}, -1) if c else p, poly_add(e, value, -c) if c else e


def _steps(
    left: Sequence[tuple[Poly, Poly]], loops: Sequence[Loop], tops: Tops, inside: Context
) -> Iterator[tuple[str, Poly]]:
    """A loop that one of the equations gives, with its value."""
    names = {x.var for x in loops}
    for p, e in left:
        inner = poly_variables(p) & names
        for v in sorted(inner, key=lambda v: -abs(p.get((Var(v),), 0))):
            c = p.get((Var(v),), 0)
            if not c:
                continue
            rest = poly_add(p, {(Var(v),): c}, -1)
            low, high = (end(rest, tops, inside, least=x) for x in (True, False))
            if (
                v in poly_variables(rest)
                or low is None
                or high is None
                or (poly_variables(low) | poly_variables(high)) & names
            ):
                continue
            if proved(poly_add(poly_add(constant_poly(abs(c) - 1), high, -1), low), inside):
                first = low if c > 0 else high
                yield v, divide(poly_scale(poly_add(e, first, -1), 1 if c > 0 else -1), constant_poly(abs(c)), inside)


def _require_kept_inputs(func: Func, producer: Producer) -> None:
    """Refuse if what the stage is computed from changes, or goes away, before the stage is read."""
    label, name = producer.store.label, producer.store.buffer.name
    inputs = loaded_buffers(producer.store)
    for inner in (alloc_of(func, x) for x in sorted(inputs)):
        if inner is not None and any(s is producer.alloc for s in path_to(func, inner)[:-1]):
            outside = rewrite(producer.alloc.body, lambda s, inner=inner: () if s is inner else None)
            if name in reads(outside):
                reason = f"{inner.buffer.name}, which {label} is computed from, is gone where {label} is read"
                raise ScheduleError(reason, suggestion=f"keep {label} as a stage")
            _require_same_iteration(func, producer, inner)
    found = intervening_write(func, label, name)
    if found is not None:
        writer = found.clash.second
        reason = f"{found.clash.witness.buffer}, which {label} is computed from, is written by {writer} before "
        reason += f"{found.label} at ({pairs(found.use)}) reads {label}"
        raise refusal(found.clash, reason, None, f"keep {label} as a stage")


def _require_stored_copies(func: Func, new: Func, producer: Producer) -> None:
    """Refuse where a copy of an element that nothing has stored would become a computation of it.

    The copy is no use of that element, which is undefined; but to compute it may read what lies outside of an array.
    """
    label, name = producer.store.label, producer.store.buffer.name
    near = statements_in(func, nests_touching(name))
    maker = next((s for s in near if s.label == label), None)
    if maker is None:
        return  # it stands where nothing runs
    made = maker, next(a for a in maker.accesses if a.write)
    around = [s.var for s in path_to(func, producer.alloc) if isinstance(s, Loop)]
    for s in near:
        copies = s.place.stmt
        if isinstance(copies, Store) and isinstance(copies.value, Load) and copies.value.buffer.name == name:
            read = next(a for a in s.accesses if a.buffer == name and not a.write)
            if None in read.at and not maker.conds:
                continue  # any element, and all are stored
            computed = _may_fail(func, producer.store.value) or find_out_of_bounds(new, s.label) is not None
            if computed and not is_written_before(func, (s, read), made, around):
                raise ScheduleError(
                    f"{s.name} copies elements of {name} that {label} may not have stored, and would compute them",
                    suggestion=f"partition the loops of {s.name}, so that it copies what was stored alone",
                )


def _may_fail(func: Func, value: Value) -> bool:
    """Whether to compute `value` may be undefined where it is not computed now: of memory not written, by 0."""
    given = {arg.buffer.name for arg in func.args if arg.access != "out"}
    divides = any(
        (isinstance(n, Op) and n.fn.name in ("floordiv", "mod"))
        or (isinstance(n, FloorDiv | Mod) and not isinstance(n.b, Int))
        for n in nodes(value)
    )
    return divides or not loaded_buffers(value) <= given


def _require_same_iteration(func: Func, producer: Producer, inner: Alloc) -> None:
    """Refuse if the stage is read in another iteration than that which had `inner`, memory that it is computed from."""
    label, name = producer.store.label, producer.store.buffer.name
    around = [s.var for s in path_to(func, inner) if isinstance(s, Loop)]
    done = [(s, a) for s in statements_in(func, nests_touching(name)) for a in s.accesses if a.buffer == name]
    (made,) = (x for x in done if x[1].write)
    for t, b in (x for x in done if not x[1].write):
        here = [v for v in around if v in t.dims]
        if here == around and is_written_before(func, (t, b), made, around):
            continue
        apart: list[Order] = [[({f"t.{v}": k, f"s.{v}": -k, "": -1}, False)] for v in here for k in (1, -1)]
        clash = least_clash(Pair(func, *made, t, b).clashes(apart))
        reason = f"{inner.buffer.name}, which {label} is computed from, is another one where {t.name} reads {label}"
        instead = f"keep {label} as a stage"
        raise ScheduleError(reason, suggestion=instead) if clash is None else refusal(clash, reason, None, instead)


def _drop_store(body: Body, store: Store) -> Body:
    """`body` without `store`, and without the loops that held nothing else."""

    def visit(s: Stmt) -> Stmt | Body:
        if s is store:
            return ()
        if isinstance(s, Loop) and store.label not in declared_names(s):
            return s
        new = map_stmts(s, visit)
        return () if new is not s and not any(bodies(new)) else new

    return map_body(body, visit)


def read_inline(node: Stmt, producer: Producer, kept: Load | None = None) -> Stmt:
    """`node` with each element of the stage that it reads, but for `kept`, replaced by the value."""
    name = producer.store.buffer.name

    def visit(n: Any) -> Any:
        kind = n.__class__
        if kind is Op:
            return on_loads(n, visit)
        if kind is Load and all(map(is_affine_visible, n.at)):
            return producer.value(n.at) if n.buffer.name == name and n != kept else n
        if kind is Buffer or n == kept or (kind in ARITHMETIC and is_affine_visible(n)):
            return n
        if isinstance(n, Stmt) and (known := visit_parts(n)) is not None:
            return known
        n = rebuild_starting(n, visit)
        if isinstance(n, Reduce):  # its element may have been read
            return without_unused_over(n)
        return producer.value(n.at) if isinstance(n, Load) and n.buffer.name == name else n

    def visit_parts(s: Stmt) -> Stmt | None:
        """A statement whose own indices and conditions read no memory, or that does not read the stage; else None."""
        match s:
            case Alloc():
                return map_stmts(s, visit)
            case If(cond) if is_affine_visible(cond):
                return map_stmts(s, visit)
            case Loop(_, extent) if is_affine_visible(extent):
                return map_stmts(s, visit) if name in accessed_buffers(s) else s
            case Store(label, buffer, at) if all(map(is_affine_visible, at)):
                value = visit(s.value)
                return s if value is s.value else Store(label, buffer, at, value)
            case _:
                return s if name not in accessed_buffers(s) else None

    return visit(node)
