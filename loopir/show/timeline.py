"""The times of the kernels of a call, beside what the model of the machine predicts: what `Kernel.profile` gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple, Protocol

from loopir.ir.grammar import Func, Kernel, Reduce, Store
from loopir.ir.traverse.walk import labels_of, statements
from loopir.show.cpu_time import NestCost
from loopir.show.report import Report
from loopir.show.units import seconds as time_of, si

BAR, STAGES = 28, 34
"""Characters of the timeline, and of the names of stages, in a row."""
THROUGHPUT = ("memory", "cache", "instructions", "first cache", "shared memory", "tensor cores")
"""The parts of a kernel's time on a GPU that are limits of a rate, and no wait."""


class Cost(NamedTuple):
    """What all runs of a kernel in one call are predicted to take, the bytes of memory that they move, and the seconds
    of the slowest rate alone."""

    seconds: float
    bytes: float
    roofline: float


class TimedRun(Protocol):
    """One run of a kernel, with seconds after the start of the call."""

    @property
    def kernel(self) -> int: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


@dataclass(frozen=True)
class KernelTime:
    """One kernel in a call: the stages it computes, how often it ran, when first, for how many seconds in all, and what
    was predicted, None where the model has no number for it alone."""

    name: str
    stages: tuple[str, ...]
    runs: int
    start: float
    seconds: float
    predicted: Cost | None

    @property
    def roofline(self) -> float | None:
        """The share of the roofline that it reaches: the least time by the machine's rates, over the time measured."""
        return self.predicted.roofline / self.seconds if self.predicted is not None and self.seconds > 0 else None


@dataclass(frozen=True)
class Profile:
    """The measured times of one call, kernel by kernel. Prints as a timeline."""

    title: str
    machine: str
    seconds: float
    rows: tuple[KernelTime, ...]
    spans: tuple[tuple[int, float, float], ...]
    """Each run of a kernel in order: which row, from when, to when."""

    @property
    def predicted(self) -> float | None:
        """The seconds predicted for all kernels, None where one has no prediction."""
        costs = [r.predicted for r in self.rows]
        return sum(c.seconds for c in costs if c is not None) if None not in costs else None

    def __str__(self) -> str:
        predicted = "" if self.predicted is None else f", {time_of(self.predicted)} predicted"
        lines = [f"{self.title} on {self.machine}: {time_of(self.seconds)} measured{predicted}"]
        table = [("stages", "start", "time", "share", "predicted", "memory", "roofline")]
        table += [_cells(r, self.seconds) for r in self.rows]
        widths = [max(len(cells[n]) for cells in table) for n in range(len(table[0]))]
        for n, cells in enumerate(table):
            figures = [c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True)]
            bar = "timeline" if n == 0 else self._bar(n - 1)
            lines.append("  ".join([cells[0].ljust(widths[0]), *figures, bar]).rstrip())
        idle = self.seconds - sum(r.seconds for r in self.rows)
        lines.append(f"{time_of(max(0.0, idle))} between kernels")
        return "\n".join(lines)

    __repr__ = __str__

    def _bar(self, row: int) -> str:
        """The part of the call in which a kernel runs, as characters."""
        drawn = [" "] * BAR
        for n, start, end in self.spans:
            if n == row and self.seconds > 0:
                first = min(BAR - 1, int(start / self.seconds * BAR))
                for at in range(first, max(first + 1, min(BAR, round(end / self.seconds * BAR)))):
                    drawn[at] = "#"
        return f"|{''.join(drawn)}|"

    def _repr_html_(self) -> str:
        """The timeline as a picture, above the table."""
        height, width, left = 22, 640, 240
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" '
            f'height="{height * len(self.rows) + 8}" font-family="monospace" font-size="12">'
        ]
        for n, r in enumerate(self.rows):
            parts.append(
                f'<text x="{left - 8}" y="{n * height + 16}" text-anchor="end">{escape(_stage_list(r))}</text>'
            )
            parts.append(f'<text x="{left + width + 6}" y="{n * height + 16}">{time_of(r.seconds)}</text>')
        for n, start, end in self.spans:
            x, wide = start / self.seconds * width, max(1.0, (end - start) / self.seconds * width)
            parts.append(
                f'<rect x="{left + x:.1f}" y="{n * height + 4}" width="{wide:.1f}" height="{height - 6}" '
                f'fill="#4878a8"><title>{escape(_tooltip(self.rows[n]))}</title></rect>'
            )
        return f"<div>{''.join(parts)}</svg><pre>{escape(str(self))}</pre></div>"


def _stage_list(r: KernelTime) -> str:
    """The stages of a kernel in so many characters."""
    listed = ", ".join(r.stages) or r.name
    if len(listed) > STAGES:
        listed = f"{listed[: STAGES - 3]}..."
    return f"{listed} x {r.runs}" if r.runs > 1 else listed


def _tooltip(r: KernelTime) -> str:
    predicted = "" if r.predicted is None else f", {time_of(r.predicted.seconds)} predicted"
    return f"{r.name}: {', '.join(r.stages)}; {time_of(r.seconds)}{predicted}"


def _cells(r: KernelTime, whole: float) -> tuple[str, ...]:
    share = f"{100 * r.seconds / whole:.0f} %" if whole > 0 else ""
    if r.predicted is None:
        return _stage_list(r), time_of(r.start), time_of(r.seconds), share, "", "", ""
    roofline = "" if r.roofline is None else f"{100 * r.roofline:.0f} %"
    cost = r.predicted
    return (
        _stage_list(r),
        time_of(r.start),
        time_of(r.seconds),
        share,
        time_of(cost.seconds),
        f"{si(cost.bytes)}B",
        roofline,
    )


def profile(
    func: Func, kernels: Sequence[Kernel], sizes: Mapping[str, int], costs: Sequence[Cost | None], machine: str,
    spans: Sequence[TimedRun], whole: float,
) -> Profile:  # fmt: skip
    """The Profile of a call of `func`, lowered to `kernels`, that took `whole` seconds, from its `spans`."""
    order = list(dict.fromkeys(s.kernel for s in spans))
    rows: list[KernelTime] = []
    for k in order:
        own = [s for s in spans if s.kernel == k]
        time = sum(s.end - s.start for s in own)
        rows.append(KernelTime(kernels[k].name, _stages_of(func, kernels[k]), len(own), own[0].start, time, costs[k]))
    at = f"({', '.join(f'{k}={v}' for k, v in sizes.items())})" if sizes else ""
    runs = tuple((order.index(s.kernel), s.start, s.end) for s in spans)
    return Profile(f"{func.name}{at}", machine, whole, tuple(rows), runs)


def labels_in(kernel: Kernel) -> list[str]:
    """The labels of the statements of a kernel."""
    return [s.label for s in statements(kernel.body) if isinstance(s, Store | Reduce)]


def _stages_of(func: Func, kernel: Kernel) -> tuple[str, ...]:
    """The statements of `func` that a kernel computes, in order."""
    own = set(labels_in(kernel))
    return tuple(x for x in labels_of(func) if x in own)


def cpu_costs(kernels: Sequence[Kernel], nests: Sequence[NestCost]) -> list[Cost | None]:
    """What each kernel is predicted to cost: the sum of the nests that it has alone, None if it shares one."""
    labels = [{*labels_in(k)} for k in kernels]
    found: list[Cost | None] = [Cost(0.0, 0.0, 0.0) for _ in kernels]
    for nest in nests:
        having = [n for n, own in enumerate(labels) if own & nest.labels]
        for n in having:
            cost = found[n]
            alone = len(having) == 1
            found[n] = _sum(cost, nest) if cost is not None and alone else None
    return found


def _sum(cost: Cost, nest: NestCost) -> Cost:
    return Cost(cost.seconds + nest.seconds, cost.bytes + nest.bytes, cost.roofline + nest.roofline)


def gpu_costs(kernels: Sequence[Kernel], report: Report) -> list[Cost | None]:
    """What each kernel is predicted to cost by `report`, without launching it."""
    by_name = {k.work.name: k for k in report.kernels}
    found: list[Cost | None] = []
    for kernel in kernels:
        k = by_name.get(kernel.name)
        roofline = max(k.seconds[part] for part in THROUGHPUT) if k is not None else 0.0
        found.append(None if k is None else Cost(k.total, k.moved * k.times, roofline * k.times))
    return found
