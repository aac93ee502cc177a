"""Questions about a nest that schedules ask: which loops are free, how long they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any

import loopir as lp


def extent(s: lp.Schedule, loop: str) -> int | None:
    """The constant number of iterations of `loop`, or None."""
    value = getattr(s.loop(loop).extent, "value", None)
    return value if isinstance(value, int) else None  # an extent that is read from memory has its load as a value


def if_legal(s: lp.Schedule, primitive: str, *args: object, **kwargs: object) -> lp.Schedule:
    """`s` after one step; `s` itself where the step is refused."""
    return getattr(s, primitive)(*args, **kwargs) if s.why(primitive, *args, **kwargs) is None else s


def legal(
    s: lp.Schedule, schedule: Callable[..., lp.Schedule | None], *args: Any, **options: Any
) -> lp.Schedule | None:
    """What `schedule` makes of `s`; None where it refuses, or lowering refuses what it asks."""
    try:
        return schedule(s, *args, **options)
    except (lp.ScheduleError, lp.LowerError, lp.TargetError):
        return None


def is_guarded(s: lp.Schedule, loop: str) -> bool:
    """Whether some of what stands in `loop` runs in some of its iterations only."""
    pending: list[Any] = [s.loop(loop)]
    while pending:
        x = pending.pop()
        if hasattr(x, "then"):
            return True
        pending += getattr(x, "body", ())
    return False


def indices_of(t: Any, reads: Iterable[Any]) -> list[Any]:
    """Those of `reads` that are indices in memory by which the read `t` finds its element."""
    return [x for x in reads if x is not t and x.dtype.is_integer and x.text in t.text]


def evaluates_functions(s: lp.Schedule, stage: str) -> bool:
    """Whether a value of `stage` is made by a function that takes several instructions after one another, as exp."""
    return next(functions_of(s, stage), None) is not None


def functions_of(s: lp.Schedule, stage: str, least: float = math.inf) -> Iterator[Any]:
    """The values of `stage`, whole ones before their parts, that are made by a function that takes several instructions
    after one another, as exp, or by one instruction that takes as long as `least` others, as a quotient."""
    pending: list[Any] = [s.loop(x) for x in s.loops(stage)[-1:]]
    while pending:
        x = pending.pop()
        function = getattr(x, "fn", None)
        work = getattr(function, "work", 1)
        if work > 1 and (getattr(function, "ulp", 0.0) > 0 or work >= least):
            yield x
        if getattr(x, "label", stage) == stage:
            inside = (getattr(x, name, ()) for name in ("body", "then", "orelse", "values", "args"))
            pending += [y for found in inside for y in found]
            pending += [getattr(x, name) for name in ("value", "a", "b") if hasattr(x, name)]


def divisions_in_values(s: lp.Schedule, stage: str) -> int:
    """How often the values of `stage`, and what decides between them, divide indices: subscripts do not count."""
    count = 0
    pending: list[Any] = [s.loop(x) for x in s.loops(stage)[-1:]]
    while pending:
        x = pending.pop()
        count += type(x).__name__ in ("FloorDiv", "Mod")
        names = ("body", "then", "orelse", "values", "args", "terms")
        pending += [y for found in (getattr(x, name, ()) for name in names) for y in found]
        pending += [getattr(x, name) for name in ("value", "cond", "of", "a", "b", "term") if hasattr(x, name)]
    return count


def iterations(s: lp.Schedule, loops: Iterable[str], unknown: int | None = None) -> int | None:
    """How many iterations `loops` have together, each that is not known taken to have `unknown`, if that is given."""
    counts = [unknown if (n := extent(s, x)) is None else n for x in loops]
    return None if None in counts else prod(n or 0 for n in counts)


def innermost(s: lp.Schedule, stage: str) -> str | None:
    """The innermost loop around `stage`; None if it is in none, or steps have shown that it never runs."""
    return next(reversed(s.loops(stage)), None) if stage in s.stages else None


def is_serial(s: lp.Schedule, loop: str) -> bool:
    return s.loop(loop).kind == "serial"


def free_loops(s: lp.Schedule, stage: str, inside: str | None = None) -> tuple[str, ...]:
    """The outermost loops around `stage`, or of those `inside` a loop of it, one inside the other, whose iterations are
    independent."""
    out: list[str] = []
    loops = s.loops(stage)
    for loop in loops if inside is None else loops[loops.index(inside) + 1 :]:
        if not is_serial(s, loop) or s.why("parallel", loop) is not None:
            break
        out.append(loop)
    return tuple(out)


def reads_own(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` reads a buffer that it writes, other than to add to it, as a scan does."""
    written = written_by(s, stage)
    return any(t.buffer in written for t in reads_of(s, stage))


def spatial_loops(s: lp.Schedule, stage: str) -> list[str]:
    """The loops of `stage` that it does not fold over, outermost first."""
    return [x for x in s.loops(stage) if x not in s.reduced(stage)]


def argument_names(s: lp.Schedule) -> frozenset[str]:
    """The names of the program's arguments: all other buffers are its own."""
    return frozenset(a.buffer.name for a in s.func.args)


def reads_of(s: lp.Schedule, stage: str) -> list[Any]:
    """The loads of `stage`, in order."""
    return [t for t in s.accesses(stage) if not t.write]


def written_by(s: lp.Schedule, stage: str) -> set[str]:
    """The buffers that `stage` stores to."""
    return {t.buffer for t in s.accesses(stage) if t.write}


def result_of(s: lp.Schedule, stage: str) -> str:
    """The buffer that `stage` stores to, the first if there are several."""
    return next(t.buffer for t in s.accesses(stage) if t.write)


def readers(s: lp.Schedule, stage: str) -> list[str]:
    """The other stages that read what `stage` writes."""
    written = written_by(s, stage)
    return [x for x in s.stages if x != stage and any(t.buffer in written for t in reads_of(s, x))]


def reader(s: lp.Schedule, stage: str) -> str | None:
    """The one stage that reads what `stage` writes; None if there is none, or several are."""
    found = readers(s, stage)
    return found[0] if len(found) == 1 else None


def fold_made(s: lp.Schedule) -> str:
    """The fold that the last step has made, beside a copy of what it goes on from, perhaps; or the one stage that it
    has made. ScheduleError if none."""
    made = s.last.stages
    found = [x for x in made if s.reduced(x)] or (made if len(made) == 1 else [])
    if not found:
        raise lp.ScheduleError("the last step has made no fold: what it was to copy never runs")
    return found[0]


def counting_same(s: lp.Schedule, stage: str, loop: str, among: Sequence[str] | None = None) -> dict[str, str]:
    """By stage, of those `among` all, the loop that counts what `loop` of `stage` does: by which it finds the same
    dimension of a buffer."""
    loops, dims = {stage: loop}, set[tuple[str, int]]()
    while True:
        known = len(loops)
        for x in s.stages if among is None else among:
            for buffer, n, index in [(t.buffer, n, d) for t in s.accesses(x) for n, d in enumerate(t.subscripts)]:
                if index == loops.get(x):
                    dims.add((buffer, n))
                elif x not in loops and (buffer, n) in dims and index in s.loops(x):
                    loops[x] = index
        if len(loops) == known:
            return loops


def one_nest(s: lp.Schedule, stage: str) -> bool:
    """Whether nothing else stands in the outermost loop around `stage`."""
    loops = s.loops(stage)
    return bool(loops) and _count(s.loop(loops[0])) == 1


def _count(loop: Any) -> int:
    """How many stages stand in `loop`."""
    count, pending = 0, [loop]
    while pending:
        x = pending.pop()
        count += hasattr(x, "label")
        pending += [*getattr(x, "body", ()), *getattr(x, "then", ()), *getattr(x, "orelse", ())]
    return count


def fused(s: lp.Schedule, loops: Sequence[str]) -> tuple[lp.Schedule, str]:
    """`loops`, one inside the other, as one loop; from the inside, as far as it goes. ScheduleError for none."""
    if not loops:
        raise lp.ScheduleError("a stage that stands in no loop has none to fuse")
    fused = loops[-1]
    for loop in reversed(loops[:-1]):
        if s.why("fuse", loop, fused) is not None:
            break
        s, (fused,) = s.fuse(loop, fused).with_loops
    return s, fused


def in_lanes(
    s: lp.Schedule, loop: str, lanes: int, inside: Sequence[str] = (), *, partition: bool = True
) -> lp.Schedule:
    """`loop` in vectors of `lanes`, brought inside the loops `inside` it, whole vectors parted from the last one if
    `partition`; `s` itself where that is refused."""
    if s.why("split", loop, lanes) is not None:
        return s
    t, (outer, lane) = s.split(loop, lanes).with_loops
    order = (outer, *inside, lane)
    if inside and t.why("reorder", *order) is not None:
        return s
    t = t.reorder(*order) if inside else t
    if t.why("vectorize", lane) is not None:
        return s
    t = t.vectorize(lane)
    return if_legal(t, "partition", outer) if partition else t


def batched(s: lp.Schedule, batch: Sequence[str]) -> lp.Schedule:
    """Loops of a batch, one inside the other, as the third dimension of the grid, but for those that steps fused."""
    loops = [x for x in batch if x in s.loops()]
    if not loops:
        return s
    s, loop = fused(s, loops)
    return s.bind(loop, "blockIdx.z")
