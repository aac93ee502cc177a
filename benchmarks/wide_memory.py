"""Families that memory bounds: chains, permutations, folds of few elements, statistics, gathers."""

from __future__ import annotations

import random
from typing import Any

from wide_program import Input, Program, family, real, rectangle, size, wide

import loopir as lp


@family
def chain(rng: random.Random) -> Program:
    """A chain with a row and a column broadcast along it."""
    (r, c), t = rectangle(rng, 1 << 20, 1 << 26), real(rng)
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
    n, t = size(rng, 1 << 20, 1 << 26), real(rng)

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
    sizes = [size(rng, 1000, 1 << 23) for _ in range(rng.choice([2, 3]))]

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
    shape, t = (size(rng, 4, 64), size(rng, 8, 256), size(rng, 16, 128), size(rng, 16, 128)), real(rng)
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
    n, c, h, k = size(rng, 2, 32), size(rng, 16, 256), size(rng, 28, 128), rng.choice([2, 3])
    s, mean, t = rng.choice([k, 2]), rng.random() < 0.5, real(rng)
    high = (h - k) // s + 1

    def ours(x: Any) -> Any:
        u, v = lp.reduce_axis(k, name="u"), lp.reduce_axis(k, name="v")
        fold = lp.sum if mean else lp.max
        pooled = lp.compute(
            (n, c, high, high), lambda b, z, i, j: fold(wide(x[b, z, i * s + u, j * s + v]), axis=(u, v)), name="pool"
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
    b, n, d, t, k = size(rng, 1, 8), size(rng, 1024, 4096), size(rng, 512, 4096), real(rng), 4

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
        n = size(rng, 1024, 8192)

        def blurred(x: Any) -> Any:
            total: Any = sum(lp.cast(x[i : i + n, j : j + n], "int32") for i in range(3) for j in range(3))
            return (total // 9).astype("uint8")

        def theirs(torch: Any, x: Any) -> Any:
            x = x.to(torch.int32)
            total: Any = sum(x[i : i + n, j : j + n] for i in range(3) for j in range(3))
            return (total // 9).to(torch.uint8)

        return Program("stencil", f"blur 3x3 uint8 {n}", (Input((n + 2, n + 2), "uint8", 0, 256),), blurred, theirs)
    n = size(rng, 64, 320)

    def every(x: Any) -> Any:
        places = [(i, j, k) for i in range(3) for j in range(3) for k in range(3)]
        return sum(x[i : i + n, j : j + n, k : k + n] * (1.0 / (1 + i + j + k)) for i, j, k in places)

    return Program("stencil", f"27 points {n}^3", (Input((n + 2,) * 3),), every, lambda torch, x: every(x))


@family
def points(rng: random.Random) -> Program:
    """Points turned and moved: a product with a matrix of three or four columns."""
    n, d = size(rng, 1 << 18, 1 << 23), rng.choice([3, 4])
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
    shape = rectangle(rng, 1 << 20, 1 << 26, 8, 16)
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
    r, c = rectangle(rng, 1 << 20, 1 << 25, 32, 64)
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
    n, c, h, t = size(rng, 4, 64), size(rng, 32, 512), size(rng, 7, 64), real(rng)

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
    n, c, h, t = size(rng, 1, 32), size(rng, 64, 640, of=32), size(rng, 8, 64), real(rng)

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
    r, c = rectangle(rng, 1 << 20, 1 << 26, 256, 16)
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
    r, c, t = size(rng, 256, 8192), size(rng, 100, 60_000), real(rng)
    return Program(
        "cross_entropy",
        f"cross entropy {t} {r}x{c}",
        (Input((r, c), t), Input((r,), "int64", 0, c)),
        lambda x, y: lp.compute((r,), lambda i: lp.logsumexp(wide(x), axis=1)[i] - wide(x)[i, y[i]], name="loss"),
        lambda torch, x, y: torch.nn.functional.cross_entropy(x.float(), y, reduction="none"),
    )
