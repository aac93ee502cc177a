"""Compare two Funcs that differ in where elements of some buffers lie: does every read see the same write?

Statements, iterations and their order are the same in both, so that values are the same, by induction over time, if
each read of such a buffer has the same last write, those in subscripts included. Reads of other buffers are not looked
at: what is written to these, and when, is no other. This asks isl a few times for each read of such a buffer, where a
proof asks about all values.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loopir.analysis.dataflow.value_flow import Flow, LastWrites, Site
from loopir.analysis.presburger.solver import isl
from loopir.ir.grammar import Buffer, Load, Node, Reduce, Store, Value
from loopir.ir.traverse.rebuild import nodes, transform


def same_sources(one: Flow, other: Flow) -> bool:
    """Whether the two differ in the places of elements alone, and each read has the same last write in both; False
    where that is not shown. Raises Unanalyzable where the places are not affine."""
    pairs = list(zip(one.sites.values(), other.sites.values(), strict=False))
    if len(one.sites) != len(other.sites) or not all(_same_instances(a, b) for a, b in pairs):
        return False
    moved = _moved_buffers(pairs)
    if moved is None or any(p.buffer.name in moved for f in (one, other) for p in f.func.args):
        return False
    if other.outside(moved) is not None:
        return False
    return all(
        _same_writes(a, one.sources(a, x), other.sources(b, y))
        for a, b in pairs
        for x, y in zip(_elements_read(a), _elements_read(b), strict=True)
        if x.buffer.name in moved
    )


def _same_instances(a: Site, b: Site) -> bool:
    """Whether the two statements run for the same iterations, at the same times."""
    s, t = a.statement, b.statement
    assert s is not None
    assert t is not None
    same = (s.key, s.dims, s.extents, s.conds) == (t.key, t.dims, t.extents, t.conds)
    return same and (a.time, a.private) == (b.time, b.private)


def _moved_buffers(pairs: Iterable[tuple[Site, Site]]) -> frozenset[str] | None:
    """The buffers whose elements lie elsewhere; None where statements differ in something else."""
    moved = set[str]()
    for a, b in pairs:
        s, t = _statement(a), _statement(b)
        if [x.name for x in s.buffers] != [x.name for x in t.buffers] or not _same_operations(a, b):
            return None
        if [x.buffer.name for x in _elements_read(a)] != [x.buffer.name for x in _elements_read(b)]:
            return None
        if s.at != t.at:
            moved.update(x.name for x in s.buffers)
        moved.update(x.buffer.name for x, y in zip(_elements_read(a), _elements_read(b), strict=True) if x.at != y.at)
    return frozenset(moved)


def _same_operations(a: Site, b: Site) -> bool:
    """Whether two statements do the same with elements of the same buffers, wherever these lie."""
    s, t = _statement(a), _statement(b)
    if isinstance(s, Reduce) and isinstance(t, Reduce):
        if (s.monoid, s.over) != (t.monoid, t.over):
            return False
    elif type(s) is not type(t):
        return False
    mine, theirs = _values_of_site(a), _values_of_site(b)
    return len(mine) == len(theirs) and all(
        _without_places(v) == _without_places(w) for v, w in zip(mine, theirs, strict=True)
    )


def _without_places(value: Value) -> Value:
    """`value` with each element told by its buffer alone."""

    def bare(n: Node) -> Node:
        return Load(Buffer(n.buffer.name, (), n.buffer.dtype, n.buffer.scope), ()) if isinstance(n, Load) else n

    return transform(value, bare)


def _statement(site: Site) -> Store | Reduce:
    assert site.statement is not None
    return site.statement.place.stmt


def _values_of_site(site: Site) -> tuple[Value, ...]:
    """What instances of `site` compute."""
    stmt = _statement(site)
    if isinstance(stmt, Store):
        return (stmt.value,)
    assert site.statement is not None
    return tuple(stmt.init or ()) if site.statement.init else tuple(stmt.values)


def _elements_read(site: Site) -> list[Load]:
    """The elements that instances of `site` read, also to find others; a fold reads those that it goes on from, too."""
    stmt = _statement(site)
    found = [x for v in (*_values_of_site(site), *stmt.at) for x in _loads(v)]
    assert site.statement is not None
    folds = isinstance(stmt, Reduce) and not site.statement.init
    return [*found, *(Load(b, stmt.at) for b in stmt.buffers)] if folds else found


def _loads(value: Node) -> Iterator[Load]:
    return (x for x in nodes(value) if isinstance(x, Load))


def _same_writes(a: Site, one: LastWrites, other: LastWrites) -> bool:
    """Whether what instances of `a` read, and those of its like, comes from the same instances of statements."""
    mine, theirs = ({_statement_key(w): (w, m) for (w, _, _), m in found} for found, _ in (one, other))
    if mine.keys() != theirs.keys():
        return False
    return all(
        m.is_equal(theirs[key][1].set_tuple_name(isl.dim_type.in_, a.name).set_tuple_name(isl.dim_type.out, w.name))
        for key, (w, m) in mine.items()
    )


def _statement_key(site: Site) -> tuple[str, bool]:
    assert site.statement is not None
    return site.statement.key
