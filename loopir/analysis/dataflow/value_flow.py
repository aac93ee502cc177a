"""Value-based dataflow: for every read, which write, or which folds, its value comes from.

Instances are points of isl sets, accesses and times are isl relations, with the sizes as parameters; isl's flow
analysis finds the last writer. What is not affine (control by data, products of sizes) raises Unanalyzable.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeAlias, TypeGuard

from loopir.analysis.dependence.access import Statement, statements_of
from loopir.analysis.presburger.solver import isl, read_map, read_set
from loopir.ir.grammar import (
    Add,
    And,
    Buffer,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    Index,
    InstrCall,
    Int,
    Kernel,
    Load,
    Max,
    Min,
    Mod,
    Monoid,
    Mul,
    Not,
    Or,
    Reduce,
    Store,
    Value,
    Var,
)
from loopir.ir.printer import text
from loopir.ir.traverse.walk import is_vector_reduction, nodes, statements

END = 1 << 30
"""The time of whoever looks at the outputs."""


class Unanalyzable(Exception):
    """The dataflow depends on something that is not affine or is read from memory."""


class NotEqual(Exception):
    """Two values are not shown to be equal; at `sizes` there are any such, if it is known."""

    sizes: isl.Set | None = None


@dataclass(frozen=True, eq=False)
class Site:
    """Where values are used: the instances of a statement, or the elements of an output, as a set with times."""

    name: str
    label: str
    loops: tuple[str, ...]
    domain: isl.Set
    time: tuple[str, ...]
    """When an instance runs, over `i0`, `i1` ... for its loops."""
    private: Mapping[str, tuple[str, ...]]
    statement: Statement | None = None


@dataclass(frozen=True, eq=False)
class Expr:
    """The value of `node`, for each instance of `site`."""

    site: Site
    node: Value


@dataclass(frozen=True)
class InputValue:
    """What the caller's array `name` holds at first, for each of its elements."""

    name: str


@dataclass(frozen=True, eq=False)
class FoldedValue:
    """What stands in an element after some folds, for each instance of the reader `site`: `parts` folded into `base`.

    Each part is a fold statement, and for each reader the instances of it that count. Of a fold of several components
    at once, `beside` is what the others began with: what this one becomes depends on them.
    """

    key: tuple[object, ...]
    monoid: Monoid
    component: int
    base: tuple[tuple[Term, isl.Map], ...]
    parts: tuple[tuple[Site, Reduce, isl.Map], ...]
    readers: isl.Set
    beside: tuple[Pieces, ...] = ()


@dataclass(frozen=True)
class UnwrittenValue:
    """Memory that nothing has written."""


Term: TypeAlias = "Expr | InputValue | FoldedValue | UnwrittenValue"
Pieces: TypeAlias = "tuple[tuple[Term, isl.Map], ...]"
"""Terms, each with the relation from the reader's instances to the term's own."""


@dataclass(eq=False)
class Flow:
    """The dataflow of `func`; `prefix` tells its sets from those of another Func."""

    func: Func
    prefix: str
    sites: dict[tuple[str, bool], Site] = field(default_factory=dict[tuple[str, bool], Site])
    known: dict[tuple[object, ...], Pieces] = field(default_factory=dict["tuple[object, ...]", "Pieces"])
    depth: int = 0
    relations: dict[tuple[str, str], isl.Map] = field(default_factory=dict["tuple[str, str]", isl.Map])
    """By a site and the text of what it is related to: reading text takes as long as most questions."""
    found: dict[tuple[str, Load], LastWrites] = field(default_factory=dict["tuple[str, Load]", "LastWrites"])
    """By a site and what it reads."""

    def __post_init__(self) -> None:
        if any(isinstance(s, InstrCall | Kernel) for s in statements(self.func.body)):
            raise Unanalyzable("what instructions that were lowered write is not looked at")
        found = statements_of(self.func)
        self.depth = 2 + max((len(s.when) for s in found), default=0)
        for n, s in enumerate(found):
            self.sites[s.key] = self._site(n, s)
        for site in self.sites.values():
            self._require_lanes_apart(site)

    # ------------------------------------------------------------ sets and relations as text

    @property
    def params(self) -> str:
        return f"[{', '.join(f'n_{n}' for n in self.func.sizes)}]"

    def _site(self, n: int, s: Statement) -> Site:
        if s.maybe:
            raise Unanalyzable(f"whether {s.label} runs is read from memory")
        names = self.names(s.dims)
        conds = [
            f"0 <= {names[v]} and {names[v]} < {_index(x, names)}" for v, x in zip(s.dims, s.extents, strict=True) if x
        ]
        conds += [_cond(c, names) for c in s.conds]
        name = f"{self.prefix}{n}"
        vectors = [x for x in s.loops if x.kind == "vectorize"]
        lanes = {x.var for x in vectors if not is_vector_reduction(x)}  # a statement runs in all of them at a time
        time = tuple(str(x) if isinstance(x, int) else names[x] for x in s.when if x not in lanes)
        private = {a.buffer: a.private for a in s.accesses}
        return Site(name, s.name, s.dims, self.set(name, len(s.dims), conds), time, private, s)

    def _require_lanes_apart(self, site: Site) -> None:
        """Raise Unanalyzable if lanes of `site` may write one element at a time: which of them is last is not said."""
        assert site.statement is not None
        if not any(x.kind == "vectorize" for x in site.statement.loops):
            return
        stmt, when = site.statement.place.stmt, self.time(site, 1)
        for b in stmt.buffers:
            if not when.range_product(self.element(site, b, stmt.at)).is_injective():
                raise Unanalyzable(f"several lanes of {site.label} write one element of {b.name} at a time")

    def shape(self, b: Buffer) -> isl.Set:
        """The elements of an argument, for all sizes."""
        names = self.names(())
        return self.set("", len(b.shape), [f"0 <= i{n} < {_index(d, names)}" for n, d in enumerate(b.shape)])

    def output(self, b: Buffer) -> Expr:
        """What the caller finds in `b` at the end, element by element."""
        loops = tuple(f"d{n}" for n in range(len(b.shape)))
        names = self.names(loops)
        conds = [f"0 <= {names[v]} and {names[v]} < {_index(d, names)}" for v, d in zip(loops, b.shape, strict=True)]
        name = f"{self.prefix}_{b.name}"
        site = Site(name, f"output {b.name}", loops, self.set(name, len(loops), conds), (str(END),), {})
        return Expr(site, Load(b, tuple(map(Var, loops))))

    def names(self, loops: Sequence[str]) -> dict[str, str]:
        return {n: f"n_{n}" for n in self.func.sizes} | {v: f"i{k}" for k, v in enumerate(loops)}

    def set(self, name: str, dims: int, conds: Iterable[str]) -> isl.Set:
        sizes = {n: f"n_{n}" for n in self.func.sizes}
        given = [f"0 <= {v}" for v in sizes.values()] + [_cond(c, sizes) for c in self.func.assumes]
        return read_set(f"{self.params} -> {{ {name}{_tuple(dims)} : {' and '.join(['0 = 0', *given, *conds])} }}")

    def map(self, site: Site, to: str) -> isl.Map:
        """The relation from an instance of `site` to what `to` says of `i0`, `i1` ..."""
        found = self.relations.get((site.name, to))
        if found is None:
            text_ = f"{self.params} -> {{ {site.name}{_tuple(len(site.loops))} -> {to} }}"
            found = self.relations[site.name, to] = read_map(text_).intersect_domain(site.domain)
        return found

    def element(self, site: Site, b: Buffer, at: Sequence[Index]) -> isl.Map:
        names = self.names(site.loops)
        outer = [names[v] for v in site.private.get(b.name, ())]
        return self.map(site, f"{self.prefix}b_{b.name}[{', '.join([*outer, *(_index(x, names) for x in at)])}]")

    def time(self, site: Site, last: int) -> isl.Map:
        return self.map(site, f"[{', '.join([*site.time, *['0'] * (self.depth - len(site.time)), str(last)])}]")

    def number(self, site: Site, ix: Index) -> isl.Map:
        return self.map(site, f"[{_index(ix, self.names(site.loops))}]")

    def where(self, site: Site, c: Cond) -> isl.Set:
        """The instances in which `c` holds."""
        held = f"{site.name}{_tuple(len(site.loops))} : {_cond(c, self.names(site.loops))}"
        return read_set(f"{self.params} -> {{ {held} }}").intersect(site.domain)

    def outside(self, only: Collection[str] | None = None) -> str | None:
        """An access that may leave its buffer, in words; of the buffers `only` alone, if they are given."""
        buffers = {b.name: b for b in nodes(self.func) if isinstance(b, Buffer)}
        for site in self.sites.values():
            assert site.statement is not None
            for a in site.statement.accesses:
                if only is not None and a.buffer not in only:
                    continue
                at = [x for x in a.at if x is not None]
                if len(at) < len(a.at):
                    return f"where {site.label} touches {a.buffer} is read from memory"
                given = reduce(isl.Set.intersect, (self.where(site, c) for c in a.conds), site.domain)
                names = self.names(site.loops)
                touched = self.map(site, f"[{', '.join(_index(x, names) for x in at)}]").intersect_domain(given)
                dims = [f"0 <= i{d} < {_index(size, names)}" for d, size in enumerate(buffers[a.buffer].shape)]
                if not touched.range().is_subset(self.set("", len(dims), dims)):
                    return f"{site.label} may leave {a.buffer}"
        return None

    # ------------------------------------------------------------ who wrote it

    def pieces(self, site: Site, load: Load) -> Pieces:
        """Where the value of `load` comes from: terms for disjoint parts of the instances of `site`."""
        key = (site.name, load)
        if key not in self.known:
            self.known[key] = self._pieces(site, load, key)
        return self.known[key]

    def sources(self, site: Site, load: Load) -> LastWrites:
        """The last writes of what instances of `site` load."""
        key = site.name, load
        if key not in self.found:
            reads = self.element(site, load.buffer, load.at)
            self.found[key] = self.last_writes(site, reads, self.writes(load.buffer.name))
        return self.found[key]

    def writes(self, b: str) -> list[WriteSite]:
        out: list[WriteSite] = []
        for site in self.sites.values():
            assert site.statement is not None
            stmt = site.statement.place.stmt
            for buffer in stmt.buffers:
                if buffer.name == b:
                    out.append((site, stmt, self.element(site, buffer, stmt.at)))
        return out

    def _pieces(self, site: Site, load: Load, key: tuple[object, ...]) -> Pieces:
        b, reads = load.buffer, self.element(site, load.buffer, load.at)
        found, rest = self.sources(site, load)
        out: list[tuple[Term, isl.Map]] = []
        folds: dict[str, isl.Set] = {}
        for (writer, stmt, _), source in found:
            if _is_fold(stmt, writer):
                where = source.domain()
                held = folds.get(stmt.monoid.name)
                folds[stmt.monoid.name] = where if held is None else held.union(where)
            else:
                out.append((Expr(writer, _stored(stmt, b.name)), source))
        for name, where in folds.items():
            chain = self._folded(site, b, reads.intersect_domain(where), name, (*key, name))
            out.append((chain, where.identity()))
        return (*out, *self._first(b, rest))

    def _first(self, b: Buffer, rest: isl.Map) -> Pieces:
        """What is read where nothing has been written: the caller's array, or nothing."""
        if rest.is_empty():
            return ()
        given = any(a.buffer.name == b.name and a.access != "out" for a in self.func.args)
        if given:
            return ((InputValue(b.name), rest.set_tuple_name(isl.dim_type.out, b.name)),)
        return ((UnwrittenValue(), rest.domain().identity()),)

    def last_writes(self, site: Site, reads: isl.Map, writes: Sequence[WriteSite]) -> LastWrites:
        """For each of `writes` the instances that wrote last before the reader; and the reads that none precedes."""
        reader = f"{site.name}_reads"
        sink = reads.set_tuple_name(isl.dim_type.in_, reader)
        times = isl.UnionMap.from_map(self.time(site, 0).set_tuple_name(isl.dim_type.in_, reader))
        sources = isl.UnionMap.from_map(sink.subtract(sink))
        for writer, _, element in writes:
            times = times.union(isl.UnionMap.from_map(self.time(writer, 1)))
            sources = sources.union(isl.UnionMap.from_map(element))
        access = isl.UnionAccessInfo.from_sink(isl.UnionMap.from_map(sink)).set_must_source(sources)
        flow = access.set_schedule_map(times).compute_flow()
        by_name = {m.get_tuple_name(isl.dim_type.in_): m for m in _maps(flow.get_must_dependence())}
        found = [
            (w, by_name[w[0].name].reverse().set_tuple_name(isl.dim_type.in_, site.name))
            for w in writes
            if w[0].name in by_name
        ]
        rest = [m.set_tuple_name(isl.dim_type.in_, site.name) for m in _maps(flow.get_must_no_source())]
        none = rest[0] if rest else reads.subtract(reads)
        seen = reduce(isl.Set.union, (m.domain() for _, m in found), none.domain())
        if not seen.is_equal(reads.domain()):  # isl loses some where elements are remainders, as i % 2 * 3 is
            return self._latest_writes(site, reads, writes)
        return found, none

    def _latest_writes(self, site: Site, reads: isl.Map, writes: Sequence[WriteSite]) -> LastWrites:
        """As `last_writes`, by the largest of the times of all writes before each read."""
        now = self.time(site, 0)
        before = [
            (w, both)
            for w in writes
            if not (both := reads.apply_range(w[2].reverse()).intersect(now.lex_gt_map(self.time(w[0], 1)))).is_empty()
        ]
        if not before:
            return [], reads
        whens = [both.apply_range(self.time(w[0], 1)) for w, both in before]
        last = reduce(isl.Map.union, whens).lexmax()
        found = [(w, both.intersect(last.apply_range(self.time(w[0], 1).reverse()))) for w, both in before]
        return [(w, m) for w, m in found if not m.is_empty()], reads.subtract_domain(last.domain())

    def _folded(self, site: Site, b: Buffer, reads: isl.Map, monoid: str, key: tuple[object, ...]) -> FoldedValue:
        """The folds by `monoid` that a reader sees: those after whatever else was last written to the element."""
        writes = self.writes(b.name)
        mine = [(w, s, e) for w, s, e in writes if isinstance(s, Reduce) and s.monoid.name == monoid and not _starts(w)]
        others = [x for x in writes if not any(x[0] is w for w, _, _ in mine)]
        found, rest = self.last_writes(site, reads, others)
        base: list[tuple[Term, isl.Map]] = [*self._first(b, rest)]
        when: isl.Map | None = None
        for (writer, stmt, _), source in found:
            if _is_fold(stmt, writer):
                raise Unanalyzable(f"{b.name} is folded into by {monoid} and by {stmt.monoid.name} in turn")
            base.append((Expr(writer, _stored(stmt, b.name)), source))
            at = source.apply_range(self.time(writer, 1))
            when = at if when is None else when.union(at)
        now = self.time(site, 0).intersect_domain(reads.domain())
        parts: list[tuple[Site, Reduce, isl.Map]] = []
        for writer, stmt, element in mine:
            mine_at = self.time(writer, 1)
            same = reads.apply_range(element.reverse())
            seen = same.intersect(now.lex_gt_map(mine_at))
            if when is not None:
                seen = seen.subtract(when.lex_gt_map(mine_at))
            if not seen.is_empty():
                parts.append((writer, stmt, seen))
        first = parts[0][1]
        component = [x.name for x in first.buffers].index(b.name)
        beside = tuple(self._beside(b, x, parts) for x in first.buffers if x.name != b.name)
        return FoldedValue(key, first.monoid, component, tuple(base), tuple(parts), reads.domain(), beside)

    def _beside(self, b: Buffer, other: Buffer, parts: Sequence[tuple[Site, Reduce, isl.Map]]) -> Pieces:
        """What `other` held before the first of the folds `parts` into it and `b`; between them nothing else writes it.

        Each fold goes on from one and the same fold in both: the last of those before it.
        """
        out: list[tuple[Term, isl.Map]] = []
        for writer, stmt, seen in parts:
            if stmt.buffers != parts[0][1].buffers:
                raise Unanalyzable(f"{b.name} is folded into beside one buffer and beside another")
            elements = (self.element(writer, x, stmt.at).intersect_domain(seen.range()) for x in (b, other))
            (mine, _), (theirs, rest) = (
                self.last_writes(writer, e, self.writes(x.name)) for e, x in zip(elements, (b, other), strict=True)
            )
            if not _same_folds(mine, theirs):
                raise Unanalyzable(f"{b.name} and {other.name} are not folded into together throughout")
            base = [(Expr(w, _stored(s, other.name)), m) for (w, s, _), m in theirs if not _is_fold(s, w)]
            out += [(term, seen.apply_range(m)) for term, m in (*base, *self._first(other, rest))]
        return tuple(out)


WriteSite: TypeAlias = "tuple[Site, Store | Reduce, isl.Map]"
"""A statement that writes a buffer, and which element each instance of it writes."""
LastWrite: TypeAlias = "tuple[WriteSite, isl.Map]"
"""A statement that writes, and which instance of it the value of each reader comes from."""
LastWrites: TypeAlias = "tuple[list[LastWrite], isl.Map]"
"""All of them, and the reads that nothing was written before."""
Sources: TypeAlias = "Sequence[LastWrite]"


def _same_folds(one: Sources, other: Sources) -> bool:
    """Whether both come from the same instances of folds, where they come from folds."""
    a, b = ({w.name: m for (w, s, _), m in x if _is_fold(s, w)} for x in (one, other))
    return a.keys() == b.keys() and all(a[n].is_equal(b[n]) for n in a)


def _is_fold(stmt: Store | Reduce, site: Site) -> TypeGuard[Reduce]:
    return isinstance(stmt, Reduce) and not _starts(site)


def _starts(site: Site) -> bool:
    """Whether a site is the initial stores of a reduction."""
    return site.statement is not None and site.statement.init


def _stored(stmt: Store | Reduce, b: str) -> Value:
    if isinstance(stmt, Store):
        return stmt.value
    assert stmt.init is not None
    return stmt.init[[x.name for x in stmt.buffers].index(b)]


def _maps(union: isl.UnionMap) -> list[isl.Map]:
    out: list[isl.Map] = []
    union.foreach_map(out.append)
    return [m for m in out if not m.is_empty()]


def _tuple(dims: int) -> str:
    return f"[{', '.join(f'i{n}' for n in range(dims))}]"


# ---------------------------------------------------------------- indices and conditions


def _index(ix: Index, names: Mapping[str, str]) -> str:
    match ix:
        case Int(value):
            return f"({value})"
        case Var(name):
            return names[name]
        case Add(a, b):
            return f"({_index(a, names)} + {_index(b, names)})"
        case Mul(a, Int(c)) | Mul(Int(c), a):
            return f"({c} * {_index(a, names)})"
        case FloorDiv(a, Int(c)):
            return f"floor(({_index(a, names)}) / {c})"
        case Mod(a, Int(c)):
            return f"(({_index(a, names)}) mod {c})"
        case Min(a, b) | Max(a, b):
            return f"{'min' if isinstance(ix, Min) else 'max'}({_index(a, names)}, {_index(b, names)})"
        case _:
            raise Unanalyzable(f"{text(ix)} is no affine index")


def _cond(c: Cond, names: Mapping[str, str]) -> str:
    match c:
        case And(terms):
            return f"({' and '.join(_cond(t, names) for t in terms) or '0 = 0'})"
        case Or(terms):
            return f"({' or '.join(_cond(t, names) for t in terms) or '0 = 1'})"
        case Not(term):
            return f"(not {_cond(term, names)})"
        case Cmp(op, a, b):
            return f"({_index(a, names)} {'=' if op == '==' else op} {_index(b, names)})"
        case _:
            raise Unanalyzable(f"the condition {text(c)} is read from memory")
