"""Families of loops: prefix sums, recurrences, histograms, scattered sums, gathers, stencils swept in time, sorting."""

from __future__ import annotations

import random
from typing import Any

from wide_program import Input, Program, family, real, rectangle, size

import loopir as lp


@family
def cumsum(rng: random.Random) -> Program:
    """Prefix sums along rows, of integers, which are exact in any order."""
    r, c = rng.choice([rectangle(rng, 1 << 20, 1 << 26, 1, 64), (1, size(rng, 1 << 20, 1 << 28))])

    def ours(x: Any) -> Any:
        text = (
            f'def cumsum(x0: "int32[{r}, {c}]", y: "out int32[{r}, {c}]"):\n'
            f"    for i in range({r}):\n        y[i, 0] = x0[i, 0]\n        for j in range({c - 1}):\n"
            "            y[i, j + 1] = y[i, j] + x0[i, j + 1]\n"
        )
        return lp.parse(text)

    given = (Input((r, c), "int32", -5, 6),)
    return Program("cumsum", f"cumsum {r}x{c}", given, ours, lambda torch, x: torch.cumsum(x, 1, dtype=torch.int32))


@family
def embedding(rng: random.Random) -> Program:
    """Rows gathered by indices, and summed in bags."""
    rows, d, bags, many = size(rng, 1000, 1 << 20), size(rng, 32, 256), size(rng, 1024, 16384), size(rng, 1, 32)

    def ours(x: Any, ids: Any) -> Any:
        k = lp.reduce_axis(many, name="k")
        return lp.compute((bags, d), lambda i, j: lp.sum(x[ids[i, k], j], axis=k), name="bag")

    inputs = (Input((rows, d)), Input((bags, many), "int64", 0, rows))
    moved = (min(rows, bags * many) + bags) * d * 4 + bags * many * 8
    return Program(
        "embedding", f"bags of {many} rows of {rows}x{d}", inputs, ours, lambda torch, x, i: x[i].sum(1), moved=moved
    )


@family
def recurrence(rng: random.Random) -> Program:
    """A linear recurrence along time for every channel, as gated linear layers have them."""
    b, n, d = size(rng, 1, 16), size(rng, 256, 4096), size(rng, 64, 2048)

    def ours(a: Any, x: Any) -> Any:
        text = (
            f'def recurrence(x0: "float32[{b}, {n}, {d}]", x1: "float32[{b}, {n}, {d}]", '
            f'y: "out float32[{b}, {n}, {d}]"):\n'
            f"    for i in range({b}):\n        for t in range({n}):\n            for j in range({d}):\n"
            "                y[i, t, j] = select(1 <= t, y[i, t - 1, j], 0.0) * x0[i, t, j] + x1[i, t, j]\n"
        )
        return lp.parse(text)

    def theirs(torch: Any, a: Any, x: Any) -> Any:
        rows = [x[:, 0]]
        for t in range(1, n):
            rows.append(rows[-1] * a[:, t] + x[:, t])
        return torch.stack(rows, 1)

    def scanned(torch: Any, a: Any, x: Any) -> Any:
        from torch._higher_order_ops.associative_scan import associative_scan  # noqa: PLC0415

        def combine(first: Any, second: Any) -> Any:
            return first[0] * second[0], first[1] * second[0] + second[1]

        return associative_scan(combine, (a, x), dim=1)[1]

    name = f"y = a y + x {b}x{n}x{d}"
    return Program("recurrence", name, (Input((b, n, d)), Input((b, n, d))), ours, theirs, compiled=scanned)


@family
def states(rng: random.Random) -> Program:
    """Steps of a state of several columns: linear attention along time, and triangular systems of several right
    sides."""
    b, n, d = size(rng, 8, 128), size(rng, 128, 2048), rng.choice([32, 64, 128])
    if rng.random() < 0.5:
        shape = f'"float32[{b}, {n}, {d}]"'

        def attended(q: Any, k: Any, v: Any, s: Any) -> Any:
            text = (
                f'def attended(x0: {shape}, x1: {shape}, x2: {shape}, x3: "inout float32[{b}, {d}, {d}]", '
                f'y: "out float32[{b}, {n}, {d}]"):\n'
                f"    for i in range({b}):\n        for t in range({n}):\n"
                f"            for a in range({d}):\n                for c in range({d}):\n"
                "                    x3[i, a, c] = x3[i, a, c] + x1[i, t, a] * x2[i, t, c]\n"
                f"            for c in range({d}):\n                y[i, t, c] = 0.0\n"
                f"                for a in range({d}):\n"
                "                    y[i, t, c] += x0[i, t, a] * x3[i, a, c]\n"
            )
            return lp.parse(text)

        def at_once(torch: Any, q: Any, k: Any, v: Any, s: Any) -> Any:
            return torch.tril(q @ k.mT) @ v + q @ s

        given = (*(Input((b, n, d)) for _ in range(3)), Input((b, d, d)))
        return Program("states", f"linear attention {b}x{n}x{d}", given, attended, at_once)

    def solved(lower: Any, right: Any) -> Any:
        text = (
            f'def solved(x0: "float32[{b}, {d}, {d}]", x1: "float32[{b}, {d}, {d}]", '
            f'y: "out float32[{b}, {d}, {d}]"):\n'
            f"    for i in range({b}):\n        for j in range({d}):\n            for c in range({d}):\n"
            "                y[i, j, c] = x1[i, j, c]\n                for k in range(j):\n"
            "                    y[i, j, c] += -(0.05 * x0[i, j, k] * y[i, k, c])\n"
        )
        return lp.parse(text)

    def theirs(torch: Any, lower: Any, right: Any) -> Any:
        return torch.linalg.solve_triangular(0.05 * lower, right, upper=False, unitriangular=True)

    return Program("states", f"triangular systems {b}x{d}x{d}", (Input((b, d, d)), Input((b, d, d))), solved, theirs)


@family
def scattered(rng: random.Random) -> Program:
    """Histograms of bytes, and gradients of embeddings: sums into elements that memory chooses."""
    if rng.random() < 0.5:
        n, bins = size(rng, 1 << 20, 1 << 27), rng.choice([16, 256, 256, 4096])
        t = "uint8" if bins <= 256 else "int32"

        def counted(x: Any, h: Any) -> Any:
            text = f'def histogram(x0: "{t}[{n}]", h: "inout int32[{bins}]"):\n'
            return lp.parse(text + f"    for i in range({n}):\n        h[x0[i]] += 1\n")

        def binned(torch: Any, x: Any, h: Any) -> Any:
            return h.add_(torch.bincount(x.to(torch.int32), minlength=bins).to(torch.int32))

        inputs = (Input((n,), t, 0, bins), Input((bins,), "int32", 0, 1))
        return Program("scattered", f"histogram {bins} of {t} {n}", inputs, counted, binned)
    rows, d, n = size(rng, 1000, 1 << 19), size(rng, 32, 512), size(rng, 4096, 1 << 16)

    def summed(g: Any, ids: Any, w: Any) -> Any:
        text = f'def gradient(x0: "float32[{n}, {d}]", x1: "int64[{n}]", w: "inout float32[{rows}, {d}]"):\n'
        return lp.parse(
            text + f"    for i in range({n}):\n        for j in range({d}):\n            w[x1[i], j] += x0[i, j]\n"
        )

    def theirs(torch: Any, g: Any, ids: Any, w: Any) -> Any:
        return w.index_add_(0, ids, g)

    inputs = (Input((n, d)), Input((n,), "int64", 0, rows), Input((rows, d)))
    moved = n * d * 4 + n * 8 + 2 * min(rows, n) * d * 4
    return Program("scattered", f"gradient of an embedding {n} into {rows}x{d}", inputs, summed, theirs, moved=moved)


@family
def swept(rng: random.Random) -> Program:
    """A stencil swept again and again, from one array to another and back; each sweep is to move both once."""
    n, m = rectangle(rng, 1 << 20, 1 << 24, 256, 256)
    times = rng.choice([4, 8, 16])

    def sweep(to: str, of: str) -> str:
        near = " + ".join(f"{of}[{at}]" for at in ("i, j + 1", "i + 2, j + 1", "i + 1, j", "i + 1, j + 2"))
        loops = f"        for i in range({n - 2}):\n            for j in range({m - 2}):\n"
        return loops + f"                {to}[i + 1, j + 1] = 0.25 * ({near})\n"

    def ours(a: Any, b: Any) -> Any:
        head = f'def swept(a: "inout float32[{n}, {m}]", b: "inout float32[{n}, {m}]"):\n'
        return lp.parse(head + f"    for t in range({times}):\n" + sweep("b", "a") + sweep("a", "b"))

    def theirs(torch: Any, a: Any, b: Any) -> Any:
        for _ in range(times):
            for x, y in ((a, b), (b, a)):
                y[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
        return a, b

    inputs = (Input((n, m)), Input((n, m)))
    return Program("swept", f"{2 * times} sweeps of {n}x{m}", inputs, ours, theirs, moved=2 * times * 8 * n * m)


@family
def ordered(rng: random.Random) -> Program:
    """Rows in order along the last axis: sorted, the places of the sorted, or the largest and theirs."""
    r, c = rectangle(rng, 1 << 12, 1 << 20, 1, 32)
    t = real(rng)
    k = min(c, rng.choice([1, 8, 32]))
    what, ours, theirs = rng.choice(
        [
            ("sort", lp.sort, lambda torch, x: torch.sort(x, dim=-1, stable=True).values),
            ("argsort", lp.argsort, lambda torch, x: torch.argsort(x, dim=-1, stable=True)),
            (f"top {k} values", lambda x: lp.topk(x, k)[0], lambda torch, x: torch.topk(x, k).values),
        ]
    )
    return Program("ordered", f"{what} {t} {r}x{c}", (Input((r, c), t),), ours, theirs)
