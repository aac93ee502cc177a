"""Families of convolutions: in every layout and rank, grouped, strided, dilated, transposed."""

# ruff: noqa: E731
from __future__ import annotations

import random
from typing import Any

from wide_program import Input, Program, family, real, size, wide

import loopir as lp


@family
def depthwise(rng: random.Random) -> Program:
    n, c, h, r, s = size(rng, 1, 32), size(rng, 32, 512), size(rng, 14, 112), rng.choice([3, 5, 7]), 1
    t, last, p = real(rng), rng.random() < 0.5, r // 2
    shape = (n, h, h, c) if last else (n, c, h, h)

    def ours(x: Any, w: Any) -> Any:
        u, v = lp.reduce_axis(r, name="u"), lp.reduce_axis(r, name="v")
        padded = lp.pad(x, [(0, 0), (p, p), (p, p), (0, 0)] if last else [(0, 0), (0, 0), (p, p), (p, p)])
        if last:
            term = lambda b, i, j, z: wide(padded[b, i + u, j + v, z]) * wide(w[z, u, v])
        else:
            term = lambda b, z, i, j: wide(padded[b, z, i + u, j + v]) * wide(w[z, u, v])
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
    n, c, k = size(rng, 1, 32), rng.choice([3, size(rng, 16, 256)]), rng.choice([3, size(rng, 16, 256)])
    h, r, s, d = size(rng, 7, 112), rng.choice([1, 3]), rng.choice([1, 2]), rng.choice([1, 2])
    t, last = real(rng), rng.random() < 0.5
    d = d if r > 1 else 1
    p = d * (r // 2)
    high = (h + 2 * p - d * (r - 1) - 1) // s + 1
    shape, out = ((n, h, h, c), (n, high, high, k)) if last else ((n, c, h, h), (n, k, high, high))

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
    flops = 2.0 * n * high * high * k * c * r * r
    inputs = (Input(shape, t), Input(weight, t))
    return Program(
        "convolution", name, inputs, ours, theirs, flops=flops, unit=t, sides=(n * high * high, k, c * r * r)
    )


@family
def spatial(rng: random.Random) -> Program:
    """Convolutions of one to three dimensions as torch has them: strided, dilated, in groups, with a bias."""
    rank, t = rng.choice([1, 2, 3]), real(rng)
    groups = rng.choice([1, 1, 2, 4])
    c, k = size(rng, 16, 128, of=4 * groups), size(rng, 16, 128, of=4 * groups)
    low, top = {1: (256, 4096), 2: (14, 64), 3: (8, 24)}[rank]
    n, h, r = size(rng, 1, 16), size(rng, low, top), rng.choice([3, 5] if rank < 3 else [3])
    s, d = rng.choice([1, 2]), rng.choice([1, 2])
    p = d * (r // 2)
    high = (h + 2 * p - d * (r - 1) - 1) // s + 1
    options: dict[str, Any] = {"stride": s, "padding": p, "dilation": d, "groups": groups}

    def run(lib: Any, x: Any, w: Any, b: Any) -> Any:
        return getattr(lib, f"conv{rank}d")(x, w, b, **options)

    inputs = (Input((n, c, *(h,) * rank), t), Input((k, c // groups, *(r,) * rank), t), Input((k,), t))
    name = f"conv{rank}d {r}/{s} dilated {d} groups {groups} {t} {n}x{c}x{h} to {k}"
    terms = c // groups * r**rank
    return Program(
        "spatial", name, inputs, lambda *xs: run(lp, *xs), lambda torch, *xs: run(torch.nn.functional, *xs),
        flops=2.0 * n * k * high**rank * terms, unit=t, sides=(n * high**rank, k // groups, terms),
    )  # fmt: skip


@family
def transposed(rng: random.Random) -> Program:
    """Transposed convolutions, as decoders have them."""
    t, n, c, k = real(rng), size(rng, 1, 16), size(rng, 16, 256, of=8), size(rng, 16, 128, of=8)
    h, (r, s, p) = size(rng, 7, 64), rng.choice([(2, 2, 0), (4, 2, 1), (3, 2, 1), (3, 1, 1)])
    high = (h - 1) * s - 2 * p + r
    inputs = (Input((n, c, h, h), t), Input((c, k, r, r), t))
    return Program(
        "transposed", f"transposed conv {r}x{r}/{s} {t} {n}x{c}x{h}x{h} to {k}", inputs,
        lambda x, w: lp.conv_transpose2d(x, w, stride=s, padding=p),
        lambda torch, x, w: torch.nn.functional.conv_transpose2d(x, w, stride=s, padding=p),
        flops=2.0 * n * h * h * k * c * r * r, unit=t, sides=(n * high * high, k, c),
    )  # fmt: skip
