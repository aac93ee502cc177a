"""A program drawn at random: its inputs, ours and torch's form of it, and the least time that it can take.

The families are functions from a random generator to a Program, and stand in `wide_memory.py`, `wide_products.py`,
`wide_convs.py` and `wide_loops.py`; `wide_programs.py` makes the table.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import loopir as lp
from loopir.ir.dtypes import dtype
from loopir.ir.layout.layouts import evaluate

TENSOR_SIDE = 16
"""Rows, columns and terms from which on a product belongs on tensor cores."""
SIMT_SHARE = 0.8
"""What long products of float32 reach of the peak of the ordinary units."""


@dataclass(frozen=True)
class Input:
    """An array: its shape, its dtype, and for whole numbers the least and the largest value plus one."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: int = 0
    high: int = 0

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * dtype(self.dtype).bytes


@dataclass(frozen=True)
class Program:
    """One program: ours from placeholders, torch's from the torch module and tensors.

    `flops` counts the multiplications and additions of products, and `unit` names what they are of: a dtype of tensor
    cores, "tf32", or "float32" for the ordinary units. `sides` are the rows, columns and terms of a product, or of the
    smallest of several. `moved` is how many bytes have to move, where that is not all of the arguments. `compiled` is
    the form that torch.compile takes, where it is not `torch`; both update in place what ours does.
    """

    family: str
    name: str
    inputs: tuple[Input, ...]
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    flops: float = 0.0
    unit: str = "bfloat16"
    sides: tuple[int, ...] = ()
    moved: int | None = None
    compiled: Callable[..., Any] | None = None

    @property
    def on_tensor_cores(self) -> bool:
        """Whether it is a product that belongs on tensor cores."""
        return bool(self.sides) and self.unit != "float32" and min(self.sides) >= TENSOR_SIDE

    def schedule(self) -> lp.Schedule:
        """The naive program."""
        made = self.ours(*(lp.placeholder(x.shape, x.dtype, name=f"x{k}") for k, x in enumerate(self.inputs)))
        return lp.Schedule(list(made) if isinstance(made, tuple) else made)

    def floor(self, s: lp.Schedule, gpu: lp.Machine) -> float:
        """Seconds below which no schedule of `s`, this program, goes on `gpu`: all bytes moved once, or all operations
        at the rate of their unit, whichever takes longer, a launch, and the wait for the first bytes."""
        return max(self.bytes(s) / gpu.copy_bandwidth, self.flops / self._rate(gpu)) + gpu.launch + gpu.latency

    def bytes(self, s: lp.Schedule) -> float:
        """Bytes of all arguments of `s`, this program, those that are read and written twice."""
        if self.moved is not None:
            return float(self.moved)
        sizes = ((a, math.prod(evaluate(d, {}) for d in a.buffer.shape)) for a in s.func.args)
        return float(sum(n * a.buffer.dtype.bytes * (2 if a.access == "inout" else 1) for a, n in sizes))

    def _rate(self, gpu: lp.Machine) -> float:
        """Operations a second of the unit."""
        if self.unit == "float32":
            return SIMT_SHARE * 2 * gpu.lanes * gpu.processors * gpu.clock
        rate = gpu.tensor_rate("float32" if self.unit == "tf32" else self.unit)
        return max(rate.warp, rate.warpgroup)


Family = Callable[[random.Random], Program]
FAMILIES: dict[str, Family] = {}


def family(make: Family) -> Family:
    FAMILIES[make.__name__] = make
    return make


def programs(seed: int, each: int, wanted: list[str] | None = None) -> Iterator[Program]:
    """`each` programs of every wanted family; what is drawn of one does not depend on the others."""
    for name, make in FAMILIES.items():
        if not wanted or name in wanted:
            for k in range(each):
                yield make(random.Random(f"{seed} {name} {k}"))


def size(rng: random.Random, low: int, high: int, of: int = 1) -> int:
    """A size between `low` and `high`, as many of each magnitude: a power of two, a multiple of 8, or any, a third of
    the time each; a multiple `of`."""
    exact = math.exp(rng.uniform(math.log(low), math.log(high)))
    unit = math.lcm(of, rng.choice([1, 8, 0])) or 1 << round(math.log2(exact))
    return min(max(round(exact / unit) * unit, -(-low // of) * of), high // of * of)


def wide(x: Any) -> Any:
    return lp.cast(x, "float32")


def real(rng: random.Random) -> str:
    return rng.choice(["float32", "bfloat16"])


def rectangle(rng: random.Random, low: int, high: int, rows: int = 32, columns: int = 32) -> tuple[int, int]:
    """Rows and columns of an array of `low` to `high` elements, flat or tall, of so many rows and columns at least."""
    total = math.exp(rng.uniform(math.log(low), math.log(high)))
    across = size(rng, columns, int(total) // rows)
    return max(rows, size(rng, max(1, int(total / across * 0.9)), int(total / across) + 1)), across
