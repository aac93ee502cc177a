"""Bounds inference: prove every access inside its buffer, for all sizes that the Func assumes, or find the least
outside.

Indices read from memory (a gather, a data-dependent bound) are not known here: `find_out_of_bounds` skips them, and
`unproved_accesses` returns them. The interpreter checks them as the nest runs, and lowering inserts checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from loopir.analysis.dependence.access import Access, Statement, guarded_loads, is_affine_visible, statements_of
from loopir.analysis.dependence.depend import SIZE, Instances, domain
from loopir.analysis.presburger.constraints import ConstraintSystem, combine
from loopir.arith.poly import constant_part, constant_poly, exact_quotient, expand_index, poly_add, to_index
from loopir.arith.rules import within
from loopir.arith.simplify import Context, nonnegative, poly, simplify_cond
from loopir.ir.grammar import (
    TRUE,
    Alloc,
    And,
    Body,
    Buffer,
    Cast,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    If,
    Index,
    IndexToValue,
    Int,
    Load,
    Loop,
    Mod,
    Mul,
    Node,
    Not,
    Or,
    Prefetch,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
    ValueToIndex,
    Var,
    conjuncts,
)
from loopir.ir.layout.layouts import evaluate, evaluated
from loopir.ir.magnitude import compared, limit, range_checked
from loopir.ir.traverse.walk import accessed_buffers, bodies, children, nodes


@dataclass(frozen=True, slots=True)
class OutOfBoundsAccess:
    """An access outside its buffer: the statement, its iteration, the element it touches, and the sizes."""

    statement: str
    iteration: dict[str, int]
    buffer: str
    element: tuple[int, ...]
    shape: tuple[int, ...]
    sizes: dict[str, int]

    def __str__(self) -> str:
        at = ", ".join(f"{k}={v}" for k, v in self.iteration.items())
        sizes = "" if not self.sizes else f" (at {', '.join(f'{k}={v}' for k, v in self.sizes.items())})"
        element = ", ".join(map(str, self.element))
        return f"{self.statement} at ({at}) touches {self.buffer}[{element}], and its shape is {self.shape}{sizes}"


def find_out_of_bounds(func: Func, label: str | None = None) -> OutOfBoundsAccess | None:
    """The first access, in textual order, that may leave its buffer, at the smallest sizes; None is a proof.

    With `label`, accesses of that statement alone.
    """
    buffers = {n.name: n for n in nodes(func) if isinstance(n, Buffer)}
    for s in statements_of(func):
        if label is not None and s.label != label:
            continue
        for access in s.accesses:
            found = _leaves(func, s, access, buffers[access.buffer])
            if found is not None:
                return found
    return None


def positive_divisors(indices: Iterable[Node]) -> list[Cond]:
    """What has to hold for `indices` to be numbers: that each divisor in them is 1 or more, those inside others first.

    What is proved of a quotient or a remainder takes that for granted."""
    parts = reversed([x for at in indices for x in nodes(at)])
    return [Cmp("<=", Int(1), x.b) for x in parts if isinstance(x, FloorDiv | Mod)]


def _leaves(func: Func, s: Statement, access: Access, b: Buffer) -> OutOfBoundsAccess | None:
    known = _where(func, s, access)
    spans = dict(zip(s.dims, s.extents, strict=True))
    for ix, size in zip(access.at, b.shape, strict=True):
        if ix is None or (isinstance(ix, Var) and spans.get(ix.name) == size):
            continue
        if within(poly(ix, known), poly(size, known), known):
            continue
        for below in (True, False):
            found = _least(func, s, access, ix, size, below)
            if found is not None and None not in access.at:
                return _describe_access(func, s, access, b, found)
    return None


def _where(func: Func, s: Statement, access: Access) -> Context:
    """What is known where `s` does `access`."""
    known = Context.of(func)
    for v, extent in zip(s.dims, s.extents, strict=True):
        known = known if extent is None else known.loop(v, extent)
    return known.inside(*s.conds, *access.conds)


def _least(func: Func, s: Statement, access: Access, ix: Index, size: Index, below: bool) -> dict[str, int] | None:
    """The least sizes and iteration at which `ix` is below 0, or not below `size`."""
    system, names = instance_of(func, s, access)
    at = system.linear(ix, "s", names)
    end = system.linear(size, "s", names)
    wrong = combine({"": -1}, at, -1) if below else combine(at, end, -1)
    return system.smallest([*(f"{SIZE}{n}" for n in func.sizes), *(f"s.{v}" for v in s.dims)], [(wrong, False)])


def instance_of(
    func: Func,
    s: Statement | Instances,
    access: Access | None,
    prefix: str = "s",
    system: ConstraintSystem | None = None,
) -> tuple[ConstraintSystem, dict[str, str | int]]:
    """An instance of `s` at any sizes, doing `access`: added to `system`, and the dimension of each variable."""
    system = ConstraintSystem() if system is None else system
    names: dict[str, str | int] = {n: f"{SIZE}{n}" for n in func.sizes}
    system.constraints += [({f"{SIZE}{n}": 1}, False) for n in func.sizes]
    for c in func.assumes:
        system.require(c, "n", names)
    names |= {v: f"{prefix}.{v}" for v in s.dims}
    domain(system, s, access, prefix, names)
    return system, names


def _describe_access(func: Func, s: Statement, access: Access, b: Buffer, point: dict[str, int]) -> OutOfBoundsAccess:
    sizes = {n: point[f"{SIZE}{n}"] for n in func.sizes}
    iteration = {v: point[f"s.{v}"] for v in s.dims}
    env = {**sizes, **iteration}
    element = evaluated(access.at, env) or ()
    shape = tuple(evaluate(d, sizes) for d in b.shape)
    return OutOfBoundsAccess(s.name, iteration, b.name, element, shape, sizes)


# ---------------------------------------------------------------- one subscript at a time


@dataclass(frozen=True, slots=True)
class Subscript:
    """Index `dim` of an access `buffer[at]`, which is done where `given` hold, tested in this order."""

    buffer: Buffer
    at: tuple[Index, ...]
    dim: int
    given: tuple[Cond, ...]
    write: bool = False

    @property
    def index(self) -> Index:
        return self.at[self.dim]

    @property
    def size(self) -> Index:
        return self.buffer.shape[self.dim]

    @property
    def ends(self) -> tuple[Cond, ...]:
        """The conditions under which the index is inside the buffer."""
        return Cmp("<=", Int(0), self.index), Cmp("<", self.index, self.size)


@dataclass(frozen=True, slots=True)
class Number:
    """A number from memory that an index computes with where `given` hold; `of` is the access it is a subscript of.

    Compiled code computes in 64 bits, so that a vast one may give an index that seems to be inside, or a wrong test.
    """

    index: ValueToIndex
    most: int
    given: tuple[Cond, ...]
    of: Subscript | None = None

    @property
    def size(self) -> Index:
        return Int(self.most)

    @property
    def ends(self) -> tuple[Cond, ...]:
        """What makes it one to compute with."""
        return Cmp("<=", Int(-self.most), self.index), Cmp("<", self.index, self.size)


@dataclass(frozen=True, slots=True)
class Divisor:
    """What `of` divides by, where `given` hold: it has to be positive, and proofs take it to be."""

    of: FloorDiv | Mod
    given: tuple[Cond, ...]

    @property
    def index(self) -> Index:
        return self.of.b

    @property
    def ends(self) -> tuple[Cond, ...]:
        return (Cmp("<=", Int(1), self.of.b),)


Check: TypeAlias = "Subscript | Number | Divisor"
"""What has to be in some range where a statement is run."""


@dataclass(frozen=True, slots=True)
class BoundsContext:
    """What is known at a statement of `func`, as a context for simplification and as what stands around it."""

    func: Func
    context: Context
    loops: tuple[Loop, ...] = ()
    conds: tuple[Cond, ...] = ()

    @staticmethod
    def top(func: Func) -> BoundsContext:
        return BoundsContext(func, Context.of(func))

    def loop(self, s: Loop) -> BoundsContext:
        return BoundsContext(self.func, self.context.loop(s.var, s.extent), (*self.loops, s), self.conds)

    def inside(self, c: Cond) -> BoundsContext:
        seen = (t for t in conjuncts(c) if is_affine_visible(t))
        return BoundsContext(self.func, self.context.inside(c), self.loops, (*self.conds, *seen))

    def proves(self, ends: Iterable[Cond]) -> bool:
        """Whether `ends` hold without what is given at an access, of which there may be much."""
        spans = {(s.var, s.extent) for s in self.loops}
        return all(
            (isinstance(end, Cmp) and end.op == "<" and isinstance(end.a, Var) and (end.a.name, end.b) in spans)
            or simplify_cond(end, self.context) == TRUE
            for end in ends
        )

    def unproved(self, x: Check) -> tuple[Cond, ...]:
        """The ends of `x` that are not proved to hold."""
        context = self.context.given(*x.given)
        if isinstance(x, Divisor) and self._counted(x.index, context):
            return ()
        spans = {Cmp("<", Var(s.var), s.extent) for s in self.loops}
        open_ends = (end for end in x.ends if end not in spans and not _holds_by_type(end))
        ends = [end for end in open_ends if simplify_cond(end, context) != TRUE]
        return tuple(end for end in ends if not self._solved(x, end))

    def holds(self, found: Iterable[Into]) -> bool:
        """Whether all of `found` are inside, seen without the solver: of those a constant apart, from two of them."""
        far: dict[tuple[int, Index, tuple[Cond, ...]], tuple[Index, list[int]]] = {}
        for b, at, given, _ in found:
            for d, ix in enumerate(at):
                if not is_affine_visible(ix):
                    return False
                alike, more = constant_part(ix)
                far.setdefault((d, alike, given), (b.shape[d], []))[1].append(more)
        return all(
            nonnegative(poly_add(expand_index(alike), constant_poly(min(ahead))), known)
            and nonnegative(
                poly_add(poly_add(expand_index(size), expand_index(alike), -1), constant_poly(-1 - max(ahead))), known
            )
            for (_, alike, given), (size, ahead) in far.items()
            for known in (self.context.given(*given),)
        )

    def _counted(self, divisor: Index, context: Context) -> bool:
        """Whether something counts up to a product of this, a loop or what a guard tests: then no factor of it is 0,
        and both are positive if one is not negative, as `n` is of `n * n - n` where this is `n - 1`."""
        zero, by = Int(0), expand_index(divisor)

        def known(low: Index) -> bool:
            return simplify_cond(Cmp("<=", zero, low), context) == TRUE

        def is_factor(most: Index) -> bool:
            rest = exact_quotient(expand_index(most), by) if by else None
            return rest is not None and (known(divisor) or known(to_index(rest)))

        below = [
            (c.a if c.op == "<" else c.a - 1, c.b) for c in self.conds if isinstance(c, Cmp) and c.op in ("<", "<=")
        ]
        below += [(zero, s.extent) for s in self.loops]
        return any(is_factor(most) and known(low) for low, most in below)

    def _factors(self) -> Iterator[Cond]:
        """Of a loop's length that is a product, which the solver takes for a number: in an iteration no factor is 0."""
        pending: list[Index] = [s.extent for s in self.loops if isinstance(s.extent, Mul)]
        while pending:
            product = pending.pop()
            factors = (product.a, product.b) if isinstance(product, Mul) else ()
            for factor in factors:
                if not isinstance(factor, Int) and simplify_cond(Cmp("<=", Int(0), factor), self.context) == TRUE:
                    pending.append(factor)
                    yield Cmp("<=", Int(1), factor)

    def _solved(self, x: Check, end: Cond) -> bool:
        """Whether integer sets show that `end` holds in every iteration."""
        if isinstance(x.index, ValueToIndex):
            return False
        extents = tuple(s.extent if is_affine_visible(s.extent) else None for s in self.loops)
        s = Instances(tuple(s.var for s in self.loops), extents, (*self.conds, *self._factors()))
        at = x.at if isinstance(x, Subscript) else (x.index,)
        access = Access("", at, False, tuple(c for c in x.given if is_affine_visible(c)), ())
        system, names = instance_of(self.func, s, access)
        (wrong,) = system.dnf(Not(end), "s", names)
        return not system.possible([*(f"{SIZE}{n}" for n in self.func.sizes), *(f"s.{v}" for v in s.dims)], wrong)


def _holds_by_type(end: Cond) -> bool:
    """Whether no number of its type fails `end`, the comparison of a value from memory with a constant."""
    match end:
        case Cmp("<=", Int(low), ValueToIndex(value)):
            found = _range_of(value)
            return found is not None and low <= found[0]
        case Cmp("<", ValueToIndex(value), Int(size)):
            found = _range_of(value)
            return found is not None and found[1] < size
        case _:
            return False


def _range_of(value: Value) -> tuple[int, int] | None:
    """The least and the largest number that an integer `value` may be, by its type and what it is converted from."""
    t = value.dtype
    if not t.is_integer:
        return None
    if isinstance(value, Cast) and (inner := _range_of(value.value)) is not None and all(map(t.holds, inner)):
        return inner
    return int(t.least), int(t.greatest)


def unproved_accesses(func: Func, of: str | None = None) -> Iterator[tuple[Stmt, Check, tuple[Cond, ...]]]:
    """Each statement's subscripts and divisors that may be wrong, no two alike, with the ends that are not proved.

    Those of all buffers, or subscripts `of` one.
    """
    return _unproved(func.body, BoundsContext.top(func), of)


def _unproved(body: Body, here: BoundsContext, of: str | None) -> Iterator[tuple[Stmt, Check, tuple[Cond, ...]]]:
    for s in body:
        if of is not None and of not in accessed_buffers(s):
            continue
        anyway: dict[tuple[Cond, ...], bool] = {}
        seen: set[tuple[Cond, ...]] = set()
        for x in subscripts(s) if of is None else _not_inside(s, of, here):
            ends = x.ends
            if ends not in anyway:
                anyway[ends] = here.proves(ends)
            if anyway[ends] or (key := (*ends, *x.given)) in seen:
                continue
            seen.add(key)
            if wrong := here.unproved(x):
                yield s, x, wrong
        inner = here.loop(s) if isinstance(s, Loop) else here
        for side, part in enumerate(bodies(s)):
            within = inner.inside(Not(s.cond) if side else s.cond) if isinstance(s, If) else inner
            yield from _unproved(part, within, of)


def subscripts(s: Stmt) -> Iterator[Check]:
    """Every index into a buffer and every divisor that `s` uses itself (not what is in it), in order of evaluation."""
    match s:
        case Store(_, buffer, at, value):
            yield from _read((*at, value), ())
            yield from _dims(buffer, at, (), write=True)
        case Reduce():
            yield from _read((*s.at, *s.values, *(s.init or ())), ())
            for b in s.buffers:
                yield from _dims(b, s.at, (), write=True)
        case Loop(extent=extent):
            yield from _read((extent,), ())
            yield from (Number(part, limit(extent), ()) for part in range_checked(extent))
        case If(cond):
            yield from _read((cond,), ())
        case _:
            pass


def _not_inside(s: Stmt, buffer: str, here: BoundsContext) -> Iterator[Check]:
    """Those of `subscripts` that are into `buffer`; none if all are seen to be inside."""
    into = [*_into(s, buffer)]
    for b, at, given, write in () if here.holds(into) else into:
        yield from _dims(b, at, given, write=write)


Into = tuple[Buffer, tuple[Index, ...], tuple[Cond, ...], bool]
"""An access: the element, the conditions under which it is done, and whether it is a write."""


def _into(s: Stmt, buffer: str) -> Iterator[Into]:
    """What `s` itself accesses of `buffer`."""
    if isinstance(s, Prefetch | Alloc):
        return
    for n in (s,) if isinstance(s, Store) else [x for x in children(s) if not isinstance(x, Stmt)]:
        for load, given in guarded_loads(n):
            if load.buffer.name == buffer:
                yield load.buffer, load.at, given, False
    if isinstance(s, Store | Reduce):
        for b in s.buffers:
            if b.name == buffer:
                yield b, s.at, (), True


def _read(parts: tuple[Node, ...], given: tuple[Cond, ...]) -> Iterator[Check]:
    for n in parts:
        match n:
            case Load(buffer, at):
                yield from _read(at, given)
                yield from _dims(buffer, at, given)
            case Select(c, a, b):
                yield from _read((c,), given)
                yield from _read((a,), (*given, *conjuncts(c)))
                yield from _read((b,), (*given, Not(c)))
            case And(terms) | Or(terms):
                for k, t in enumerate(terms):
                    yield from _read((t,), (*given, *(u if isinstance(n, And) else Not(u) for u in terms[:k])))
            case FloorDiv(a, b) | Mod(a, b):
                yield from _read((a, b), given)
                if not isinstance(b, Int):
                    yield Divisor(n, given)
            case Cmp(_, a, b) if not is_affine_visible(n):
                yield from _read((a, b), given)
                yield from (Number(part, most, given) for part, most in compared(a, b))
            case IndexToValue(Index() as ix) if not is_affine_visible(ix):
                yield from _read((ix,), given)
                yield from (Number(part, limit(ix), given) for part in range_checked(ix, exact=True))
            case Buffer():
                pass
            case _:
                yield from _read(tuple(children(n)), given)


def _dims(
    b: Buffer, at: tuple[Index, ...], given: tuple[Cond, ...], *, write: bool = False
) -> Iterator[Subscript | Number]:
    for d, ix in enumerate(at):
        x = Subscript(b, at, d, given, write)
        yield from (Number(part, limit(ix), given, x) for part in range_checked(ix))
        yield x
