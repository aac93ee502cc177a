"""reindex: what a stage makes of one buffer is kept by iteration: a gathered, padded or strided operand as a matrix.

It stands in a nest of its own, which `compute_at` puts where a tile of it is needed, so that it need never exist as a
whole; and the stage reads it at its own loops alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopir.analysis.regions.bounds import OutOfBoundsAccess, find_out_of_bounds, positive_divisors
from loopir.arith.poly import expand_index
from loopir.arith.simplify import nonnegative, poly, simplify_cond
from loopir.arith.simplify_func import statements_known
from loopir.arith.upper_bound import max_trip_count
from loopir.errors import ScheduleError
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    TRUE,
    Alloc,
    Buffer,
    Cast,
    Cmp,
    Cond,
    Func,
    If,
    Index,
    Int,
    Load,
    Loop,
    Node,
    Not,
    Op,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
    conjuncts,
    maximum,
)
from loopir.ir.layout.layouts import reads_only
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    children,
    free_vars,
    fresh_name,
    loaded_buffers,
    nodes,
    replace_stmt,
    substitute,
)
from loopir.schedule.core.find import find_buffer, find_loop, join_names
from loopir.schedule.core.naming import UsedNames, free_name
from loopir.schedule.legality.effects import allocates
from loopir.schedule.legality.reductions import nested
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.caches import (
    CacheSite,
    find_dtype,
    find_site,
    inside_nests,
    require_unmodified,
    require_unshared,
    require_unwritten,
)
from loopir.schedule.transform.split_range import with_values


@primitive
def reindex(
    func: Func,
    stage: str,
    buffer: str | tuple[str, ...],
    *loops: str,
    at: str | None = None,
    name: str | None = None,
    dtype: str | None = None,
    argument_of: str | None = None,
) -> Func:
    """Keep what `stage` makes of `buffer` alone in memory with one dimension for each of `loops`, and read it there.

    That is the largest value of the stage that has the buffer's type, or `dtype`, and is computed from nothing else,
    padding and conversions on the way included, and that depends on none of the stage's other loops. Of several
    buffers, it is computed from all of them. A float that the stage converts to one of more bits may be kept in any
    `dtype` between these two that has all its values. With `argument_of`, it is what the stage applies that function
    to, which it goes on to apply: a rounding that belongs to a product's instruction. It is computed before the nest,
    or in each iteration of loop `at`. Unless told, `loops` are those that it depends on, outer ones first. Where
    `buffer` is what the stage stores into, and does not read, it is all that is stored. `name` is the memory's.

    before:
        def f(n: "size", X: "float32[n]", W: "float32[3]", Y: "out float32[n]"):
            for i in range(n):
                for r in range(3):
                    Y[i] = sum(select(1 <= i + r and i + r < n + 1, X[i + r - 1], 0.0) * W[r], over=r, init=0.0)
    call:    reindex("Y", "X")
    after:
        def f(n: "size", X: "float32[n]", W: "float32[3]", Y: "out float32[n]"):
            with alloc("float32[n, 3]") as X_at:
                for i_1 in range(n):
                    for r_1 in range(3):
                        X_at[i_1, r_1] = select(1 <= i_1 + r_1 and i_1 + r_1 < n + 1, X[i_1 + r_1 - 1], 0.0)
                for i in range(n):
                    for r in range(3):
                        Y[i] = sum(X_at[i, r] * W[r], over=r, init=0.0)
    refuses: reindex("Y", "Y")                   # Y makes nothing of Y
    refuses: reindex("Y", "X", "i")              # Y makes nothing of X that depends on i alone
    refuses: reindex("Y", "X", "i", "r", at="i") # 'i' is no loop inside 'i'
    refuses: reindex("Y", "X", dtype="real")     # 'real' is not an element type

    before:
        def h(A: "float32[6]", B: "out float32[2, 3]"):
            for i in range(6):
                B[i // 3, i % 3] = A[i] * 2.0
    call:    reindex("B", "B")
    after:
        def h(A: "float32[6]", B: "out float32[2, 3]"):
            with alloc("float32[6]") as B_at:
                for i_1 in range(6):
                    B_at[i_1] = A[i_1] * 2.0
                for i in range(6):
                    B[i // 3, i % 3] = B_at[i]

    before:
        def d(X: "float32[8]", W: "int8[8, 4]", S: "float16[4]", Y: "out float32[4]"):
            for j in range(4):
                for k in range(8):
                    Y[j] = sum(X[k] * float32(float16(W[k, j]) * S[j]), over=k, init=0.0)
    call:    reindex("Y", ("W", "S"), dtype="float16")
    after:
        def d(X: "float32[8]", W: "int8[8, 4]", S: "float16[4]", Y: "out float32[4]"):
            with alloc("float16[4, 8]") as W_at:
                for j_1 in range(4):
                    for k_1 in range(8):
                        W_at[j_1, k_1] = float16(W[k_1, j_1]) * S[j_1]
                for j in range(4):
                    for k in range(8):
                        Y[j] = sum(X[k] * float32(W_at[j, k]), over=k, init=0.0)
    refuses: reindex("Y", ("X", "S"))            # Y makes nothing of X and S
    refuses: reindex("Y", "W", dtype="i0")       # 'i0' is not an element type

    before:
        def e(X: "float8_e4m3fn[8]", Y: "out float32[8]"):
            for i in range(8):
                Y[i] = float32(X[i]) * 2.0
    call:    reindex("Y", "X", dtype="bfloat16")
    after:
        def e(X: "float8_e4m3fn[8]", Y: "out float32[8]"):
            with alloc("bfloat16[8]") as X_at:
                for i_1 in range(8):
                    X_at[i_1] = bfloat16(X[i_1])
                for i in range(8):
                    Y[i] = float32(X_at[i]) * 2.0
    refuses: reindex("Y", "X", dtype="float8_e5m2")  # Y makes nothing of X

    before:
        def t(X: "float32[8]", W: "float32[8]", Y: "out float32[]"):
            for k in range(8):
                Y[()] = sum(tf32(X[7 - k]) * W[k], over=k, init=0.0)
    call:    reindex("Y", "X", argument_of="tf32")
    after:
        def t(X: "float32[8]", W: "float32[8]", Y: "out float32[]"):
            with alloc("float32[8]") as X_at:
                for k_1 in range(8):
                    X_at[k_1] = X[7 - k_1]
                for k in range(8):
                    Y[()] = sum(tf32(X_at[k]) * W[k], over=k, init=0.0)
    refuses: reindex("Y", "W", argument_of="tf32")  # Y applies tf32 to nothing that it makes of W

    before:
        def g(A: "inout float32[9]"):
            for i in range(8):
                A[i + 1] = A[i] * 2.0
    refuses: reindex("A", "A")                   # A at (i=0) writes A[1], which A at (i=1) reads later
    call:    reindex("A", "A", at="i")
    after:
        def g(A: "inout float32[9]"):
            for i in range(8):
                with alloc("float32[]") as A_at:
                    A_at[()] = A[i] * 2.0
                    A[i + 1] = A_at[()]
    """
    sources = [find_buffer(func, b) for b in ((buffer,) if isinstance(buffer, str) else buffer)]
    if not sources:
        raise ScheduleError("no buffer is named", suggestion="what the stage reads")
    kind = sources[0].dtype if dtype is None else find_dtype(dtype)
    site = find_site(func, stage, at, [b.name for b in sources])
    converted = _converted_by(func, site.place.stmt, sources, kind)
    site = site if converted is func else find_site(converted, stage, at, [b.name for b in sources])
    inner = _stage_loops(site)
    chosen = [find_loop(func, v).var for v in loops]
    _require_loops_of(inner, chosen, f"inside {at!r}" if at is not None else f"around {site.place.stmt.label}")
    part = _part(site, sources, kind, chosen or list(inner), inner, argument_of)
    along = chosen or [v for v in inner if v in free_vars(part)]
    made = _Copy(site, part, [inner[v] for v in along], inner)
    made.require_same_inputs(f"what {site.place.stmt.label} makes of {_names_of(sources)}")
    new = made.applied(sources[0], name)
    for b in sorted(loaded_buffers(part)):
        require_unshared(site, new, b)
    return new


def _require_loops_of(inner: Mapping[str, Loop], chosen: Sequence[str], where: str) -> None:
    """Refuse loops that are not among `inner`, the loops `where`, or that are named twice."""
    if bad := [v for v in chosen if v not in inner]:
        raise ScheduleError(
            f"{bad[0]!r} is no loop {where}; the loops there are {join_names(inner)}",
            loop=bad[0],
            suggestion=f"one of {join_names(inner)}" if inner else "no loop: all there are",
        )
    if len({*chosen}) < len(chosen):
        raise ScheduleError("each loop is named once", suggestion="each of them once")


def _stage_loops(site: CacheSite) -> dict[str, Loop]:
    """The loops around the stage in its nest, outer ones first."""
    around = [*site.place.around[len(site.around) :]]
    return {s.var: s for s in around if isinstance(s, Loop)}


# ---------------------------------------------------------------- which value


def _names_of(sources: Sequence[Buffer]) -> str:
    return " and ".join(b.name for b in sources)


def _part(
    site: CacheSite, sources: Sequence[Buffer], kind: DType, along: Sequence[str], inner: dict[str, Loop],
    argument_of: str | None,
) -> Value:  # fmt: skip
    """The one value of type `kind` that is computed from all `sources` alone, and from the loops `along`."""
    s = site.place.stmt
    others = {*inner} - {*along}
    if (
        argument_of is None
        and isinstance(s, Store)
        and [s.buffer] == [*sources]
        and s.buffer.name not in _loaded(s.value)
    ):
        if bad := sorted(free_vars(s.value) & others):
            raise ScheduleError(
                f"what {s.label} stores depends on {join_names(bad)}, too",
                loop=bad[0],
                suggestion=f"name {join_names(bad)}, too",
            )
        return s.value
    names = {b.name for b in sources}
    found = [*dict.fromkeys(x for v in _values(s) for x in _parts(v, names, kind, others, argument_of))]
    if not found and argument_of is not None:
        raise ScheduleError(
            f"{s.label} applies {argument_of} to nothing that it makes of {_names_of(sources)}",
            suggestion=f"reindex without argument_of={argument_of!r}",
        )
    if not found:
        alone = f" that depends on {join_names(along)} alone" if others else ""
        raise ScheduleError(
            f"{s.label} makes nothing of {_names_of(sources)}{alone}",
            loop=None,
            suggestion=f"a buffer that {s.label} reads: {join_names(sorted(loaded_buffers(s)))}",
        )
    if len(found) > 1:
        raise ScheduleError(
            f"{s.label} makes several values of {_names_of(sources)}: {join_names(text(v) for v in found)}",
            suggestion=f"cache_read of {sources[0].name}, which keeps all that an iteration reads of it",
        )
    return found[0]


def _converted_by(func: Func, s: Stmt, sources: Sequence[Buffer], kind: DType) -> Func:
    """`func` with what `s` converts of `sources` alone to a wider float converted to `kind` first, where that has all
    of its values, and is not there yet."""
    names = {b.name for b in sources}
    if not isinstance(s, Store | Reduce) or any(any(_parts(v, names, kind, set())) for v in _values(s)):
        return func
    casts = [n for v in _values(s) for n in nodes(v) if isinstance(n, Cast) and {*_loaded(n.value)} == names]
    between = [c for c in casts if kind.holds_all(c.value.dtype) and c.type.holds_all(kind)]
    env: dict[Value, Value] = {c: Cast(Cast(c.value, kind), c.type) for c in between}
    return replace_stmt(func, s, (with_values(s, env),)) if env else func


def _values(s: Node) -> Sequence[Value]:
    return (s.value,) if isinstance(s, Store) else getattr(s, "values", ())


def _parts(
    v: Value, sources: set[str], kind: DType, others: set[str], argument_of: str | None = None
) -> Iterator[Value]:  # fmt: skip
    if argument_of is None and v.dtype == kind and {*_loaded(v)} == sources and not free_vars(v) & others:
        yield v
        return
    below = None if isinstance(v, Op) and v.fn.name == argument_of else argument_of
    for x in children(v) if not isinstance(v, Load) else ():
        if isinstance(x, Value):
            yield from _parts(x, sources, kind, others, below)


def _loaded(n: Node) -> Iterator[str]:
    """What a value is computed from; where in memory that is found may be read from elsewhere."""
    if isinstance(n, Load):
        yield n.buffer.name
    elif not isinstance(n, Index) and not isinstance(n, Buffer):
        for x in children(n):
            yield from _loaded(x)


def _asks(n: Node) -> bool:
    """Whether memory tells where something is found, or if it is."""
    return any(isinstance(x, ValueToIndex | ValueToCond) for x in nodes(n))


# ---------------------------------------------------------------- the copy


@dataclass(frozen=True, slots=True)
class _Copy:
    """`part`, in loops like `along`."""

    site: CacheSite
    part: Value
    along: Sequence[Loop]
    inner: dict[str, Loop]

    def require_same_inputs(self, what: str) -> None:
        """Refuse if the nest allocates or changes memory that the copy, or which iterations it has, depends on."""
        site, inputs = self.site, loaded_buffers(self.part)
        require_unwritten(site, self.deciding(), f"for which iterations there is {what}")
        if gone := sorted(inputs & allocates(site.nests)):
            reason = f"{what} is read from {join_names(gone)}, allocated in the nest that the copy would stand before"
            raise ScheduleError(reason, suggestion="at=, a loop inside that allocation")
        ats = {n.at for n in nodes(self.part) if isinstance(n, Load)}
        read = "memory that the copy would be computed from"
        require_unmodified(site, inputs, read, lambda a: None in a.at or a.at in ats)

    def deciding(self) -> list[Node]:
        """What decides which iterations the copy has."""
        kept, _ = self.guards()
        return [*(c for c, _ in kept), *(x.extent for x in self.along)]

    def guards(self) -> tuple[list[tuple[Cond, frozenset[str]]], list[Cond]]:
        """The conditions in the nest under which the stage runs: those that the copy can have, each with the loops of
        the copy that it stands in, and the others.
        """
        own = frozenset(x.var for x in self.along)
        kept: list[tuple[Cond, frozenset[str]]] = []
        dropped: list[Cond] = []
        opened: frozenset[str] = frozenset()
        for s, n in zip(self.site.place.around, self.site.place.path[1:], strict=True):
            if isinstance(s, Loop):
                opened |= {s.var} & own
            elif isinstance(s, If) and not any(s is x for x in self.site.around):
                for t in conjuncts(s.cond) if n < len(s.then) else (Not(s.cond),):
                    if free_vars(t) & self.inner.keys() - own:
                        dropped.append(t)
                    else:
                        kept.append((t, opened))
        return kept, dropped

    def applied(self, source: Buffer, name: str | None) -> Func:
        site, taken = self.site, UsedNames.of(self.site.func)
        called = taken.name(f"{source.name}_at") if name is None else free_name(name, taken.names)
        taken.names.add(called)
        cache = Buffer(called, tuple(self.size(x) for x in self.along), self.part.dtype)
        new = {x.var: taken.name(x.var) for x in self.along}
        env: dict[str, Index] = {old: Var(v) for old, v in new.items()}
        kept, dropped = self.guards()
        everywhere = not dropped and self.runs() and self.is_always_evaluated()
        if not everywhere and isinstance(self.part, Load):  # a copy, made where there is something to copy
            kept += [(c, frozenset(new)) for c in self.inside(self.part, [c for c, _ in kept])]
        label = fresh_name(called, taken.labels)
        store = Store(label, cache, tuple(env[x.var] for x in self.along), substitute(self.part, env))
        body = nested([self.renewed(s, new, env) for s in self.shells(kept)], (store,))
        old = site.place.stmt
        read = Load(cache, tuple(Var(x.var) for x in self.along))
        nests = inside_nests(site.nests, old, with_values(old, {self.part: read}))
        made = site.replaced((Alloc(cache, (*body, *nests)),), (*body, *nests))
        if not everywhere:
            self.require_safe(made, label)
        return made

    def inside(self, load: Load, kept: Sequence[Cond]) -> list[Cond]:
        """What makes an element that the copy loads one of its buffer, less what is known there where `kept` holds.

        What a subscript divides by is positive: that is asked first.

        The guards that stand around the stage hold no less often around the copy, which has fewer loops: none of these
        is decided that was not, there.
        """
        known = self.site.known.here
        for x in self.along:
            known = known.loop(x.var, x.extent)
        known = known.inside(*kept)
        asked = positive_divisors(load.at)
        for x, size in zip(load.at, load.buffer.shape, strict=True):
            asked += Cmp("<=", Int(0), x), Cmp("<", x, size)
        return [c for c in (simplify_cond(c, known) for c in asked if c not in kept) if c != TRUE]

    def shells(self, kept: Sequence[tuple[Cond, frozenset[str]]]) -> Iterator[Loop | Cond]:
        """The copy's loops, and the guards: each as soon as the loops are open that it stands in.

        What memory tells of a loop's extent is asked under the guards that stand around the loop.
        """
        opened: set[str] = set()
        left = list(kept)
        for x in (None, *self.along):
            if x is not None:
                late = [c for c, around in left if x.var not in around]
                if late and _asks(x.extent):
                    reason = f"how often {x.var!r} runs is read from memory under the guard {text(late[0])}"
                    raise ScheduleError(reason, loop=x.var, suggestion="the loops in the order in which they are")
                opened.add(x.var)
                yield x
            yield from (c for c, around in left if around <= opened)
            left = [(c, around) for c, around in left if not around <= opened]

    @staticmethod
    def renewed(s: Loop | Cond, new: Mapping[str, str], env: Mapping[str, Index]) -> Loop | Cond:
        if isinstance(s, Loop):
            return Loop(new[s.var], substitute(s.extent, env), "serial", ())
        return substitute(s, env)

    def size(self, loop: Loop) -> Index:
        """How many iterations `loop` has at most, at any sizes."""
        if isinstance(loop.extent, Int):
            return maximum(loop.extent, 0)
        around = {x.var: x.extent for x in (*self.site.place.loops,) if x is not loop}
        size = max_trip_count(loop, around)
        if size is None or not reads_only(size, frozenset(self.site.func.sizes)):
            raise ScheduleError(
                f"{loop.var!r} runs {text(loop.extent)} times, and how much memory that needs at most is not known",
                loop=loop.var, suggestion=f'split("{loop.var}", 32) and take the inner loop',
            )  # fmt: skip
        order = [x.var for x in self.along]
        for v in sorted(free_vars(loop.extent) & self.inner.keys()):
            if v not in order or order.index(v) > order.index(loop.var):
                raise ScheduleError(f"the extent of {loop.var!r} depends on {v!r}", loop=loop.var,
                                    suggestion=f"{v!r} before {loop.var!r} among the loops")  # fmt: skip
        known = self.site.known.here
        counts = nonnegative(expand_index(size), known) or nonnegative(poly(size, known), known)
        return size if counts else maximum(size, 0)

    def runs(self) -> bool:
        """Whether the stage runs, for each iteration of the loops `along`, at least once."""
        rest = [x for x in self.inner.values() if x not in self.along]
        if all(isinstance(x.extent, Int) and x.extent.value > 0 for x in rest):
            return True
        known = {id(s): k.here for s, k in statements_known((self.site.nest,), self.site.known)}
        return all(nonnegative(poly(x.extent - 1, known[id(x)]), known[id(x)]) for x in rest)

    def is_always_evaluated(self) -> bool:
        """Whether each iteration of the stage evaluates the value, and no selection leaves it out."""
        pending: list[Node] = [*_values(self.site.place.stmt)]
        for v in pending:  # which grows on the way
            if v == self.part:
                return True
            pending += [] if isinstance(v, Select) else [x for x in children(v) if isinstance(x, Value)]
        return False

    def require_safe(self, made: Func, label: str) -> None:
        """Refuse if the copy would evaluate what the stage does not, and that is not known to have a value."""
        s = self.site.place.stmt
        given = {a.buffer.name for a in made.args if a.access != "out"}
        if asked := next((x for x in (self.part, *self.deciding()) if _asks(x)), None):
            bad: object = f"{text(asked)} is found by memory"
        elif not isinstance(self.part, Load) and isinstance(
            found := find_out_of_bounds(made, label), OutOfBoundsAccess
        ):
            bad = str(found)
        elif (own := loaded_buffers(self.part) - given) and not isinstance(self.part, Load):
            bad = f"{join_names(sorted(own))} may not be written there"
        else:
            return
        raise ScheduleError(
            f"{label} would be computed where {s.label} does not run: {bad}",
            suggestion="loops that the guards around the stage speak of, too",
        )
