"""How long a nest takes on a CPU: instructions of each statement, and bytes that come into each cache.

Instructions are counted as LLVM emits them. A vectorized loop is so many registers, functions of real numbers are what
they are expanded into, what the innermost loops do not change is computed outside them, and a fold whose iterations
wait for one another takes the latency of its operation each time. Bytes are counted as `estimate` does, by the largest
inner part of the nest that a cache holds, but what statements of one nest touch together comes in once, a line that is
written is read first, and what the cache holds of the whole program is there from the call before. A statement takes
the longest of these; so much of the rest as the machine does not overlap is added.

Held to measured times by benchmarks/cpu_predict.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from typing import cast

from loopir.arith.simplify import simplify
from loopir.ir.dtypes import DType, float32
from loopir.ir.grammar import Cast, Func, InstrRegion, Load, Mapped, Node, Op, Reduce, Select, Store, Value, Var
from loopir.ir.ops import Intrinsic
from loopir.ir.traverse.rebuild import children, distinct_nodes
from loopir.ir.traverse.walk import free_vars, leaf_paths, nodes, statements, substitute, top_level_nests
from loopir.ir.values import Param
from loopir.machines import Cpu
from loopir.schedule.core.find import all_buffers
from loopir.show.estimate import Foot, SizedStatement, at_sizes, sized_statement

DIVIDE = frozenset({"div", "sqrt"})
"""Operations whose unit takes `Cpu.divide` cycles for a vector."""
SCALAR_DIVIDE = 0.25
"""What part of that a single number takes."""
LIBRARY = 40.0
"""Cycles of a function of the C library, an element: it is called for each lane."""
LOOP_CYCLES = 1.0
"""Cycles of an iteration of the innermost loop, where that is not unrolled: a count, and a branch."""
GATHERED = 2.0
"""Instructions for an element that is brought into a vector, or out of one, by itself."""
WIDENED = 4
"""Vectors that LLVM folds independently where it vectorizes a serial loop by itself."""
PEAK_SHARE = 0.85
"""What of the rate of its ports a core keeps up, at most."""
CONVERSIONS = 5.0
"""Instructions that an operation on narrow floats takes for converting them and back."""
SLOW_CHAIN = 3.0
"""How many times the latency of a sum that of a division is."""
LOOKAHEAD, CHAINED = 320, 3
"""Instructions that a core looks ahead, and those of one iteration of a fold."""
SHORT_RUN, STREAMS = 4, 32
"""Lines side by side below which those of an array come one by one, as nothing foresees the next, where there are more
such places in turn than a core follows."""
SCATTERED, PAGE_BYTES = 5.0, 4096
"""How much longer lines take that come one by one; bytes of a page."""
FITTING = 0.75
"""What of a cache a program may take to find all of it there again; of one of twice as much it finds nothing."""
REGISTER_BYTES = 4096
"""Bytes of local memory in constant loops that LLVM keeps in registers, or that is as good as there."""


def cpu_seconds(func: Func, sizes: Mapping[str, int], cpu: Cpu, threads: int = 1) -> tuple[float, float]:
    """Seconds of a call of `func` on so many threads of `cpu`, and the bytes that come from memory and go there.

    A size that is not given is TYPICAL_SIZE.
    """
    costs = nest_costs(func, sizes, cpu, threads)
    return sum(c.seconds for c in costs) + cpu.call, sum(c.bytes for c in costs)


@dataclass(frozen=True)
class NestCost:
    """What one nest is predicted to cost."""

    labels: frozenset[str]
    """Of its statements."""
    seconds: float
    bytes: float
    """That come from memory and go there."""
    roofline: float
    """The seconds of its slowest part alone: its instructions, or the bytes that come into one cache."""


def nest_costs(func: Func, sizes: Mapping[str, int], cpu: Cpu, threads: int = 1) -> list[NestCost]:
    """The cost of each nest of `func` that has statements, in order. A size that is not given is TYPICAL_SIZE."""
    given = at_sizes(func, sizes)
    places = [sized_statement(func, p, given) for p in leaf_paths(func.body)]
    whole = _program_bytes(places)
    packed = frozenset(b.name for b in all_buffers(func) if isinstance(b.layout, Mapped))
    return [_nest_cost(group, cpu, threads, whole, packed) for group in _by_nest(func, places)]


def _program_bytes(places: Sequence[SizedStatement]) -> float:
    held = {t.buffer: size for m in places for t, (_, size) in zip(m.own, m.held, strict=True)}
    return sum(held.values())


def _by_nest(func: Func, places: Sequence[SizedStatement]) -> list[list[SizedStatement]]:
    counts = [sum(isinstance(s, Store | Reduce) for s in statements((t.nest,))) for t in top_level_nests(func)]
    out, left = list[list[SizedStatement]](), list(places)
    for n in counts:
        out.append(left[:n])
        left = left[n:]
    return [x for x in out if x]


def _nest_cost(
    group: Sequence[SizedStatement], cpu: Cpu, threads: int, whole: float, packed: frozenset[str]
) -> NestCost:
    """The cost of statements that stand in one nest."""
    cycles = sum(_statement_cycles(m, cpu, packed) / _cores_used(m, threads) for m in group)
    cores = min(float(threads), max(_cores_used(m, threads) for m in group))
    end = len(cpu.caches) - 1
    levels = [
        _cache_traffic(group, size, cpu.line, whole, packed, far=nth > 0, last=nth == end)
        for nth, (size, _) in enumerate(cpu.caches)
    ]
    parts = [cycles / cpu.clock]
    for nth, (moved, (_, rate)) in enumerate(zip(levels, cpu.caches, strict=True)):
        shared = min(cores * rate, cpu.memory) if nth == end else cores * rate
        parts.append(moved / shared)
    longest = max(parts)
    seconds = longest + (1.0 - cpu.overlap) * (sum(parts) - longest)
    starts = max(_parallel_starts(m) for m in group) if threads > 1 else 0.0
    labels = frozenset(m.place.stmt.label for m in group)
    started = cpu.start * min(starts, 1.0) + cpu.restart * max(starts - 1.0, 0.0)
    return NestCost(labels, seconds + started, levels[-1], longest)


def _parallel_starts(m: SizedStatement) -> float:
    times = 1.0
    for loop in m.place.loops:
        if loop.kind == "parallel":
            return times
        times *= m.extents[loop.var]
    return 0.0


def _cores_used(m: SizedStatement, threads: int) -> float:
    """How many threads share the work evenly."""
    at_once = prod(e for v, e in m.extents.items() if m.kinds[v] == "parallel")
    return at_once / ceil(at_once / threads) if at_once > 1 else 1.0


# ---------------------------------------------------------------- instructions


@dataclass(frozen=True)
class _Vectors:
    """A statement in vectors: the loops whose iterations are lanes, the others, how many elements one instance has, in
    how many registers, and whether LLVM makes them of a serial loop by itself."""

    lanes: tuple[str, ...]
    outer: tuple[str, ...]
    elements: float
    registers: float
    own: bool
    whole: bool
    """Whether a register is full, at least half."""


def _vector_shape(m: SizedStatement, cpu: Cpu) -> _Vectors:
    lanes, width = _vector_loops(m), _element_bytes(m)
    last = m.place.loops[-1].var if m.place.loops else ""
    own = not lanes and bool(last) and _widens(m, last)
    lanes = [last] if own else lanes
    elements = prod(m.extents[v] for v in lanes)
    filled = elements * width / cpu.vector_bytes
    registers = filled if own else ceil(filled) if lanes else 1.0
    outer = tuple(v for v in m.extents if v not in lanes)
    return _Vectors(tuple(lanes), outer, elements, registers, own, bool(lanes) and filled > 0.5)


def _statement_cycles(m: SizedStatement, cpu: Cpu, packed: frozenset[str]) -> float:
    """Cycles of one core for all iterations of a statement."""
    vectors = _vector_shape(m, cpu)
    times = prod(m.extents[v] for v in vectors.outer)
    loads, stores, moves = _memory_count(m, vectors, cpu, packed)
    arithmetic, divisions = _arithmetic_count(m, vectors, cpu)
    fused = times * vectors.registers * _multiplies(m.place.stmt)
    arithmetic += moves - fused
    ports = max(fused / cpu.products, arithmetic / cpu.vector_ops, loads / cpu.loads, stores / cpu.stores)
    ports /= 1.0 if vectors.whole else 2.0
    issued = max(ports, (arithmetic + loads + stores) / cpu.issue) / PEAK_SHARE
    bodies = times / prod(m.extents[v] for v in vectors.outer if m.kinds[v] == "unroll")
    bodies *= vectors.registers / WIDENED if vectors.own else float(bool(m.extents))
    waits = max(_chained(m, vectors.lanes, vectors.registers, cpu), _recurrence(m, cpu))
    divided = divisions * cpu.divide * (1.0 if vectors.lanes else SCALAR_DIVIDE)
    return max(issued + bodies * LOOP_CYCLES, divided, waits)


def _memory_count(m: SizedStatement, vectors: _Vectors, cpu: Cpu, packed: frozenset[str]) -> tuple[float, float, float]:
    """Loads, stores, and what it takes to bring elements into vectors one by one."""
    loads = stores = moves = 0.0
    folds = isinstance(m.place.stmt, Reduce)
    for t, steps, (scope, size) in zip(m.own, m.steps, m.held, strict=True):
        if scope == "local" and size <= REGISTER_BYTES:
            continue
        near = (0, 1, None) if t.buffer in packed else (0, 1)
        scattered = any(steps[v] not in near for v in vectors.lanes)
        filled = vectors.elements * t.dtype.bytes / cpu.vector_bytes
        count = _access_count(steps, m.extents, vectors.outer)
        if scattered:
            count *= vectors.elements
            moves += count * GATHERED
        elif any(steps[v] != 0 for v in vectors.lanes):
            count *= filled if vectors.own else ceil(filled)
        loads += count * (not t.write or folds)
        stores += count * t.write
    return loads, stores, moves


def _arithmetic_count(m: SizedStatement, vectors: _Vectors, cpu: Cpu) -> tuple[float, float]:
    """Arithmetic instructions, and vectors that go through the divider."""
    arithmetic = divisions = 0.0
    times = prod(m.extents[v] for v in vectors.outer)
    for v, folded in _evaluated_values(m.place.stmt):
        for n in dict.fromkeys(nodes(v)):
            if isinstance(n, Op | Cast | Select):
                runs = times if folded else _node_runs(n, m.extents, vectors.outer)
                plain, slow, called = _op_instructions(n)
                divisions += runs * vectors.registers * slow
                arithmetic += runs * (vectors.registers * plain + vectors.elements * called * LIBRARY * cpu.vector_ops)
    return arithmetic, divisions


def _element_bytes(m: SizedStatement) -> int:
    """Bytes of the widest elements that a statement computes with: narrow floats are computed in float32."""
    computed = (n.dtype for v, _ in _evaluated_values(m.place.stmt) for n in nodes(v) if isinstance(n, Op))
    every = [*(t.dtype for t in m.own), *computed]
    return max(max(t.bytes, float32.bytes * t.is_narrow) for t in every)


def _vector_loops(m: SizedStatement) -> list[str]:
    return [v for v, k in m.kinds.items() if k == "vectorize"]


def _widens(m: SizedStatement, loop: str) -> bool:
    """Whether LLVM vectorizes the innermost loop, a serial one: its elements side by side, and no fold but of integers
    in any order."""
    s = m.place.stmt
    if m.kinds[loop] not in ("serial", "parallel") or m.extents[loop] < 8:
        return False
    if loop in _folded_over(m) and (any(t.write and t.dtype.is_float for t in m.own) or not _in_any_order(s)):
        return False
    if any(isinstance(n, Op) and _op_instructions(n)[2] for v, _ in _evaluated_values(s) for n in nodes(v)):
        return False
    return all(steps[loop] in (0, 1) for steps in m.steps) and not _loads_of_previous(s, loop)


def _in_any_order(s: Store | Reduce) -> bool:
    """Whether a fold is a reduction, or is written as an update that only adds to what was there, or the like."""
    if isinstance(s, Reduce) or not isinstance(s.value, Op):
        return isinstance(s, Reduce)
    own = Load(s.buffer, s.at)
    return s.value.fn.commutes and [*s.value.args].count(own) == 1 == [*nodes(s.value)].count(own)


def _access_count(steps: Mapping[str, float | None], extents: Mapping[str, float], outer: Sequence[str]) -> float:
    """How often an access is made: not again in innermost loops that leave it where it is."""
    names = list(outer)
    while names and steps[names[-1]] == 0:
        names.pop()
    return prod(extents[v] for v in names)


def _node_runs(n: Value, extents: Mapping[str, float], outer: Sequence[str]) -> float:
    """How often a value is computed: not again in innermost loops that do not change it."""
    read, names = free_vars(n), list(outer)
    if any(isinstance(x, Load) for x in nodes(n)):
        while names and names[-1] not in read and all(names[-1] not in free_vars(x) for x in nodes(n)):
            names.pop()
    return prod(extents[v] for v in names)


def _multiplies(s: Store | Reduce) -> int:
    """How many products a statement adds to sums, each with one instruction."""
    if not isinstance(s, Reduce):
        return 0
    pairs = zip(s.monoid.combine, s.values, strict=False)
    return sum(_is_sign(c, "+") and any(_is_sign(x, "*") for x in _unconverted(v)) for c, v in pairs)


def _is_sign(v: Value, sign: str) -> bool:
    return isinstance(v, Op) and v.fn.infix == sign


def _unconverted(v: Value) -> list[Value]:
    return [v, v.value] if isinstance(v, Cast) else [v]


def _evaluated_values(s: Store | Reduce) -> list[tuple[Value, bool]]:
    """What a statement evaluates, and whether that changes with every iteration."""
    if isinstance(s, Store):
        return [(s.value, False)]
    return [*((v, False) for v in s.values), *((v, True) for v in s.monoid.combine)]


def _op_instructions(n: Op | Cast | Select) -> tuple[float, float, float]:
    """Vector instructions of one operation, those of the divider, and calls of the C library."""
    if isinstance(n, Select):
        return 1.0, 0.0, 0.0
    if isinstance(n, Cast):
        narrow = n.dtype.is_narrow or n.value.dtype.is_narrow
        return (2.5 if narrow else float(n.dtype is not n.value.dtype)), 0.0, 0.0
    t = n.args[0].dtype
    plain, slow, called = _expanded(n.fn, float32 if t.is_narrow else t)
    joined = n.fn.infix in ("+", "-") and any(isinstance(a, Op) and a.fn.infix == "*" for a in n.args)
    return plain - joined + CONVERSIONS * t.is_narrow, slow, called


def _is_rare(n: Node) -> bool:
    return isinstance(n, Op) and n.fn.rare


@lru_cache(maxsize=512)
def _expanded(fn: Intrinsic, t: DType) -> tuple[float, float, float]:
    """The instructions of an operation on `t`, which are those of what it is expanded into."""
    made = fn.expand(*(Param(f"{fn.name}.{n}", t) for n in range(fn.arity))) if fn.expand is not None else None
    if made is not None:
        parts = [_op_instructions(n) for n in distinct_nodes(made, but=_is_rare) if isinstance(n, Op | Cast | Select)]
        plain, slow, called = (float(sum(x)) for x in zip(*parts, strict=True)) if parts else (1.0, 0.0, 0.0)
        return plain, slow, called
    if fn.name in DIVIDE:
        return 1.0, t.bytes / 4, 0.0
    spelling = fn.llvm.get(t.name) or fn.llvm.get(t.kind) or ""
    if spelling.startswith("vector-call "):  # the C library's functions of vectors, where this machine has them
        return float(fn.work), 0.0, 0.0
    return 1.0, 0.0, float(spelling.startswith("call "))


def _folded_over(m: SizedStatement) -> frozenset[str]:
    """The loops whose iterations fold into one element: those of a reduction, also if it is written as an update."""
    s = m.place.stmt
    if isinstance(s, Store) and Load(s.buffer, s.at) not in nodes(s.value):
        return frozenset()
    still = {v for t, steps in zip(m.own, m.steps, strict=True) if t.write for v in steps if steps[v] == 0}
    return frozenset(s.over) | still if isinstance(s, Reduce) else frozenset(still)


def _chained(m: SizedStatement, lanes: Sequence[str], per: float, cpu: Cpu) -> float:
    """Cycles that the iterations of a fold wait for one another: independent ones inside them go on meanwhile."""
    over = _folded_over(m)
    if not over:
        return 0.0
    inner, names = 1.0, [v for v in m.extents if v not in lanes]
    while names and names[-1] not in over:
        inner *= m.extents[names.pop()]
    if not names:
        return 0.0
    in_lanes = prod(m.extents[v] for v in lanes if v in over)
    if inner * per >= cpu.latency * cpu.vector_ops:
        return 0.0
    length = max(1.0, in_lanes)
    while names and names[-1] in over:
        length *= m.extents[names.pop()]
    at_once = max(1.0, LOOKAHEAD / (length * CHAINED)) if names else 1.0  # of the next folds, which start meanwhile
    return length * prod(m.extents[v] for v in names) * cpu.latency / at_once


def _loads_of_previous(s: Store | Reduce, loop: str) -> list[Load]:
    """The loads of `s` of the element that it stored in the iteration of `loop` before."""
    if not isinstance(s, Store):
        return []
    loads = dict.fromkeys(n for n in nodes(s.value) if isinstance(n, Load) and n.buffer.name == s.buffer.name)
    before = tuple(simplify(substitute(x, {loop: Var(loop) - 1})) for x in s.at) if loads else ()
    return [n for n in loads if n.at != s.at and tuple(map(simplify, n.at)) == before]


def _recurrence(m: SizedStatement, cpu: Cpu) -> float:
    """Cycles that iterations wait for the element that the one before stored, in the innermost loop that is neither
    unrolled nor of lanes: those of loops inside it go on meanwhile."""
    names = list(m.extents)
    while names and m.kinds[names[-1]] in ("unroll", "vectorize"):
        names.pop()
    loads = _loads_of_previous(m.place.stmt, names[-1]) if names else []
    if not loads:
        return 0.0
    value = cast(Store, m.place.stmt).value
    latency = cpu.latency if value.dtype.is_float else 1.0
    return prod(m.extents[v] for v in names) * _longest_path(value, loads) * latency


def _longest_path(v: Value, loads: Sequence[Load]) -> float:
    """How many operations come one after the other from one of `loads` to `v`; a division counts as several."""
    found: dict[Node, float] = dict.fromkeys(loads, 0.0)
    for n in reversed(list(nodes(v))):
        parts = [found[x] for x in children(n) if x in found]
        if parts and n not in loads:
            slow = isinstance(n, Op) and n.fn.name in DIVIDE
            found[n] = max(parts) + (SLOW_CHAIN if slow else float(isinstance(n, Op | Select)))
    return found.get(v, 0.0)


# ---------------------------------------------------------------- memory


Touched = tuple[Foot, bool]
"""An access of memory that other cores could see, and whether its buffer is packed in the order of its use."""


def _cache_traffic(
    group: Sequence[SizedStatement],
    cache: float,
    line: int,
    whole: float,
    packed: frozenset[str],
    *,
    far: bool,
    last: bool,
) -> float:
    """Bytes that come into a cache, and go out of it, for statements of one nest; 0 if it holds the whole program."""
    missed = min(1.0, max(0.0, (whole / cache - FITTING) / FITTING))
    if not missed:
        return 0.0
    common = _common_loops(group)
    feet = [_global_accesses(m, packed) for m in group]
    inside = [{v: e for v, e in m.extents.items() if v not in common} for m in group]
    together = _bytes_together(
        [x for each in feet for x in each], [i for i, e in zip(inside, feet, strict=True) for _ in e], line
    )
    seen, total = set[str](), 0.0
    for m, each in zip(group, feet, strict=True):
        moved: dict[str, float] = {}
        for (foot, _), bytes_ in zip(each, _moved_each(each, m.extents, cache, line, far=far), strict=True):
            buffer = foot.touch.buffer
            if buffer not in seen or not (together <= cache or foot.touch.write):
                moved[buffer] = max(moved.get(buffer, 0.0), bytes_)  # neighbours come in together
            if foot.touch.write and last and not _past_caches(m):
                moved[buffer] = moved.get(buffer, 0.0) + bytes_  # a line is read before a part of it is written
        total += missed * sum(moved.values())
        seen |= {foot.touch.buffer for foot, _ in each}
    return total


def _past_caches(m: SizedStatement) -> bool:
    """Whether a statement is an instruction of its own, as stores past the caches are."""
    return any(isinstance(s, InstrRegion) for s in m.place.around)


def _global_accesses(m: SizedStatement, packed: frozenset[str]) -> list[Touched]:
    every = zip(m.own, m.steps, m.held, strict=True)
    return [(Foot(t, steps, size), t.buffer in packed) for t, steps, (scope, size) in every if scope == "global"]


def _footprint_bytes(touched: Touched, extents: Mapping[str, float], line: int) -> float:
    foot, packed = touched
    if packed:
        elements = prod(e for v, e in extents.items() if foot.steps[v] != 0)
        return min(elements * foot.touch.dtype.bytes, foot.whole)
    return foot.bytes(extents, line)


def _bytes_together(feet: Sequence[Touched], inside: Sequence[Mapping[str, float]], line: int) -> float:
    """Bytes that these accesses touch, each buffer once."""
    held: dict[str, float] = {}
    for x, extents in zip(feet, inside, strict=True):
        name = x[0].touch.buffer
        held[name] = max(held.get(name, 0.0), _footprint_bytes(x, extents, line))
    return sum(held.values())


def _common_loops(group: Sequence[SizedStatement]) -> list[str]:
    """The loops around all statements of a nest."""
    first = [x.var for x in group[0].place.loops]
    for m in group[1:]:
        names = [x.var for x in m.place.loops]
        first = [a for a, b in zip(first, names, strict=False) if a == b]
    return first


def _moved_each(
    feet: Sequence[Touched], extents: Mapping[str, float], cache: float, line: int, *, far: bool
) -> list[float]:
    """Bytes of each access that come into the cache: of the loops of which it holds an iteration, what all touch.

    So of lines that one iteration shares with the next each comes once, and all again for the loops around.
    """
    names = list(extents)
    for around in range(len(names) + 1):
        inside = {v: extents[v] for v in names[around:]}
        if _bytes_together(feet, [inside] * len(feet), line) <= cache or around == len(names):
            outer = names[: max(0, around - 1)]
            inside = {v: extents[v] for v in names[len(outer) :]}
            return [
                _footprint_bytes(x, inside, line)
                * _entries(x[0], outer, extents)
                * (_slowness(x, inside, line) if far else 1.0)
                for x in feet
            ]
    return [0.0 for _ in feet]


def _slowness(touched: Touched, inside: Mapping[str, float], line: int) -> float:
    """How much longer the bytes of an access take than those of a stream."""
    foot, packed = touched
    run, jumps = 1.0, 1.0
    for v in reversed([*inside]):
        step = foot.steps[v]
        if step is not None and abs(step) <= run:
            run = max(run, abs(step) * inside[v])
        else:
            jumps *= inside[v]
        if jumps > STREAMS:
            break
    alone = run * foot.touch.dtype.bytes < SHORT_RUN * line and jumps > STREAMS
    return SCATTERED if alone and not packed and foot.whole > 2 * PAGE_BYTES else 1.0


def _entries(foot: Foot, around: Sequence[str], extents: Mapping[str, float]) -> float:
    """How often a footprint comes in anew: not for the innermost of the loops around that leave it where it is."""
    names = list(around)
    while names and foot.steps[names[-1]] == 0:
        names.pop()
    return prod(extents[v] for v in names)
