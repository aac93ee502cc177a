"""Record the first nan that is stored and the first subscript outside its array, with the iteration, on request.

A kernel that is built with `checks=True` runs the nest in the order in which it is written: loops of every kind are
serial, and instructions are expanded to the nests that they do. So "first" is one statement and one iteration. It is
recorded in one more parameter of the program, an array of words that is 0 as long as nothing is wrong: the number of
the fault, from 1 (`fault_sites` says what it is of), the index and the size of its dimension, and the loops around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopir.analysis.regions.bounds import Check, Divisor, unproved_accesses
from loopir.intrinsics.ops.compare import ne
from loopir.ir.dtypes import int64
from loopir.ir.grammar import (
    Arg,
    Body,
    Buffer,
    Cmp,
    Cond,
    Const,
    Func,
    If,
    IndexToValue,
    InstrRegion,
    Int,
    Load,
    Loop,
    Not,
    Op,
    Reduce,
    Stmt,
    Store,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
    conj,
)
from loopir.ir.printer import text
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.walk import bodies, fresh_name, map_body, map_stmts, rewrite, taken_names
from loopir.lower.common.insert_bounds_checks import DIVISOR, describe_test
from loopir.lower.target import Target

FIRST_LOOP = 3
"""The words before those of the loops: the number of the fault, the index, the size."""


@dataclass(frozen=True, slots=True)
class FaultSite:
    """A place where something may go wrong: what it is, in words, and the loops around it, outermost first."""

    description: str
    loops: tuple[str, ...]
    stmt: Stmt
    wrong: Cond
    of: Check | None = None
    """The access that may be outside; None for a value that may be nan."""

    def report(self, number: int, words: Buffer, taken: set[str]) -> Body:
        """Stores of what is known here, into `words`; their labels are added to `taken`."""
        values: list[Value] = [Const(number, int64)]
        if self.of is not None:
            size = Const(DIVISOR, int64) if isinstance(self.of, Divisor) else IndexToValue(self.of.size, int64)
            values += [IndexToValue(self.of.index, int64), size]
        values += [Const(0, int64)] * (FIRST_LOOP - len(values)) + [IndexToValue(Var(v), int64) for v in self.loops]
        labels = [fresh_name(f"{words.name}_{number}_{n}", taken) for n in range(len(values))]
        taken.update(labels)
        return tuple(Store(label, words, (Int(n),), v) for n, (label, v) in enumerate(zip(labels, values, strict=True)))


def record_faults(func: Func, target: Target) -> Func:
    """`func` in the order of its text, with an "inout" array of words that records its first fault, if `target` asks
    for checks."""
    if not target.checks:
        return func
    func, sites = in_text_order(func), fault_sites(func)
    taken = taken_names(func)
    depth = max((len(s.loops) for s in sites), default=0)
    words = Buffer(fresh_name("faults", taken), (Int(FIRST_LOOP + depth),), int64)
    none_yet = Cmp("==", ValueToIndex(Load(words, (Int(0),))), Int(0))
    before: dict[int, list[Stmt]] = {}
    after: dict[int, list[Stmt]] = {}
    for number, site in enumerate(sites, 1):
        side = after if site.of is None else before
        reported = site.report(number, words, taken)
        side.setdefault(id(site.stmt), []).append(If(site.wrong, (If(none_yet, reported),)))

    def visit(s: Stmt) -> Stmt | Body:
        return (*before.get(id(s), ()), map_stmts(s, visit), *after.get(id(s), ()))

    body = map_body(func.body, visit)
    return replace(func, params=(*func.params, Arg(words, "inout")), body=body)


@memoized
def in_text_order(func: Func) -> Func:
    """`func` with all loops serial, and with the nests that instructions do in their place."""

    def visit(s: Stmt) -> Stmt | Body | None:
        match s:
            case InstrRegion(body=body):
                return rewrite(body, visit)
            case Loop() if s.kind != "serial":
                return replace(s, kind="serial", body=rewrite(s.body, visit))
            case _:
                return None

    return replace(func, body=rewrite(func.body, visit))


@memoized
def fault_sites(func: Func) -> tuple[FaultSite, ...]:
    """Where `func`, all of whose loops are serial, may go wrong."""
    outside: dict[int, list[tuple[Check, Sequence[Cond]]]] = {}
    for s, x, ends in unproved_accesses(func):
        outside.setdefault(id(s), []).append((x, ends))
    out: list[FaultSite] = []
    pending: list[tuple[Stmt, tuple[str, ...]]] = [(s, ()) for s in func.body][::-1]
    while pending:
        s, loops = pending.pop()
        for x, ends in outside.get(id(s), ()):
            wrong = conj(*x.given, Not(conj(*ends)))
            out.append(FaultSite(describe_test(s, x), loops, s, wrong, x))
        out += (
            FaultSite(f"statement {label} stores nan in {text(x)}", loops, s, _is_nan(x)) for label, x in _computed(s)
        )
        inner = (*loops, s.var) if isinstance(s, Loop) else loops
        pending += [(x, inner) for body in bodies(s) for x in body][::-1]
    return tuple(out)


def _computed(s: Stmt) -> tuple[tuple[str, Load], ...]:
    """The elements of floats that `s` computes, each with the label of `s`.

    What is only copied was computed elsewhere, or need not be written.
    """
    match s:
        case Store(label, buffer, at, value) if buffer.dtype.kind == "float" and not isinstance(value, Load):
            return ((label, Load(buffer, at)),)
        case Reduce(label, buffers, at):
            return tuple((label, Load(b, at)) for b in buffers if b.dtype.kind == "float")
        case _:
            return ()


def _is_nan(x: Load) -> Cond:
    return ValueToCond(Op(ne, (x, x)))
