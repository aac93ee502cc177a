"""Insert bounds checks around accesses that are not proved to be inside their buffer.

Subscripts and loop bounds that are read from memory may have any value, and an index may divide by a size that is 0. A
statement with such a subscript or divisor is put under a test; where the test fails, the statement is skipped and the
failure is recorded in one more parameter of the program, an array of three words for each test: whether it failed, at
which index, and the size of the dimension. The runtime raises BoundsError from them. A program whose accesses are all
proved has no tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopir.analysis.dependence.access import is_affine_visible
from loopir.analysis.regions.bounds import Check, Divisor, Number, Subscript, unproved_accesses
from loopir.arith.poly import coefficient, const_of, to_index
from loopir.arith.simplify import EMPTY, poly
from loopir.errors import LowerError
from loopir.ir.dtypes import int64
from loopir.ir.grammar import (
    AXES,
    Arg,
    Body,
    Buffer,
    Cond,
    Const,
    Func,
    If,
    Index,
    IndexToValue,
    InstrRegion,
    Int,
    Kernel,
    Load,
    Loop,
    Not,
    Or,
    Stmt,
    Store,
    Value,
    Var,
    conj,
    minimum,
)
from loopir.ir.printer import text
from loopir.ir.traverse.walk import bodies, free_vars, fresh_name, map_body, map_stmts, statements, taken_names
from loopir.ir.verify.verify import evaluate
from loopir.lower.target import Target

WORDS = 3
"""Of each test: whether it failed, the index, the size."""
DIVISOR = -1
"""The size that says that the index is a divisor."""


@dataclass(frozen=True, slots=True)
class Test:
    """One test: the condition under which `of` may be used, its position in the array, and its description."""

    of: Check
    ends: tuple[Cond, ...]
    number: int
    label: str

    @property
    def holds(self) -> Cond:
        inside = conj(*self.ends)
        return Or((Not(conj(*self.of.given)), inside)) if self.of.given else inside

    @property
    def size(self) -> Value:
        return Const(DIVISOR, int64) if isinstance(self.of, Divisor) else IndexToValue(self.of.size, int64)

    def report(self, words: Buffer) -> Body:
        told = {"": Const(1, int64), ", index": IndexToValue(self.of.index, int64), ", size": self.size}
        return tuple(
            Store(f"{self.label}{part}", words, (Int(self.number), Int(n)), value)
            for n, (part, value) in enumerate(told.items())
        )


def insert_bounds_checks(func: Func, target: Target) -> Func:
    """`func` with a test around every statement with an unproved access, and an "out" array that records failures.

    The array is the last parameter, int64[tests, 3], and 0 unless a test fails; `describe_tests` describes each test.
    """
    taken = taken_names(func)
    tests: dict[int, list[Test]] = {}
    count = 0
    host = _on_host(func)
    for s, x, ends in unproved_accesses(func):
        if isinstance(x, Divisor) and id(s) in host:
            continue
        label = fresh_name(describe_test(s, x), taken)
        taken |= {label}
        tests.setdefault(id(s), []).append(Test(x, ends, count, label))
        count += 1
    if not tests:
        return func
    words = Buffer(fresh_name("checks", taken), (Int(count), Int(WORDS)), int64)

    def visit(s: Stmt) -> Stmt | Body:
        new = map_stmts(s, visit)
        if isinstance(s, InstrRegion):
            _require_none(s, tests)
        if isinstance(s, Loop) and isinstance(new, Loop) and not is_affine_visible(s.extent):
            new = replace(new, extent=_ending(s, tests))
        return _tested(new, tests.get(id(s), ()), words)

    body = (_reset(func, words, taken), *map_body(func.body, visit))
    return replace(func, params=(*func.params, Arg(words, "out")), body=body)


def _on_host(func: Func) -> set[int]:
    """The loops and guards that the host runs, which tells a wrong divisor itself: those that launch kernels."""
    out: set[int] = set()

    def visit(body: Body, launching: bool) -> None:
        for s in body:
            if launching and (not isinstance(s, Loop) or s.kind not in (*AXES, "parallel")):
                continue
            out.add(id(s))
            for inner in bodies(s):
                visit(inner, launching or isinstance(s, Kernel))

    visit(func.body, launching=False)
    return out


def _require_none(s: InstrRegion, tests: Mapping[int, Sequence[Test]]) -> None:
    """An instruction is done as a whole: nothing in it can be left out."""
    for inner in statements(s.body):
        for t in tests.get(id(inner), ()):
            raise LowerError(
                f"{t.label} is not proved to be inside, and {s.fn.name} cannot leave it out; "
                f"test the index before it, or say in an assume what keeps it inside"
            )


def without_reset(func: Func, count: int) -> Func:
    """The lowered `func`, of a program with `count` arrays, without the kernel that fills the tests' words with 0: for
    a caller who hands them over filled, so that only a test that fails writes to them."""
    words = {a.buffer.name for a in func.args[count:] if a.access == "out"}

    def resets(s: Stmt) -> bool:
        inner = [x for x in statements(s.body) if not isinstance(x, Loop)] if isinstance(s, Kernel) else []
        return bool(inner) and all(
            isinstance(x, Store) and x.buffer.name in words and x.value == Const(0, int64) for x in inner
        )

    return replace(func, body=tuple(s for s in func.body if not resets(s))) if words else func


def describe_tests(func: Func, words: Buffer) -> tuple[str, ...]:
    """A description of each test of the flat `func`, which is the label of the store that records its failure."""
    out = [""] * (evaluate(words.shape[0], {}))
    for s in statements(func.body):
        if isinstance(s, Store) and s.buffer.name == words.name and isinstance(s.at[0], Int):
            test, word = divmod(s.at[0].value, WORDS)
            out[test] = s.label if word == 0 and s.value == Const(1, int64) else out[test]
    return tuple(out)


def _ending(loop: Loop, tests: Mapping[int, Sequence[Test]]) -> Index:
    """The extent of a loop that memory says, cut to where a test in it has failed for certain.

    An index that moves on in every iteration has left a dimension of n after n + 1 of them; so no loop runs for ever.
    """
    extent = loop.extent
    for s in loop.body:
        for t in tests.get(id(s), ()):
            if not isinstance(t.of, Subscript):
                continue
            split = coefficient(poly(t.of.index, EMPTY), Var(loop.var))
            if split is not None and const_of(split[0]) and loop.var not in free_vars(to_index(split[1])):
                extent = minimum(extent, t.of.size + 1) if not t.of.given else extent
    return extent


def _tested(s: Stmt, tests: Sequence[Test], words: Buffer) -> Stmt:
    """`s` under its tests, the first one outermost: a test may read memory where those before it allow."""
    for t in reversed(tests):
        s = If(t.holds, (s,), t.report(words))
    return s


def _reset(func: Func, words: Buffer, taken: set[str]) -> Stmt:
    """A kernel that says of every test that it has not failed."""
    k, w = (fresh_name(v, taken) for v in ("test", "word"))
    store = Store(fresh_name(f"{words.name}_init", taken), words, (Var(k), Var(w)), Const(0, int64))
    loop = Loop(k, words.shape[0], "serial", (Loop(w, words.shape[1], "serial", (store,)),))
    return Kernel(fresh_name(f"{func.name}_checks", taken), (loop,))


def describe_test(s: Stmt, x: Check) -> str:
    """Describe what a test of `x` in `s` is of, as a person reads it in an error."""
    match s:
        case Loop(var):
            who = f"loop {var}"
        case If():
            who = f"the guard {_short(s.cond)}"
        case _:
            who = f"statement {getattr(s, 'label', '')}"
    return f"{who} {_done(x)}".replace('"', "'")


def _done(x: Check) -> str:
    match x:
        case Divisor():
            return f"divides by {_short(x.index)}"
        case Number(index, of=access):
            use = f"computes with {_short(index)}"
            return use if access is None else f"{_accessed(access)} for which it {use}"
        case Subscript():
            return f"{_accessed(x)} outside dimension {x.dim}"


def _accessed(x: Subscript) -> str:
    return f"{'writes' if x.write else 'reads'} {_short(Load(x.buffer, x.at))}"


def _short(n: Load | Cond | Index) -> str:
    said = text(n)
    return said if len(said) <= 60 else f"{said[:57]}..."
