"""Programs that no table of ours was made for: families that people write, with sizes and dtypes drawn at random.

    python benchmarks/wide_programs.py [--seed 0] [--each 4] [--families pool,conv] [--arch sm_90a] [--write]

prints what `schedules.auto` makes of each: kernels, predicted microseconds, and how far over the floor that is. The
floor is the larger of two times: every input and output moved once at the speed of memory, and every operation at the
rate of the unit that does it best. No GPU and no torch is needed here; `gpu_wide.py` measures the same programs beside
torch.compile.
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tables

import loopir as lp
from loopir import schedules
from loopir.ir.layout.layouts import evaluate

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "uint8": 1, "int32": 4, "int64": 8, "float64": 8}


@dataclass(frozen=True)
class Input:
    """An array: its shape, its dtype, and for whole numbers the least and the largest value plus one."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: int = 0
    high: int = 0

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * BYTES[self.dtype]


@dataclass(frozen=True)
class Program:
    """One program: ours from placeholders, torch's from the torch module and tensors.

    `flops` counts multiplications and additions of products alone, as of bfloat16 on tensor cores: those of float32, on
    the ordinary units, count 14 times. `read` is how many bytes of the inputs are needed, where that is not all.
    """

    family: str
    name: str
    inputs: tuple[Input, ...]
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    flops: float = 0.0
    read: int | None = None

    def schedule(self) -> lp.Schedule:
        """The naive program."""
        made = self.ours(*(lp.placeholder(x.shape, x.dtype, name=f"x{k}") for k, x in enumerate(self.inputs)))
        return lp.Schedule(list(made) if isinstance(made, tuple) else made)


Family = Callable[[random.Random], Program]
FAMILIES: dict[str, Family] = {}


def family(make: Family) -> Family:
    FAMILIES[make.__name__] = make
    return make


def programs(seed: int, each: int, wanted: list[str] | None = None) -> Iterator[Program]:
    """`each` programs of every wanted family; what is drawn of one does not depend on the others."""
    for name, make in FAMILIES.items():
        if not wanted or any(w in name for w in wanted):
            for k in range(each):
                yield make(random.Random(f"{seed} {name} {k}"))


def wide(x: Any) -> Any:
    return lp.cast(x, "float32")


def real(rng: random.Random) -> str:
    return rng.choice(["float32", "bfloat16"])


# ---------------------------------------------------------------- elementwise, and what is small


@family
def chain(rng: random.Random) -> Program:
    """A chain with a row and a column broadcast along it."""
    r, c, t = rng.choice([2048, 4096, 8191]), rng.choice([1000, 4096, 5003, 8192]), real(rng)
    return Program(
        "chain",
        f"silu(x * row + column) * x {t} {r}x{c}",
        (Input((r, c), t), Input((c,), t), Input((r, 1), t)),
        lambda x, w, b: (lp.silu(wide(x) * wide(w) + wide(b)) * wide(x)).astype(t),
        lambda torch, x, w, b: torch.nn.functional.silu(x * w + b) * x,
    )


@family
def outputs(rng: random.Random) -> Program:
    """A chain of which three values are asked for."""
    n, t = rng.choice([1 << 22, 10_000_019, 1 << 24]), real(rng)

    def ours(x: Any, y: Any) -> Any:
        a = lp.tanh(wide(x) + wide(y))
        b = a * wide(x)
        return a.astype(t), b.astype(t), (b + lp.relu(a)).astype(t)

    def theirs(torch: Any, x: Any, y: Any) -> Any:
        a = torch.tanh(x + y)
        b = a * x
        return a, b, b + torch.relu(a)

    return Program("outputs", f"three outputs of a chain {t} {n}", (Input((n,), t), Input((n,), t)), ours, theirs)


@family
def adamw(rng: random.Random) -> Program:
    """A step of AdamW over several tensors."""
    sizes = [rng.choice([1000, 65536, 1 << 20, 4_000_001]) for _ in range(rng.choice([2, 4]))]

    def step(lib: Any, p: Any, g: Any, m: Any, v: Any) -> tuple[Any, ...]:
        m1, v1 = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
        return p * (1.0 - 1e-5) - m1 * 1e-3 / (lib.sqrt(v1 * 1.5) + 1e-8), m1, v1

    def every(lib: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        given = (*given[: 3 * len(sizes)], *(abs(v) for v in given[3 * len(sizes) :]))
        parts = [given[k * len(sizes) : (k + 1) * len(sizes)] for k in range(4)]
        return tuple(x for group in zip(*parts) for x in step(lib, *group))

    inputs = tuple(Input((n,)) for _ in range(4) for n in sizes)
    name = f"adamw of {'+'.join(map(str, sizes))}"
    return Program("adamw", name, inputs, lambda *xs: every(lp, xs), lambda torch, *xs: every(torch, xs))


@family
def permute(rng: random.Random) -> Program:
    """Dimensions in another order, with a cast."""
    order = rng.choice([(0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (3, 2, 1, 0)])
    shape, t = (rng.choice([8, 32]), rng.choice([12, 64, 96]), rng.choice([56, 128]), rng.choice([56, 64])), real(rng)
    return Program(
        "permute",
        f"transpose {order} {t} {shape}",
        (Input(shape, t),),
        lambda x: (wide(x).transpose(order) * 2.0).astype("bfloat16"),
        lambda torch, x: (x.permute(order) * 2.0).to(torch.bfloat16).contiguous(),
    )


# ---------------------------------------------------------------- folds of few elements


@family
def pool(rng: random.Random) -> Program:
    """Windows of an image, by maximum or mean."""
    n, c, h, k = rng.choice([4, 16]), rng.choice([32, 64]), rng.choice([56, 112, 113]), rng.choice([2, 3])
    s, mean, t = rng.choice([k, 2]), rng.random() < 0.5, real(rng)
    size = (h - k) // s + 1

    def ours(x: Any) -> Any:
        u, v = lp.reduce_axis(k, name="u"), lp.reduce_axis(k, name="v")
        fold = lp.sum if mean else lp.max
        pooled = lp.compute(
            (n, c, size, size), lambda b, z, i, j: fold(wide(x[b, z, i * s + u, j * s + v]), axis=(u, v)), name="pool"
        )
        return (pooled * (1.0 / (k * k)) if mean else pooled).astype(t)

    def theirs(torch: Any, x: Any) -> Any:
        f = torch.nn.functional
        return f.avg_pool2d(x, k, s) if mean else f.max_pool2d(x, k, s)

    kind = "mean" if mean else "max"
    return Program("pool", f"{kind} pool {k}x{k}/{s} {t} {n}x{c}x{h}x{h}", (Input((n, c, h, h), t),), ours, theirs)


@family
def causal_conv(rng: random.Random) -> Program:
    """Causal depthwise convolution over time, as in Mamba: four taps, a bias, silu."""
    b, n, d, t, k = rng.choice([1, 8]), rng.choice([2048, 4096]), rng.choice([1536, 2048, 4096]), real(rng), 4

    def ours(x: Any, w: Any, bias: Any) -> Any:
        padded = lp.pad(x, [(0, 0), (k - 1, 0), (0, 0)])
        u = lp.reduce_axis(k, name="u")
        y = lp.compute((b, n, d), lambda a, i, z: lp.sum(wide(padded[a, i + u, z]) * wide(w[z, u]), axis=u), name="y")
        return lp.silu(y + wide(bias)).astype(t)

    def theirs(torch: Any, x: Any, w: Any, bias: Any) -> Any:
        f = torch.nn.functional
        y = f.conv1d(f.pad(x.transpose(1, 2), (k - 1, 0)), w[:, None, :], bias, groups=d)
        return f.silu(y).transpose(1, 2).contiguous()

    inputs = (Input((b, n, d), t), Input((d, k), t), Input((d,), t))
    return Program("causal_conv", f"causal conv1d {t} {b}x{n}x{d}", inputs, ours, theirs)


@family
def stencil(rng: random.Random) -> Program:
    """All 27 neighbours of a point in space, or those of 3 x 3 in an image of bytes."""
    if rng.random() < 0.3:
        n = rng.choice([2048, 4000])

        def blurred(x: Any) -> Any:
            total = sum(lp.cast(x[i : i + n, j : j + n], "int32") for i in range(3) for j in range(3))
            return (total // 9).astype("uint8")

        def theirs(torch: Any, x: Any) -> Any:
            x = x.to(torch.int32)
            return (sum(x[i : i + n, j : j + n] for i in range(3) for j in range(3)) // 9).to(torch.uint8)

        return Program("stencil", f"blur 3x3 uint8 {n}", (Input((n + 2, n + 2), "uint8", 0, 256),), blurred, theirs)
    n = rng.choice([128, 256, 300])

    def every(x: Any) -> Any:
        places = [(i, j, k) for i in range(3) for j in range(3) for k in range(3)]
        return sum(x[i : i + n, j : j + n, k : k + n] * (1.0 / (1 + i + j + k)) for i, j, k in places)

    return Program("stencil", f"27 points {n}^3", (Input((n + 2,) * 3),), every, lambda torch, x: every(x))


@family
def points(rng: random.Random) -> Program:
    """Points turned and moved: a product with a matrix of three or four columns."""
    n, d = rng.choice([1 << 20, 3_000_001]), rng.choice([3, 4])
    return Program(
        "points",
        f"points @ R + t {n}x{d}",
        (Input((n, d)), Input((d, d)), Input((d,))),
        lambda x, r, t: x @ r + t,
        lambda torch, x, r, t: x @ r + t,
    )


# ---------------------------------------------------------------- statistics


@family
def softmax(rng: random.Random) -> Program:
    """Along columns, or along few rows that are long."""
    t, axis = real(rng), rng.choice([0, 1])
    shape = rng.choice([(4096, 4096), (200, 65536), (8192, 1000)] if axis == 0 else [(64, 200_000), (8, 1 << 20)])
    return Program(
        "softmax",
        f"softmax axis {axis} {t} {shape[0]}x{shape[1]}",
        (Input(shape, t),),
        lambda x: lp.softmax(wide(x), axis=axis).astype(t),
        lambda torch, x: torch.softmax(x, axis),
    )


@family
def layernorm(rng: random.Random) -> Program:
    """Of a residual sum, which is asked for, too; rows of odd and long lengths among them."""
    r, c = rng.choice([(8192, 4096), (33, 131_072), (5000, 1023), (16384, 768), (100_000, 64)])
    t = real(rng)

    def ours(x: Any, y: Any, w: Any, b: Any) -> Any:
        h = wide(x) + wide(y)
        off = h - lp.mean(h, axis=-1, keepdims=True)
        norm = off * lp.rsqrt(lp.mean(off * off, axis=-1, keepdims=True) + 1e-5) * wide(w) + wide(b)
        return h.astype(t), norm.astype(t)

    def theirs(torch: Any, x: Any, y: Any, w: Any, b: Any) -> Any:
        h = x + y
        return h, torch.nn.functional.layer_norm(h, (c,), w, b)

    inputs = (Input((r, c), t), Input((r, c), t), Input((c,), t), Input((c,), t))
    return Program("layernorm", f"residual + layernorm {t} {r}x{c}", inputs, ours, theirs)


@family
def batchnorm(rng: random.Random) -> Program:
    """In training: statistics over images and places, then relu."""
    n, c, h, t = rng.choice([8, 32]), rng.choice([64, 128, 256]), rng.choice([14, 28, 56]), real(rng)

    def ours(x: Any, w: Any, b: Any) -> Any:
        v = wide(x)
        m = lp.mean(v, axis=(0, 2, 3), keepdims=True)
        off = v - m
        scale = lp.rsqrt(lp.mean(off * off, axis=(0, 2, 3), keepdims=True) + 1e-5)
        return lp.relu(off * scale * wide(w)[None, :, None, None] + wide(b)[None, :, None, None]).astype(t)

    def theirs(torch: Any, x: Any, w: Any, b: Any) -> Any:
        return torch.relu(torch.nn.functional.batch_norm(x, None, None, w, b, True))

    inputs = (Input((n, c, h, h), t), Input((c,), t), Input((c,), t))
    return Program("batchnorm", f"batch norm + relu {t} {n}x{c}x{h}x{h}", inputs, ours, theirs)


@family
def groupnorm(rng: random.Random) -> Program:
    n, c, h, t = rng.choice([2, 16]), rng.choice([128, 320]), rng.choice([32, 64]), real(rng)

    def ours(x: Any, w: Any, b: Any) -> Any:
        v = wide(x).reshape((n, 32, c // 32, h, h))
        off = v - lp.mean(v, axis=(2, 3, 4), keepdims=True)
        norm = off * lp.rsqrt(lp.mean(off * off, axis=(2, 3, 4), keepdims=True) + 1e-5)
        return lp.silu(norm.reshape((n, c, h, h)) * wide(w)[:, None, None] + wide(b)[:, None, None]).astype(t)

    def theirs(torch: Any, x: Any, w: Any, b: Any) -> Any:
        return torch.nn.functional.silu(torch.nn.functional.group_norm(x, 32, w, b))

    inputs = (Input((n, c, h, h), t), Input((c,), t), Input((c,), t))
    return Program("groupnorm", f"group norm + silu {t} {n}x{c}x{h}x{h}", inputs, ours, theirs)


@family
def columns(rng: random.Random) -> Program:
    """Several statistics of every column, or the columns divided by their lengths."""
    r, c = rng.choice([(65536, 256), (4096, 4096), (10_000, 1000), (1 << 20, 32)])
    if rng.random() < 0.5:
        return Program(
            "columns",
            f"x / |columns| {r}x{c}",
            (Input((r, c)),),
            lambda x: x / lp.sqrt((x * x).sum(axis=0) + 1e-6),
            lambda torch, x: x / torch.sqrt((x * x).sum(0) + 1e-6),
        )
    return Program(
        "columns",
        f"mean, max, squares of columns {r}x{c}",
        (Input((r, c)),),
        lambda x: (lp.mean(x, axis=0), lp.max(x, axis=0), (x * x).sum(axis=0)),
        lambda torch, x: (x.mean(0), x.amax(0), (x * x).sum(0)),
    )


@family
def cross_entropy(rng: random.Random) -> Program:
    r, c, t = rng.choice([1024, 8192]), rng.choice([1000, 32000, 50257]), real(rng)
    return Program(
        "cross_entropy",
        f"cross entropy {t} {r}x{c}",
        (Input((r, c), t), Input((r,), "int64", 0, c)),
        lambda x, y: lp.compute((r,), lambda i: lp.logsumexp(wide(x), axis=1)[i] - wide(x)[i, y[i]], name="loss"),
        lambda torch, x, y: torch.nn.functional.cross_entropy(x.float(), y, reduction="none"),
    )


@family
def cumsum(rng: random.Random) -> Program:
    """Prefix sums along rows, of integers, which are exact in any order."""
    r, c = rng.choice([(4096, 4096), (1, 1 << 24), (32, 100_000), (65536, 100)])

    def ours(x: Any) -> Any:
        text = (
            f'def cumsum(x0: "int32[{r}, {c}]", y: "out int32[{r}, {c}]"):\n'
            f"    for i in range({r}):\n        y[i, 0] = x0[i, 0]\n        for j in range({c - 1}):\n"
            "            y[i, j + 1] = y[i, j] + x0[i, j + 1]\n"
        )
        return lp.parse(text)

    given = (Input((r, c), "int32", -5, 6),)
    return Program("cumsum", f"cumsum {r}x{c}", given, ours, lambda torch, x: torch.cumsum(x, 1, dtype=torch.int32))


# ---------------------------------------------------------------- products of matrices


@family
def few_rows(rng: random.Random) -> Program:
    """A linear layer with bias and gelu on a few rows, as at decoding."""
    m, k, n = rng.choice([1, 2, 7, 16, 33, 48, 63]), rng.choice([1024, 4096]), rng.choice([1024, 4096, 11008])
    return Program(
        "few_rows",
        f"gelu(x @ w + b) bf16 {m}x{k}x{n}",
        (Input((m, k), "bfloat16"), Input((k, n), "bfloat16"), Input((n,), "bfloat16")),
        lambda x, w, b: lp.gelu(wide(x @ w) + wide(b)).astype("bfloat16"),
        lambda torch, x, w, b: torch.nn.functional.gelu(x @ w + b),
        flops=2.0 * m * n * k,
    )


@family
def integers(rng: random.Random) -> Program:
    """int8 by int8 with a scale a column."""
    m, k, n = rng.choice([4, 16, 128, 2048]), rng.choice([1024, 4096]), rng.choice([1024, 4096])
    return Program(
        "integers",
        f"int8 x @ w.T * scale {m}x{k}x{n}",
        (Input((m, k), "int8", -8, 8), Input((n, k), "int8", -8, 8), Input((n,))),
        lambda x, w, s: lp.cast(lp.matmul(lp.cast(x, "int32"), lp.cast(w, "int32").T), "float32") * s,
        lambda torch, x, w, s: torch._int_mm(x, w.t()).float() * s if m > 16 else (x.float() @ w.float().t()) * s,
        flops=2.0 * m * n * k / 2,
    )


@family
def gated(rng: random.Random) -> Program:
    """SwiGLU on the halves of one product."""
    m, k, n = rng.choice([16, 512, 4096]), rng.choice([1024, 4096]), rng.choice([1408, 4096])

    def ours(x: Any, w: Any) -> Any:
        y = wide(x @ w)
        return (lp.silu(y[:, :n]) * y[:, n:]).astype("bfloat16")

    def theirs(torch: Any, x: Any, w: Any) -> Any:
        y = x @ w
        return torch.nn.functional.silu(y[:, :n]) * y[:, n:]

    inputs = (Input((m, k), "bfloat16"), Input((k, 2 * n), "bfloat16"))
    return Program("gated", f"swiglu on halves bf16 {m}x{k}x{n}", inputs, ours, theirs, flops=4.0 * m * n * k)


@family
def deep(rng: random.Random) -> Program:
    """Few results of many terms: A.T @ A, gradients of weights."""
    rows, n, t = rng.choice([65536, 100_000, 1 << 20]), rng.choice([32, 64, 128, 256]), real(rng)
    same = rng.random() < 0.5
    inputs = (Input((rows, n), t),) if same else (Input((rows, n), t), Input((rows, n), t))
    return Program(
        "deep",
        f"{'A.T @ A' if same else 'x.T @ dy'} {t} {rows}x{n}",
        inputs,
        lambda x, *y: x.T @ (y[0] if y else x),
        lambda torch, x, *y: x.t() @ (y[0] if y else x),
        flops=2.0 * rows * n * n * (1 if t == "bfloat16" else 14),
    )


@family
def batched(rng: random.Random) -> Program:
    """[B, T, D] by a matrix, with bias and residual; or scores of heads."""
    if rng.random() < 0.5:
        b, h, n, d = rng.choice([1, 8]), 16, rng.choice([512, 1024, 1000]), rng.choice([64, 128])
        return Program(
            "batched",
            f"q @ k.T scaled bf16 {b}x{h}x{n}x{d}",
            (Input((b, h, n, d), "bfloat16"), Input((b, h, n, d), "bfloat16")),
            lambda q, k: (wide(q @ k.transpose((0, 1, 3, 2))) * d**-0.5).astype("bfloat16"),
            lambda torch, q, k: (q @ k.transpose(-1, -2)) * d**-0.5,
            flops=2.0 * b * h * n * n * d,
        )
    b, t, d, n = rng.choice([2, 8]), rng.choice([512, 1024]), rng.choice([768, 1024]), rng.choice([768, 3072])
    return Program(
        "batched",
        f"relu([B, T, D] @ W + b) bf16 {b}x{t}x{d}x{n}",
        (Input((b, t, d), "bfloat16"), Input((d, n), "bfloat16"), Input((n,), "bfloat16")),
        lambda x, w, c: lp.relu(wide(x.reshape((b * t, d)) @ w) + wide(c)).astype("bfloat16").reshape((b, t, n)),
        lambda torch, x, w, c: torch.relu(x @ w + c),
        flops=2.0 * b * t * d * n,
    )


@family
def siblings(rng: random.Random) -> Program:
    """Q, K and V of one array, by three matrices."""
    m, d, n = rng.choice([64, 1024, 4096]), rng.choice([1024, 2048]), rng.choice([256, 1024])
    inputs = (Input((m, d), "bfloat16"), *(Input((d, x), "bfloat16") for x in (d, n, n)))
    return Program(
        "siblings",
        f"q, k, v bf16 {m}x{d} by {d}, {n}, {n}",
        inputs,
        lambda x, *ws: tuple(x @ w for w in ws),
        lambda torch, x, *ws: tuple(x @ w for w in ws),
        flops=2.0 * m * d * (d + 2 * n),
    )


@family
def odd(rng: random.Random) -> Program:
    """float32 on the ordinary units, of sizes that no tile divides."""
    m, k, n = (rng.choice([500, 777, 1000, 1025, 2049]) for _ in range(3))
    return Program(
        "odd",
        f"relu(a @ b) float32 {m}x{k}x{n}",
        (Input((m, k)), Input((k, n))),
        lambda a, b: lp.relu(a @ b),
        lambda torch, a, b: torch.relu(a @ b),
        flops=2.0 * m * n * k * 14,
    )


@family
def mlp(rng: random.Random) -> Program:
    """Two layers with an activation between them."""
    m, d, h = rng.choice([64, 512, 4096]), rng.choice([512, 1024]), rng.choice([1024, 4096])
    return Program(
        "mlp",
        f"gelu(x @ w1) @ w2 + x bf16 {m}x{d}x{h}",
        (Input((m, d), "bfloat16"), Input((d, h), "bfloat16"), Input((h, d), "bfloat16")),
        lambda x, a, b: (wide(lp.gelu(wide(x @ a)).astype("bfloat16") @ b) + wide(x)).astype("bfloat16"),
        lambda torch, x, a, b: torch.nn.functional.gelu(x @ a) @ b + x,
        flops=4.0 * m * d * h,
    )


@family
def attention(rng: random.Random) -> Program:
    b, h, n, d = rng.choice([1, 4]), rng.choice([8, 16]), rng.choice([256, 1024, 2048]), rng.choice([64, 128])

    def ours(q: Any, k: Any, v: Any) -> Any:
        p = lp.softmax(wide(q @ k.transpose((0, 1, 3, 2))) * d**-0.5, axis=-1).astype("bfloat16")
        return p @ v

    def theirs(torch: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    inputs = (Input((b, h, n, d), "bfloat16"),) * 3
    return Program("attention", f"attention bf16 {b}x{h}x{n}x{d}", inputs, ours, theirs, flops=4.0 * b * h * n * n * d)


@family
def embedding(rng: random.Random) -> Program:
    """Rows gathered by indices, and summed in bags."""
    rows, d, bags, many = rng.choice([10_000, 1_000_000]), rng.choice([64, 128]), 8192, rng.choice([1, 8, 32])

    def ours(x: Any, ids: Any) -> Any:
        k = lp.reduce_axis(many, name="k")
        return lp.compute((bags, d), lambda i, j: lp.sum(x[ids[i, k], j], axis=k), name="bag")

    inputs = (Input((rows, d)), Input((bags, many), "int64", 0, rows))
    read = min(rows, bags * many) * d * 4 + bags * many * 8
    return Program(
        "embedding", f"bags of {many} rows of {rows}x{d}", inputs, ours, lambda torch, x, i: x[i].sum(1), read=read
    )


# ---------------------------------------------------------------- convolutions


@family
def depthwise(rng: random.Random) -> Program:
    n, c, h, r, s = rng.choice([1, 16]), rng.choice([96, 256]), rng.choice([28, 56]), rng.choice([3, 5, 7]), 1
    t, last, p = real(rng), rng.random() < 0.5, r // 2
    shape = (n, h, h, c) if last else (n, c, h, h)

    def ours(x: Any, w: Any) -> Any:
        u, v = lp.reduce_axis(r, name="u"), lp.reduce_axis(r, name="v")
        padded = lp.pad(x, [(0, 0), (p, p), (p, p), (0, 0)] if last else [(0, 0), (0, 0), (p, p), (p, p)])
        if last:
            term = lambda b, i, j, z: wide(padded[b, i + u, j + v, z]) * wide(w[z, u, v])  # noqa: E731
        else:
            term = lambda b, z, i, j: wide(padded[b, z, i + u, j + v]) * wide(w[z, u, v])  # noqa: E731
        y = lp.compute(shape, lambda *at: lp.sum(term(*at), axis=(u, v)), name="conv")
        return lp.relu(y).astype(t)

    def theirs(torch: Any, x: Any, w: Any) -> Any:
        x = x.permute(0, 3, 1, 2) if last else x
        y = torch.relu(torch.nn.functional.conv2d(x, w[:, None], stride=s, padding=p, groups=c))
        return y.permute(0, 2, 3, 1) if last else y

    name = f"depthwise {r}x{r} {'NHWC' if last else 'NCHW'} {t} {n}x{c}x{h}x{h}"
    return Program("depthwise", name, (Input(shape, t), Input((c, r, r), t)), ours, theirs)


@family
def convolution(rng: random.Random) -> Program:
    """In NHWC and NCHW, strided, dilated, of few filters, then relu."""
    n, c, k = rng.choice([1, 8, 32]), rng.choice([3, 64, 128]), rng.choice([3, 64, 128])
    h, r, s, d = rng.choice([14, 28, 56]), rng.choice([1, 3]), rng.choice([1, 2]), rng.choice([1, 2])
    t, last = real(rng), rng.random() < 0.5
    d = d if r > 1 else 1
    p = d * (r // 2)
    size = (h + 2 * p - d * (r - 1) - 1) // s + 1
    shape, out = ((n, h, h, c), (n, size, size, k)) if last else ((n, c, h, h), (n, k, size, size))

    def ours(x: Any, w: Any) -> Any:
        u, v, z = lp.reduce_axis(r, name="u"), lp.reduce_axis(r, name="v"), lp.reduce_axis(c, name="z")
        ends = [(0, 0), (p, p), (p, p), (0, 0)] if last else [(0, 0), (0, 0), (p, p), (p, p)]
        padded = lp.pad(x, ends) if p else x

        def term(b: Any, i: Any, j: Any, o: Any) -> Any:
            row, column = i * s + u * d, j * s + v * d
            at = (b, row, column, z) if last else (b, z, row, column)
            return wide(padded[at]) * wide(w[(u, v, z, o) if last else (o, z, u, v)])

        element = (lambda b, i, j, o: lp.sum(term(b, i, j, o), axis=(u, v, z))) if last else (
            lambda b, o, i, j: lp.sum(term(b, i, j, o), axis=(z, u, v)))  # fmt: skip
        return lp.relu(lp.compute(out, element, name="conv")).astype(t)

    def theirs(torch: Any, x: Any, w: Any) -> Any:
        x, w = (x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)) if last else (x, w)
        y = torch.relu(torch.nn.functional.conv2d(x, w, stride=s, padding=p, dilation=d))
        return y.permute(0, 2, 3, 1) if last else y

    weight = (r, r, c, k) if last else (k, c, r, r)
    name = f"conv {r}x{r}/{s} dilated {d} {'NHWC' if last else 'NCHW'} {t} {n}x{c}x{h}x{h} to {k}"
    flops = 2.0 * n * size * size * k * c * r * r * (1 if t == "bfloat16" else 14)
    return Program("convolution", name, (Input(shape, t), Input(weight, t)), ours, theirs, flops=flops)


# ---------------------------------------------------------------- the floor, and what is predicted


def floor(program: Program, s: lp.Schedule, bandwidth: float, tensor: float, launch: float) -> float:
    """Seconds that no schedule goes below: bytes at `bandwidth` a second, or operations at `tensor`, and a launch."""
    inputs = program.read if program.read is not None else sum(x.bytes for x in program.inputs)
    results = [a.buffer for a in s.func.args if a.access == "out"]
    outputs = sum(math.prod(evaluate(d, {}) for d in b.shape) * b.dtype.bytes for b in results)
    return max((inputs + outputs) / bandwidth, program.flops / tensor) + launch


def late(*_: object) -> None:
    raise TimeoutError("no schedule within the limit of time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=2, help="programs of every family")
    parser.add_argument("--families", default="", help="only families whose name holds one of these")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--limit", type=int, default=60, help="seconds for a program, at most")
    tables.writing(parser)
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, late)
    wanted = [w for w in asked.families.split(",") if w]
    over: list[tuple[float, str]] = []
    record = tables.Record("wide_programs.txt", asked.write)
    record(f"commit {tables.commit()}; predicted for {asked.arch}, seed {asked.seed}, no GPU")
    record(f"{'program':58} {'kernels':>7} {'predicted us':>12} {'floor us':>9} {'over':>7} {'s':>5}")
    for program in programs(asked.seed, asked.each, wanted):
        begun = time.perf_counter()
        signal.alarm(asked.limit)
        try:
            s = program.schedule()
            least = floor(program, s, 4.1e12, 750e12, 2e-6)
            made = schedules.auto(s, "cuda", arch=asked.arch)
            report = made.report()
        except Exception as error:  # a program that is refused is a row of the table
            record(f"{program.name:58} {type(error).__name__}: {str(error)[:90]}")
            over.append((math.inf, program.name))
            continue
        finally:
            signal.alarm(0)
        ratio = report.seconds / least
        over.append((ratio, program.name))
        took = time.perf_counter() - begun
        times = f"{report.seconds * 1e6:12.1f} {least * 1e6:9.1f} {ratio:7.2f} {took:5.1f}"
        record(f"{program.name:58} {len(report.kernels):7} {times}")
    ratios = sorted(r for r, _ in over)
    record(f"over the floor: median {statistics.median(ratios):.2f}, worst {max(ratios):.1f}; {len(ratios)} programs")
    record.done(None)


if __name__ == "__main__":
    main()
