"""What may be done next: legal steps from here, the one that would win most first, each as the call to paste.

Moves are tried, not guessed: each is taken on the Schedule, so that it is legal, and the nest it gives is estimated.
A move is a step or two that people take together (split a loop and make the inner one a vector), written by the form
of the nest alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from loopir.errors import LoopirError
from loopir.ir.grammar import AXES, Func, Int
from loopir.schedule.core.trace import Step, script
from loopir.schedule.schedule import Schedule
from loopir.show.estimate import CPU, GPU, Chip, Estimate, estimate
from loopir.witness import page

BUDGET = 0.7
"""Seconds after which no further move is tried."""
TILES = (32, 64)
SHORT = tuple(Int(n) for n in range(2, 9))
SUGGESTED_THREADS = 256


@dataclass(frozen=True)
class Suggestion:
    """A legal move: the call to paste, how many times as fast the nest would be by estimate, and what it changes."""

    call: str
    speedup: float
    before: Estimate
    after: Estimate
    schedule: Schedule

    def __str__(self) -> str:
        changes = [f"{self.speedup:.3g} x as fast"]
        if self.after.at_once != self.before.at_once:
            changes.append(f"{self.before.at_once:.0f} -> {self.after.at_once:.0f} at once")
        if self.after.bytes != self.before.bytes:
            changes.append(f"{self.after.bytes / max(1.0, self.before.bytes):.2g} x the bytes from memory")
        return f"{self.call}  # {', '.join(changes)}"

    __repr__ = __str__


class Suggestions(tuple[Suggestion, ...]):
    """Suggestions, the best first, which print one a line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no move that was tried makes it faster, by estimate"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page(str(self))


def suggest(schedule: Schedule, n: int = 5, /, target: str | None = None, **sizes: int) -> Suggestions:
    """The `n` moves from here that would win most on `target` ("llvm" or "cuda"; as the loops are bound, else llvm).

    Sizes that are not given are taken for 1024. The estimate ranks moves, and predicts no time; see `Schedule.report`.
    """
    if target not in (None, "llvm", "cuda"):
        raise ValueError(f"suggestions are for llvm or cuda, not for {target!r}")
    bound = any(schedule.loop(x).kind in AXES for x in schedule.loops())
    gpu = bound if target is None else target == "cuda"
    chip, start = (GPU if gpu else CPU), perf_counter()
    before = estimate(schedule.func, sizes, chip)
    found: dict[Func, Suggestion] = {}
    for move in _moves(schedule, chip, gpu):
        if perf_counter() - start > BUDGET:
            break
        try:
            after = schedule.replay(move)
        except LoopirError:
            continue
        e = estimate(after.func, sizes, chip)
        found.setdefault(after.func, Suggestion(_call_text(move), before.seconds / e.seconds, before, e, after))
    ranked = sorted(found.values(), key=lambda s: -s.speedup)
    return Suggestions(s for s in ranked[:n] if s.speedup > 1.0)


def _call_text(move: tuple[Step, ...]) -> str:
    return "s" + "".join(line.removeprefix("s = s") for line in script(move).splitlines())


def _apply_named(name: str, *args: object, **kwargs: object) -> Step:
    return Step(name, args, tuple(kwargs.items()))


def _moves(s: Schedule, chip: Chip, gpu: bool) -> Iterator[tuple[Step, ...]]:
    """Moves worth trying, those that win most as a rule first."""
    loops = [x for x in s.loops() if s.loop(x).kind == "serial"]
    for stage in s.stages:
        yield (_apply_named("compute_inline", stage),)
    for stage in s.stages:
        around = s.loops(stage)
        serial = [x for x in around if x in loops]
        if gpu:
            yield from _threads(s, serial)
        else:
            yield from ((_apply_named("parallel", x),) for x in serial[:2])
        yield from _vectorized(s, stage, serial, int(chip.lanes) if not gpu else 4)
        for i, outer in enumerate(serial):
            for inner in serial[i + 1 :]:
                order = [inner if x == outer else outer if x == inner else x for x in serial]
                yield (_apply_named("reorder", *order),)
                for tile in TILES:
                    yield (_apply_named("tile", outer, inner, tile, tile),)
        yield from ((_apply_named("unroll", x),) for x in serial if s.loop(x).extent in SHORT)
    yield from _suggest_compute_at(s)


def _threads(s: Schedule, serial: list[str]) -> Iterator[tuple[Step, ...]]:
    if serial:
        first, last = serial[0], serial[-1]
        yield (
            _apply_named("split", first, SUGGESTED_THREADS),
            _apply_named("bind", f"{first}_o", "blockIdx.x"),
            _apply_named("bind", f"{first}_i", "threadIdx.x"),
        )
        if first != last:
            yield _apply_named("bind", first, "blockIdx.x"), _apply_named("bind", last, "threadIdx.x")


def _vectorized(s: Schedule, stage: str, serial: list[str], lanes: int) -> Iterator[tuple[Step, ...]]:
    """A loop along which memory is contiguous, brought inside and made lanes."""
    for x in serial:
        if not any(t.contiguous(x) for t in s.accesses(stage)):
            continue
        inner = f"{x}_i"
        order = [*(f"{x}_o" if y == x else y for y in serial), inner]
        yield _apply_named("split", x, lanes), _apply_named("vectorize", inner)
        if serial[-1] != x:
            yield _apply_named("split", x, lanes), _apply_named("reorder", *order), _apply_named("vectorize", inner)


def _suggest_compute_at(s: Schedule) -> Iterator[tuple[Step, ...]]:
    """Producers into the loops of what reads them."""
    written = {t.buffer: stage for stage in s.stages for t in s.accesses(stage) if t.write}
    for stage in s.stages:
        for buffer in dict.fromkeys(t.buffer for t in s.accesses(stage) if not t.write):
            producer = written.get(buffer)
            if producer is not None and producer != stage:
                for loop in s.loops(stage)[:3]:
                    yield (_apply_named("compute_at", producer, loop),)
