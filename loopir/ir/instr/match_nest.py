"""Match a nest against the meaning of an instruction; find its operands.

The nest and the meaning are unified: they need the same kind of statement, the same monoid, and the same tree of values
up to commuted operands; loops are paired by the accesses, whatever their names and order. The result is the operands:
for each parameter of the meaning a buffer, the element at which the operand starts, and the dimension of the buffer
that each of its dimensions runs along. Elements of an operand are contiguous; a stride of 2 does not match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import permutations

import numpy as np

from loopir.errors import MismatchError
from loopir.ir.grammar import (
    Add,
    Body,
    Buffer,
    Cast,
    Cond,
    Const,
    Fragment,
    Func,
    If,
    Index,
    IndexToValue,
    InstrRegion,
    Int,
    Layout,
    Load,
    Loop,
    Mul,
    Node,
    Op,
    Reduce,
    Select,
    Store,
    Value,
    Var,
    conj,
)
from loopir.ir.layout.layouts import fragment_elements
from loopir.ir.ops import MEMORIES, Instruction
from loopir.ir.printer import text
from loopir.ir.traverse.memo import cache_of
from loopir.ir.traverse.walk import free_vars, nodes, substitute


@dataclass(frozen=True, slots=True)
class Operand:
    """The part of `buffer` that a parameter of an instruction stands for: it starts at element `at`, and its
    dimension d runs along dimension `dims[d]` of the buffer."""

    buffer: Buffer
    at: tuple[Index, ...]
    dims: tuple[int, ...]


Tested = tuple[Cond, Buffer, tuple[Index, ...]]
"""A test, and the element that is accessed if it holds."""


@dataclass(frozen=True, slots=True)
class Match:
    """A successful match: the operand of each parameter of the meaning, and the loop of the nest for each of its loops.

    An element of an array with a tensor map may be loaded under a test, as 0 where that fails, or be stored under a
    test. Such tests are in `tested`, each with its access; the caller has to check that each tests whether the access
    is inside the array.
    """

    operands: dict[str, Operand]
    loops: dict[str, str]
    tested: dict[str, Tested] = field(default_factory=dict[str, "Tested"])


def match(do: InstrRegion, *, lowered: bool = False) -> Match:
    """Match the body of `do` against the meaning of its instruction. Raises MismatchError, a VerifyError, on failure.

    When `lowered`, a declared memory that has addresses counts as its backing scope. Matches are memoized.
    """
    known = cache_of(do)
    if (match, lowered) in known:
        return known[match, lowered]
    found = unify(do.fn, do.body)
    if isinstance(found, str):
        raise MismatchError(f"this is not what {do.fn.name} does: {found}")
    if (odd := misplaced_operand(do.fn, found, lowered)) is not None:
        raise MismatchError(f"{do.fn.name} cannot do this: {odd}")
    known[match, lowered] = found
    return found


def misplaced_operand(fn: Instruction, found: Match, lowered: bool = False) -> str | None:
    """The first operand that is not in the memory or layout that the instruction needs; None if all are."""
    for a in fn.meaning.args:
        p, b = a.buffer, found.operands[a.buffer.name].buffer
        memory_ = MEMORIES.get(p.scope)
        scope = memory_.like if lowered and memory_ is not None and not memory_.unit else p.scope
        if scope == "any" and b.scope in MEMORIES and MEMORIES[b.scope].unit:
            return f"its operand {p.name} has an address, and {b.name} is in {b.scope}, which have none"
        if scope not in ("any", b.scope):
            return f"its operand {p.name} is in {p.scope} memory, and {b.name} is in {b.scope} memory"
        if isinstance(p.layout, Fragment) and not (
            isinstance(b.layout, Fragment) and same_registers(p.layout, b.layout)
        ):
            return (
                f"the lanes hold {b.name} in another way than its operand {p.name}: "
                f"{register_mismatch(p.layout, b.layout)}"
            )
    return None


@lru_cache(maxsize=1024)
def same_registers(a: Fragment, b: Fragment) -> bool:
    """Whether the registers of the lanes hold the same elements."""
    return (a.lanes, a.registers) == (b.lanes, b.registers) and bool(
        (fragment_elements(a) == fragment_elements(b)).all()
    )


def register_mismatch(want: Fragment, have: Layout | None) -> str:
    """The first register that does not hold what it should."""
    if not isinstance(have, Fragment):
        return "it has no fragment layout"
    if (want.lanes, want.registers) != (have.lanes, have.registers):
        return f"{have.lanes} lanes of {have.registers} registers, and not {want.lanes} of {want.registers}"
    lane, register = (int(n) for n in np.argwhere((fragment_elements(want) != fragment_elements(have)).any(axis=-1))[0])
    held, wanted = (tuple(int(x) for x in fragment_elements(f)[lane, register]) for f in (have, want))
    return f"register {register} of lane {lane} holds {held}, and not {wanted}"


def unify(fn: Instruction, body: Body) -> Match | str:
    """The operands with which the meaning of `fn` equals `body`, or the reason why there are none."""
    loops, stmt = perfect_nest(fn.meaning.body)
    around, guards, inner = guarded_nest(body)
    clipped = fn.boxed is not None and isinstance(stmt, Store) and fn.boxed[0] == stmt.buffer.name
    if inner is None or stmt is None or (guards and not clipped):
        return f"it takes loops right inside one another, with one statement in them{' and no guard' if guards else ''}"
    if reason := _loops_mismatch(loops, around):
        return reason
    found: list[Match] = []
    reasons: list[tuple[int, str]] = []
    for order in permutations(around):
        if all(a.extent == b.extent for a, b in zip(loops, order, strict=True)):
            paired = {a.var: b.var for a, b in zip(loops, order, strict=True)}
            attempt = _Attempt(fn.meaning, paired, frozenset(fn.boxed[:1] if fn.boxed else ()), _of_one(order))
            if guards and fn.boxed and isinstance(inner, Store):
                attempt.tested[fn.boxed[0]] = (conj(*guards), inner.buffer, inner.at)
            found += [Match(operands, attempt.loops, attempt.tested) for operands in attempt.statement(stmt, inner)]
            reasons.append((attempt.reached, attempt.reason))
    if not found:
        return max(reasons)[1]
    return min(found, key=lambda m: sum(o.dims != tuple(sorted(o.dims)) for o in m.operands.values()))


def _of_one(loops: Sequence[Loop]) -> frozenset[str]:
    """Those that have one iteration."""
    return frozenset(x.var for x in loops if x.extent == Int(1))


def perfect_nest(body: Body) -> tuple[list[Loop], Store | Reduce | None]:
    """The loops of a perfect nest and the statement in it; None if it is no such nest."""
    loops, guards, stmt = guarded_nest(body)
    return loops, None if guards else stmt


def guarded_nest(body: Body) -> tuple[list[Loop], list[Cond], Store | Reduce | None]:
    """The loops and the guards of a nest of both, right inside one another, and the statement in it."""
    loops: list[Loop] = []
    guards: list[Cond] = []
    while len(body) == 1:
        only = body[0]
        if isinstance(only, Loop):
            loops.append(only)
            body = only.body
        elif isinstance(only, If) and not only.orelse:
            guards.append(only.cond)
            body = only.then
        else:
            return loops, guards, only if isinstance(only, Store | Reduce) else None
    return loops, guards, None


def _loops_mismatch(loops: Sequence[Loop], around: Sequence[Loop]) -> str:
    """Why the loops `around` cannot be those of a meaning, `loops`, in any order; empty if they can."""
    if odd := next((x for x in around if x.kind != "serial"), None):
        return f"loop {odd.var} is {odd.kind}, and its own are serial"
    want, have = (sorted(str(x.extent.value) if isinstance(x.extent, Int) else "?" for x in s) for s in (loops, around))
    return "" if want == have else f"its loops run {_extents(loops)} times, and here are {_extents(around)}"


def _extents(loops: Sequence[Loop]) -> str:
    told = (str(x.extent.value) if isinstance(x.extent, Int) else "(not constant)" for x in loops)
    return ", ".join(f"{x.var} {n}" for x, n in zip(loops, told, strict=True)) or "none"


def linear_coefficients(ix: Index, inner: Mapping[str, object]) -> tuple[dict[str, int], Index] | None:
    """Split `ix` into coefficients of the variables in `inner` and a remainder without them; None if not linear."""
    match ix:
        case Var(name) if name in inner:
            return {name: 1}, Int(0)
        case Add(a, b):
            x, y = linear_coefficients(a, inner), linear_coefficients(b, inner)
            if x is None or y is None:
                return None
            return {v: x[0].get(v, 0) + y[0].get(v, 0) for v in {**x[0], **y[0]}}, x[1] + y[1]
        case Mul(a, Int(c)) | Mul(Int(c), a) if free_vars(a) & inner.keys():
            x = linear_coefficients(a, inner)
            return None if x is None else ({v: k * c for v, k in x[0].items()}, x[1] * c)
        case _:
            return None if free_vars(ix) & inner.keys() else ({}, ix)


Bound = dict[str, Operand]


@dataclass
class _Attempt:
    """One pairing of loops. `reached` counts what agreed before `reason`, the first thing that did not."""

    meaning: Func
    loops: dict[str, str]
    boxed: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    """The loops of one iteration: an operand may move along any of its dimensions with these."""
    tested: dict[str, Tested] = field(default_factory=dict[str, "Tested"])
    reached: int = -1
    reason: str = ""
    inner: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.inner = {b: a for a, b in self.loops.items()}

    def no(self, bound: Bound, reason: str) -> Iterator[Bound]:
        if len(bound) > self.reached:
            self.reached, self.reason = len(bound), reason
        return iter(())

    def statement(self, m: Store | Reduce, s: Store | Reduce) -> Iterator[Bound]:
        if isinstance(m, Store) and isinstance(s, Store):
            targets, values = ((m.buffer, s.buffer),), ((m.value, s.value),)
        elif isinstance(m, Reduce) and isinstance(s, Reduce):
            if m.monoid != s.monoid or m.init is not None:
                return self.no({}, f"it folds by {m.monoid.name}, and {s.label} folds by {s.monoid.name}")
            if s.init is not None and set(s.over) <= self.inner.keys():
                return self.no({}, f"{s.label} starts anew inside it; split the loop it folds over, or decompose it")
            targets = tuple(zip(m.buffers, s.buffers, strict=True))
            values = tuple(zip(m.values, s.values, strict=True))
        else:
            what = "folds" if isinstance(m, Reduce) else "stores"
            return self.no({}, f"it {what}, and {s.label} {'stores' if isinstance(s, Store) else 'folds'}")
        start = [Bound()]
        for a, b in targets:
            start = [n for bound in start for n in self.access(a, m.at, b, s.at, bound)]
        written = {b.name for _, b in targets}
        return self.alone(self.several(values, iter(start)), written)

    def alone(self, every: Iterator[Bound], written: set[str]) -> Iterator[Bound]:
        """Those in which what is written is nothing else's operand, nor read to find one: all is read at the start."""
        for bound in every:
            names = [o.buffer.name for o in bound.values()]
            again = next((n for n in written if names.count(n) > 1), None)
            found = {n.buffer.name for o in bound.values() for x in o.at for n in nodes(x) if isinstance(n, Load)}
            if again or found & written:
                name = again or min(found & written)
                yield from self.no(bound, f"{name} is written, and read beside that; it reads all before it writes")
            else:
                yield bound

    def several(self, pairs: tuple[tuple[Value, Value], ...], every: Iterator[Bound]) -> Iterator[Bound]:
        found = list(every)
        for a, b in pairs:
            found = [new for bound in found for new in self.value(a, b, bound)]
        return iter(found)

    def value(self, m: Value, v: Value, bound: Bound) -> Iterator[Bound]:
        """The ways to bind operands so that `v` is what `m` means."""
        if isinstance(m, Load) and isinstance(v, Load):
            return self.access(m.buffer, m.at, v.buffer, v.at, bound)
        if isinstance(m, Load) and m.buffer.name in self.boxed and isinstance(v, Select) and _is_zero(v.b):
            if isinstance(v.a, Load):
                self.tested[m.buffer.name] = (v.cond, v.a.buffer, v.a.at)
            return self.value(m, v.a, bound)
        if isinstance(m, Op) and isinstance(v, Op) and m.fn is v.fn:
            return self.op(m, v, bound)
        if isinstance(m, Cast) and isinstance(v, Cast) and m.type == v.type:
            return self.value(m.value, v.value, bound)
        if isinstance(m, Const) and m == v:
            return iter((bound,))
        if isinstance(m, Select | IndexToValue) and type(m) is type(v):
            return self.parts(m, v, bound)
        kind = "another value" if isinstance(v, Select) else f"{_describe_value(v)}"
        return self.no(bound, f"it takes {_describe_value(m)} where there is {kind}")

    def parts(self, m: object, v: object, bound: Bound) -> Iterator[Bound]:
        """The ways to bind operands so that two trees of conditions, indices and values are the same, part by part."""
        if isinstance(m, Load | Op | Cast | Const) and isinstance(v, Value):
            return self.value(m, v, bound)
        if isinstance(m, Var) and isinstance(v, Var):
            return iter((bound,)) if self.loops.get(m.name) == v.name else self.no(bound, _differing(m, v))
        if isinstance(m, Node) and type(m) is type(v):
            found = [bound]
            for f in fields(m):  # pyright: ignore[reportArgumentType]
                found = [n for b in found for n in self.parts(getattr(m, f.name), getattr(v, f.name), b)]
            return iter(found)
        return iter((bound,)) if m == v else self.no(bound, _differing(m, v))

    def op(self, m: Op, v: Op, bound: Bound) -> Iterator[Bound]:
        yield from self.several(tuple(zip(m.args, v.args, strict=True)), iter((bound,)))
        if m.fn.commutes:
            yield from self.several(tuple(zip(m.args, reversed(v.args), strict=True)), iter((bound,)))

    def once(self, at: tuple[Index, ...]) -> tuple[Index, ...]:
        """`at` in the only iteration of the loops that have one."""
        env: dict[str, Index] = {v: Int(0) for v in self.units}
        return tuple(substitute(x, env) for x in at) if env else at

    def anywhere(self, loops: Sequence[str], dim: int) -> dict[str, int]:
        """Those of `loops` that have one iteration, which may move along any dimension: along `dim`."""
        return {v: dim for v in loops if v in self.units and dim >= 0}

    def access(
        self, p: Buffer, m: tuple[Index, ...], b: Buffer, at: tuple[Index, ...], bound: Bound
    ) -> Iterator[Bound]:
        """`b[at]` as the parameter's element `p[m]`."""
        if p.dtype != b.dtype:
            return self.no(bound, f"its operand {p.name} is {p.dtype}, and {b.name} is {b.dtype}")
        base: list[Index] = []
        along: dict[str, int] = {}
        for d, ix in enumerate(self.once(at)):
            parts = linear_coefficients(ix, self.inner)
            moving = {v: c for v, c in parts[0].items() if c} if parts else {}
            if parts is None or len(moving) > 1 or any(c != 1 or v in along for v, c in moving.items()):
                return self.no(bound, f"index {text(ix)} of {b.name} is not an offset, alone or plus one of its loops")
            along |= dict.fromkeys(moving, d)
            base.append(parts[1])
        wanted = [self.loops[x.name] for x in m if isinstance(x, Var)]
        along = self.anywhere(wanted, len(at) - 1) | along
        if set(wanted) != set(along):
            moves = f"it moves along {_names(along)}, not {_names(wanted)}"
            return self.no(bound, f"{b.name} is no operand {p.name}: {moves}")
        operand = Operand(b, tuple(base), tuple(along[v] for v in wanted))
        if bound.get(p.name, operand) != operand:
            return self.no(bound, f"operand {p.name} would be {bound[p.name].buffer.name} and {b.name} at once")
        return iter(({**bound, p.name: operand},))


def _names(loops: object) -> str:
    return ", ".join(sorted(loops)) or "no loop"  # type: ignore[call-overload]


def _differing(m: object, v: object) -> str:
    one, other = (text(x) if isinstance(x, Index | Cond | Value) else str(x) for x in (m, v))
    return f"it takes {one} where there is {other}"


def _is_zero(v: Value) -> bool:
    return isinstance(v, Const) and v == Const(0, v.type)


def _describe_value(v: Value) -> str:
    match v:
        case Op(fn, _):
            return f"an operation {fn.name}"
        case Cast(_, t):
            return f"a conversion to {t}"
        case Load(b, _):
            return f"an element of {b.name}"
        case Const(x, _):
            return f"the constant {x}"
        case _:
            return "another value"
