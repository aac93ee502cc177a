"""The memory-bound kernels that are measured and counted: what is computed, of which arrays, and the bytes that takes.

No GPU and no torch is needed here: `gpu_memory` runs these beside torch, `gpu_symbolic` beside their twins for sizes
that are not known, and a test counts what their schedules move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import loopir as lp

DTYPES = {"f32": "float32", "bf16": "bfloat16"}
MANY = 1 << 26
SHAPES = ((8192, 8192), (32768, 1024), (4096, 32768), (8191, 5003))
SIZES = {"float32": 4, "bfloat16": 2}
LARGEST = 8
"""What sums are checked with, at most: those of these rows are far below 2^24."""


@dataclass(frozen=True)
class Row:
    """One kernel: `kernel` names what is computed, in float32 between load and store.

    `widens` is whether the expression sees to that itself: of what the library has a function for, it is given the
    arrays as they are.
    """

    kernel: str
    dtype: str
    title: str
    shapes: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    expression: Callable[..., Any]
    widens: bool = False

    @property
    def name(self) -> str:
        short = next(s for s, t in DTYPES.items() if t == self.dtype)
        return f"{self.kernel} {short} {self.title}"

    @property
    def bytes(self) -> int:
        """What has to be moved: every input once, every output once."""
        moved = sum(map(prod, self.shapes)) + prod(self.result)
        if self.kernel == "jacobi":
            moved = 2 * prod(self.result)
        return moved * SIZES[self.dtype]

    @property
    def summed(self) -> bool:
        """Whether it only adds what it is given: of small integers, of either sign, the sums are exact in any order."""
        return "sum" in self.kernel

    @property
    def aligned(self) -> bool:
        """Whether its rows are whole vectors of 16 bytes."""
        return all(shape[-1] * SIZES[self.dtype] % 16 == 0 for shape in self.shapes)

    def ours(self, *, symbolic: bool = False) -> lp.Schedule:
        """The naive program; with `symbolic`, for all sizes."""
        shapes: list[tuple[Any, ...]] = list(self.shapes)
        if symbolic:
            least = 3 if self.kernel == "jacobi" else 1
            names = tuple(lp.symbol(f"n{k}", min=least) for k in range(len(shapes[0])))
            shapes = [names[len(names) - len(shape) :] for shape in shapes]  # what is shorter runs along the rows
        given = [lp.placeholder(shape, self.dtype, name=f"x{k}") for k, shape in enumerate(shapes)]
        taken = given if self.widens else [lp.cast(x, "float32") for x in given]
        return lp.Schedule(self.expression(*taken).astype(self.dtype))


def rows() -> Iterator[Row]:
    for short, dtype in DTYPES.items():
        for kernel, expression in CHAINS.items():
            yield Row(kernel, dtype, "64M", ((MANY,),), (MANY,), expression)
        for r, c in ((8192, 8192), (8191, 5003)):
            yield Row("transpose", dtype, f"{r}x{c}", ((r, c),), (c, r), lambda x: x.T)
            yield Row("scale+bias+relu", dtype, f"{r}x{c}", ((r, c), (c,), (c,)), (r, c), scale_bias_relu)
        for r, c in SHAPES:
            shape = f"{r}x{c}"
            yield Row("softmax", dtype, shape, ((r, c),), (r, c), lp.softmax, widens=True)
            yield Row("layernorm", dtype, shape, ((r, c), (c,), (c,)), (r, c), layernorm)
            yield Row("rmsnorm", dtype, shape, ((r, c), (c,)), (r, c), rmsnorm)
            yield Row("row sum", dtype, shape, ((r, c),), (r,), lambda x: x.sum(axis=1))
            yield Row("column sum", dtype, shape, ((r, c),), (c,), lambda x: x.sum(axis=0))
            yield Row("full sum", dtype, shape, ((r, c),), (), lambda x: x.sum())
        if short == "bf16":
            yield Row("jacobi", "float32", "8192x8192", ((8194, 8194),), (8192, 8192), jacobi)


# ---------------------------------------------------------------- expressions


def gelu(x: Any) -> Any:
    return x * 0.5 * (1.0 + lp.tanh(x * 0.7978845608028654 + x * x * x * (0.044715 * 0.7978845608028654)))


def sincos(x: Any) -> Any:
    return lp.sin(x) * lp.sin(x) + lp.cos(x) * lp.cos(x)


def scale_bias_relu(x: Any, scale: Any, bias: Any) -> Any:
    return lp.relu(x * scale + bias)


def layernorm(x: Any, w: Any, b: Any) -> Any:
    off = x - lp.mean(x, axis=-1, keepdims=True)
    return off * lp.rsqrt(lp.mean(off * off, axis=-1, keepdims=True) + 1e-5) * w + b


def rmsnorm(x: Any, w: Any) -> Any:
    return x * lp.rsqrt(lp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * w


def jacobi(u: Any) -> Any:
    return 0.2 * (u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


CHAINS: dict[str, Callable[[Any], Any]] = {"gelu": gelu, "sin^2+cos^2": sincos, "add": lambda x: x + 2.0}
