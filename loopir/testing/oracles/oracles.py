"""What a transformed program is held against: independent ways to tell that it does not mean what it did.

Each oracle takes a Case, a program before and after with one call of it, and says in words what is wrong, or None. They
stand in one table, the quickest first. None compares floats within a tolerance of taste: the trace and the ring are
exact, and where numbers of a real dtype are compared, the bound is proved (`loopir.testing.oracles.rounding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from loopir.build import Schedule, compile_source, resolve_target
from loopir.errors import InterpretError, LowerError, ScheduleError, TargetError, VerifyError, Witness
from loopir.interp.interpret import interpret
from loopir.ir.dtypes import Array
from loopir.ir.grammar import AXES, Func, Loop, Var
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import leaf_paths, statements
from loopir.ir.verify.verify import verify
from loopir.lower.pipeline import lower
from loopir.testing.oracles.access_trace import Event, Run, dependent
from loopir.testing.oracles.guard_bytes import Fenced
from loopir.testing.oracles.last_writers import asks_memory, comparable, differing
from loopir.testing.oracles.loop_kinds import broken_promise, serial_lanes
from loopir.testing.oracles.rounding import NoBound, error_bounds

SEEDS = (0, 1)
"""Orders in which the threads of a block are run."""


@dataclass(frozen=True)
class Case:
    """`before` became `after`; both are called at `sizes` with `arrays`, which are named as in `before`."""

    before: Func
    after: Func
    sizes: dict[str, int]
    arrays: dict[str, Array] = field(repr=False)

    @cached_property
    def wide(self) -> list[Array]:
        """The arrays with every float replaced by any element of the ring, so that no two are equal by chance."""
        types = {a.buffer.name: a.buffer.dtype for a in self.before.args}
        start, out = 0, list[Array]()
        for name, x in self.arrays.items():
            end = start + x.size
            out.append(elements(end)[start:end].reshape(x.shape) if types[name].is_float else x)
            start = end
        return out

    @cached_property
    def expected(self) -> list[Array] | None:
        """What `before` gives over the ring; None where it is no program (an output that is never written)."""
        try:
            return over_ring(self.before, self)
        except InterpretError:
            return None


def elements(count: int) -> Array:
    """`count` elements of the ring, or more."""
    return _ring_elements(1 << max(12, count.bit_length()))


@lru_cache(maxsize=4)
def _ring_elements(count: int) -> Array:
    return np.random.default_rng(0).integers(0, 2**32, count, np.uint32)


def over_ring(func: Func, case: Case, seed: int = 0) -> list[Array]:
    return list(interpret(func, case.wide, case.sizes, domain="ring", seed=seed).values())


# ---------------------------------------------------------------- the oracles


def language(case: Case) -> str | None:
    """The result verifies, and its text is read back as it is."""
    try:
        verify(case.after, "schedule")
    except VerifyError as error:
        return f"the result is not in the language: {error}"
    return None if parse(text(case.after)) == case.after else "the text of the result is read back as another nest"


def last_writers(case: Case) -> str | None:
    """Every read sees the write that it saw, where statements kept their labels."""
    if not comparable(case.before, case.after):
        return None
    return differing(case.before, case.after, case.sizes)


def promises(case: Case) -> str | None:
    """Iterations of loops that are parallel or bound touch nothing in common; lanes that run together see the same."""
    return broken_promise(case.after, case.sizes)


def exact_ring(case: Case) -> str | None:
    """The outputs are equal over the integers modulo 2^32, and nothing is touched that must not be.

    What differs there, where exp is any function, has to be equal over the field, where it is a power: a rewrite by its
    law is.
    """
    if case.expected is None:
        return None
    try:
        found = over_ring(case.after, case)
    except InterpretError as error:
        return str(error)
    different = first_difference(case.after, case.expected, found)
    same = different is None or equal_over_field(case.before, case.after, case.wide, case.sizes)
    return None if same else different


def equal_over_field(before: Func, after: Func, arrays: Sequence[Array], sizes: Mapping[str, int]) -> bool:
    """Whether both give the same outputs where quotients and powers keep their laws; floats are given as `elements`."""
    one, other = (interpret(x, arrays, sizes, domain="field") for x in (before, after))
    return all(np.array_equal(a, b) for a, b in zip(one.values(), other.values(), strict=True))


def adversarial_threads(case: Case) -> str | None:
    """Mapped to a GPU and lowered, it has no race, in any order of threads, and the same outputs."""
    if case.expected is None:
        return None
    try:
        lowered = lower(mapped(case.after), "cuda")
    except (LowerError, TargetError):
        return None
    for seed in SEEDS:
        try:
            found = over_ring(lowered, case, seed)[: len(case.expected)]  # after them, what lowering keeps count in
        except InterpretError as error:
            return f"{error}\nlowered:\n{text(lowered)}"
        if told := first_difference(case.after, case.expected, found):
            return f"{told}\nlowered:\n{text(lowered)}"
    return None


def llvm(case: Case) -> str | None:
    """The CPU's kernel gives what the interpreter gives, in the real dtypes."""
    return _as_interpreted(case, case.after, lambda s: s.build("llvm", fma=False, threads=2))


def cuda(case: Case) -> str | None:
    """Mapped to a GPU it is CUDA that compiles; where there is a GPU, its kernel gives what the interpreter gives."""
    after = mapped(case.after)
    if resolve_target("auto") == "cuda":
        return _as_interpreted(case, after, lambda s: s.build("cuda", fma=False))
    with suppress(LowerError, TargetError):  # that NVRTC is not installed, too
        compile_source(Schedule(after))
    return None


def _as_interpreted(case: Case, after: Func, build: Callable[[Schedule], Callable[..., Any]]) -> str | None:
    told = {d.name for a in after.args if a.access != "out" for d in a.buffer.shape if isinstance(d, Var)}
    if case.expected is None or set(after.sizes) - told:
        return None
    try:
        kernel = build(Schedule(after))
    except (LowerError, TargetError):
        return None
    inputs = [a for a in after.args if a.access != "out"]
    with np.errstate(all="ignore"):
        wanted = interpret(after, list(case.arrays.values()), case.sizes)
        given = {a.buffer.name: Fenced(x) for a, x in zip(inputs, case.arrays.values(), strict=True)}
        new = {b: Fenced(np.zeros_like(x)) for b, x in wanted.items() if b not in given}
        kernel(*(x.array for x in given.values()), out=tuple(x.array for x in new.values()))
    fenced = {**given, **new}
    for name, x in fenced.items():
        if x.broken:
            return f"beside {name} of {x.array.nbytes} bytes {x.broken}"
    got = [fenced[b.name].array for b in after.outputs()]
    return within_bounds(after, case, list(wanted.values()), got)


ORACLES: dict[str, Callable[[Case], str | None]] = {
    "language": language,
    "last-writer trace": last_writers,
    "promises": promises,
    "exact ring": exact_ring,
    "adversarial threads": adversarial_threads,
    "llvm": llvm,
}
"""By name, in the order in which they are asked."""


SLOW: dict[str, Callable[[Case], str | None]] = {"cuda": cuda}
"""Those that take a second or so a case."""


def judge(case: Case, oracles: Iterable[str]) -> tuple[str, str] | None:
    """The first of `oracles` that is against it, and why."""
    for name in oracles:
        if why := (ORACLES | SLOW)[name](case):
            return name, why
    return None


# ---------------------------------------------------------------- refusals


def false_witness(func: Func, error: ScheduleError) -> str | None:
    """What is wrong with the witness of a refused step on `func`: its two iterations have to touch its element."""
    w = error.witness
    if w is None or w.element is None or asks_memory(func) or any(v > LARGEST for v in w.sizes.values()):
        return None
    if INEXACT_PHRASE in error.reason:
        return None
    around = {p.stmt.label: {x.var for x in p.loops} for p in leaf_paths(func.body)}
    for name, at in ((w.first_statement, w.first), (w.second_statement, w.second)):
        label = name.removesuffix(INIT)
        if label not in around or (label == name and around[label] != {*at}):
            return f"it speaks of loops or statements that there are not: {w}"
    with suppress(KeyError, RecursionError):  # a size that the witness leaves open
        told = [_missed(w, Run(f, w.sizes).events) for f in dict.fromkeys((func, serial_lanes(func)))]
        return told[-1] if all(told) else None  # lanes may count as together or in order
    return None


def _missed(w: Witness, events: Sequence[Event]) -> str | None:
    """What is wrong with a witness, where a run does `events`."""
    if w.other is not None:
        return _wrong_place_witness(w, events)
    seen = ((*((_name(e), e.at()) for e in pair), pair[0].home[0], pair[0].cell) for pair in dependent(events))
    asked = ((w.first_statement, w.first), (w.second_statement, w.second), w.buffer, w.element)
    if asked[0] == asked[1]:  # one iteration, which is to be run twice: what it reads and then writes
        own = [e for e in events if ((_name(e), e.at()), e.home[0], e.cell) == asked[1:]]
        return None if {e.write for e in own} == {True, False} else f"it does not read and write {w.buffer}: {w}"
    return None if any(pair == asked for pair in seen) else f"no such two accesses are made, at {w.sizes}: {w}"


def _wrong_place_witness(w: Witness, events: Sequence[Event]) -> str | None:
    """What is wrong with a witness of two elements that would share a place: each is touched, one after the other."""
    ends = ((w.first_statement, w.first, w.buffer, w.element), (w.second_statement, w.second, *(w.other or ())))
    times: list[int] = []
    for (name, *where), writes in zip(ends, w.writes, strict=True):
        found = (e for e in events if [e.at(), e.home[0], e.cell] == where and e.write == writes)
        times += [e.time for e in found if _name(e) == name][:1]
    return None if len(times) == 2 and times[0] < times[1] else f"no such two accesses are made, at {w.sizes}: {w}"


def _name(e: Event) -> str:
    return f"{e.label}{INIT}" if e.init else e.label


LARGEST = 12
"""Witnesses at larger sizes are not run."""
INEXACT_PHRASE = "analysis takes"
"""What a refusal says whose witness need not be one, as not all is affine."""
INIT = " (its init)"
"""What is said after the label of a reduction whose start is meant."""


# ---------------------------------------------------------------- helpers


def first_difference(func: Func, wanted: list[Array], found: list[Array]) -> str | None:
    """The first element in which the outputs of `func` differ, with both values."""
    for b, one, other in zip(func.outputs(), wanted, found, strict=True):
        if one.shape != other.shape:
            return f"{b.name} has shape {other.shape}, not {one.shape}"
        if not np.array_equal(one, other):
            at = tuple(int(x) for x in np.argwhere(one != other)[0])
            return f"{b.name}[{', '.join(map(str, at))}] is {other[at]}, not {one[at]}"
    return None


def within_bounds(func: Func, case: Case, wanted: list[Array], found: list[Array]) -> str | None:
    """As `first_difference`, for numbers that may differ by twice what rounding may do to each; see `rounding`."""
    with np.errstate(all="ignore"):
        pairs = [(np.asarray(a, _wide(a)), np.asarray(b, _wide(b))) for a, b in zip(wanted, found, strict=True)]
        same = [(a == b) | ((a != a) & (b != b)) for a, b in pairs]
    if all(x.all() for x in same):
        return None
    try:
        bounds = error_bounds(func, list(case.arrays.values()), case.sizes)
    except NoBound:
        return None
    for b, (one, other), equal, bound in zip(func.outputs(), pairs, same, bounds, strict=True):
        wrong = ~equal & ~(np.abs(one - other) <= 2 * bound)
        if wrong.any():
            at = tuple(int(x) for x in np.argwhere(wrong)[0])
            element = f"{b.name}[{', '.join(map(str, at))}]"
            return f"{element} is {other[at]}, not {one[at]}, and rounding makes no more than {2 * bound[at]:.3g} of it"
    return None


def _wide(x: Array) -> Any:
    return x.dtype if x.dtype.kind in "biu" else np.float64


def mapped(func: Func) -> Func:
    """`func` with an independent loop of each nest on blocks and one on threads, unless it has loops bound already."""
    s = Schedule(func)
    every = [x for x in statements(func.body) if isinstance(x, Loop)]
    if any(x.kind in AXES for x in every):
        return func
    inner = {x.var for nest in every for x in statements(nest.body) if isinstance(x, Loop)}
    for nest in [x for x in every if x.var not in inner]:
        axes = ["threadIdx.x", "blockIdx.x"]
        for loop in [nest, *(x for x in statements(nest.body) if isinstance(x, Loop))]:
            axis = next((x for x in axes if s.why("bind", loop.var, x) is None), None)
            if axis is not None:
                s = s.bind(loop.var, axis)
                axes.remove(axis)
    return s.func
