"""The price of a schedule: seconds by the model of its target, kernels, bytes moved, and memory for what is between.

On a GPU the seconds are those of `report` without what the compiler says of registers, so that a price takes
milliseconds; on a CPU those of `cpu_seconds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loopir.ir.grammar import Alloc, Func
from loopir.ir.traverse.walk import top_level_nests
from loopir.machines import Cpu, Machine
from loopir.show.cpu_time import cpu_seconds
from loopir.show.estimate import TYPICAL_SIZE, at_sizes, size_of
from loopir.show.report import report
from loopir.show.units import seconds, si


@dataclass(frozen=True)
class Prediction:
    """What a schedule is predicted to cost at some sizes."""

    seconds: float
    kernels: int
    bytes: float
    """Moved between the chip and its memory."""
    temp_bytes: float
    """Of the buffers that live between kernels."""
    parts: Mapping[str, float] = field(default_factory=dict[str, float], compare=False, repr=False)
    """On a GPU, the seconds that all kernels would take for one thing alone, by its name in a report: "instructions",
    "tensor cores", "memory"."""

    def __repr__(self) -> str:
        kernels = f"{self.kernels} kernel{'s' * (self.kernels != 1)}"
        moved = f", {si(self.bytes)}B moved" if self.bytes else ""
        return f"{seconds(self.seconds)} predicted, {kernels}{moved}"


def predict_gpu(func: Func, lowered: Func, sizes: Mapping[str, int], gpu: Machine) -> Prediction:
    """The price of `func`, which was `lowered` for `gpu`."""
    given = {n: sizes.get(n, TYPICAL_SIZE) for n in func.sizes}
    found = report(lowered, given, {}, gpu)
    moved = sum(k.moved * k.times for k in found.kernels)
    names = dict.fromkeys(x for k in found.kernels for x in k.seconds)
    parts = {x: sum(k.seconds[x] * k.times for k in found.kernels) for x in names}
    return Prediction(found.seconds, sum(k.times for k in found.kernels), moved, _between(func, given), parts)


def predict_cpu(func: Func, sizes: Mapping[str, int], cpu: Cpu, threads: int) -> Prediction:
    """The price of `func` on so many threads of `cpu`."""
    given = {n: v for n, v in sizes.items() if n in func.sizes}
    seconds, moved = cpu_seconds(func, given, cpu, threads)
    return Prediction(seconds, len(top_level_nests(func)), moved, _between(func, given))


def _between(func: Func, sizes: Mapping[str, int]) -> float:
    held = {a.buffer.name: a.buffer for t in top_level_nests(func) for a in t.around if isinstance(a, Alloc)}
    return sum(size_of(b, at_sizes(func, sizes)) for b in held.values())
