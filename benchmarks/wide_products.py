"""Families of products of matrices: few rows, every dtype and layout, gates, quantized weights, attention."""

from __future__ import annotations

import random
from typing import Any

from wide_program import Input, Program, family, real, size, wide

import loopir as lp

INT_MM_ROWS = 16
"""Rows up to which torch._int_mm takes nothing."""


@family
def few_rows(rng: random.Random) -> Program:
    """A linear layer with bias and gelu on a few rows, as at decoding."""
    m, k, n = size(rng, 1, 100), size(rng, 512, 8192), size(rng, 512, 16384)
    return Program(
        "few_rows",
        f"gelu(x @ w + b) bf16 {m}x{k}x{n}",
        (Input((m, k), "bfloat16"), Input((k, n), "bfloat16"), Input((n,), "bfloat16")),
        lambda x, w, b: lp.gelu(wide(x @ w) + wide(b)).astype("bfloat16"),
        lambda torch, x, w, b: torch.nn.functional.gelu(x @ w + b),
        flops=2.0 * m * n * k,
        sides=(m, n, k),
    )


def int_mm(torch: Any, x: Any, w: Any) -> Any:
    """`x` by the transpose of `w`, both int8, in int32, as torch has it: rows more than 16, the rest multiples of 8."""
    if x.shape[0] <= INT_MM_ROWS:
        return x.float() @ w.float().t()
    more = -x.shape[1] % 8, -w.shape[0] % 8
    if any(more):
        x, w = (torch.nn.functional.pad(v, (0, more[0], 0, rows)) for v, rows in ((x, 0), (w, more[1])))
    return torch._int_mm(x, w.t())[:, : w.shape[0] - more[1]].float()


@family
def integers(rng: random.Random) -> Program:
    """int8 by int8 with a scale a column."""
    m, k, n = size(rng, 1, 4096), size(rng, 256, 8192), size(rng, 256, 8192)
    return Program(
        "integers",
        f"int8 x @ w.T * scale {m}x{k}x{n}",
        (Input((m, k), "int8", -8, 8), Input((n, k), "int8", -8, 8), Input((n,))),
        lambda x, w, s: lp.cast(lp.matmul(lp.cast(x, "int32"), lp.cast(w, "int32").T), "float32") * s,
        lambda torch, x, w, s: int_mm(torch, x, w) * s,
        flops=2.0 * m * n * k,
        unit="int8",
        sides=(m, n, k),
    )


@family
def gated(rng: random.Random) -> Program:
    """SwiGLU on the halves of one product."""
    m, k, n = size(rng, 8, 4096), size(rng, 512, 4096), size(rng, 512, 8192)

    def ours(x: Any, w: Any) -> Any:
        y = wide(x @ w)
        return (lp.silu(y[:, :n]) * y[:, n:]).astype("bfloat16")

    def theirs(torch: Any, x: Any, w: Any) -> Any:
        y = x @ w
        return torch.nn.functional.silu(y[:, :n]) * y[:, n:]

    inputs = (Input((m, k), "bfloat16"), Input((k, 2 * n), "bfloat16"))
    return Program("gated", f"swiglu on halves bf16 {m}x{k}x{n}", inputs, ours, theirs,
                   flops=4.0 * m * n * k, sides=(m, n, k))  # fmt: skip


@family
def deep(rng: random.Random) -> Program:
    """Few results of many terms: A.T @ A, gradients of weights."""
    rows, n, t = size(rng, 1 << 14, 1 << 19), size(rng, 16, 256), real(rng)
    same = rng.random() < 0.5
    inputs = (Input((rows, n), t),) if same else (Input((rows, n), t), Input((rows, n), t))
    return Program(
        "deep",
        f"{'A.T @ A' if same else 'x.T @ dy'} {t} {rows}x{n}",
        inputs,
        lambda x, *y: x.T @ (y[0] if y else x),
        lambda torch, x, *y: x.t() @ (y[0] if y else x),
        flops=2.0 * rows * n * n,
        unit=t,
        sides=(n, n, rows),
    )


@family
def batched(rng: random.Random) -> Program:
    """[B, T, D] by a matrix, with bias and residual; or scores of heads."""
    if rng.random() < 0.5:
        b, h, n, d = size(rng, 1, 8), size(rng, 4, 32), size(rng, 128, 1024), rng.choice([64, 80, 128])
        return Program(
            "batched",
            f"q @ k.T scaled bf16 {b}x{h}x{n}x{d}",
            (Input((b, h, n, d), "bfloat16"), Input((b, h, n, d), "bfloat16")),
            lambda q, k: (wide(q @ k.transpose((0, 1, 3, 2))) * d**-0.5).astype("bfloat16"),
            lambda torch, q, k: (q @ k.transpose(-1, -2)) * d**-0.5,
            flops=2.0 * b * h * n * n * d,
            sides=(n, n, d),
        )
    b, t, d, n = size(rng, 1, 8), size(rng, 64, 1024), size(rng, 256, 2048), size(rng, 256, 4096)
    return Program(
        "batched",
        f"relu([B, T, D] @ W + b) bf16 {b}x{t}x{d}x{n}",
        (Input((b, t, d), "bfloat16"), Input((d, n), "bfloat16"), Input((n,), "bfloat16")),
        lambda x, w, c: lp.relu(wide(x.reshape((b * t, d)) @ w) + wide(c)).astype("bfloat16").reshape((b, t, n)),
        lambda torch, x, w, c: torch.relu(x @ w + c),
        flops=2.0 * b * t * d * n,
        sides=(b * t, n, d),
    )


@family
def siblings(rng: random.Random) -> Program:
    """Q, K and V of one array, by three matrices."""
    m, d, n = size(rng, 8, 4096), size(rng, 512, 4096), size(rng, 128, 1024)
    inputs = (Input((m, d), "bfloat16"), *(Input((d, x), "bfloat16") for x in (d, n, n)))
    return Program(
        "siblings",
        f"q, k, v bf16 {m}x{d} by {d}, {n}, {n}",
        inputs,
        lambda x, *ws: tuple(x @ w for w in ws),
        lambda torch, x, *ws: tuple(x @ w for w in ws),
        flops=2.0 * m * d * (d + 2 * n),
        sides=(m, n, d),
    )


@family
def odd(rng: random.Random) -> Program:
    """float32 on the ordinary units, of sizes that no tile divides."""
    m, k, n = (size(rng, 64, 3000) for _ in range(3))
    return Program(
        "odd",
        f"relu(a @ b) float32 {m}x{k}x{n}",
        (Input((m, k)), Input((k, n))),
        lambda a, b: lp.relu(a @ b),
        lambda torch, a, b: torch.relu(a @ b),
        flops=2.0 * m * n * k,
        unit="float32",
        sides=(m, n, k),
    )


@family
def mlp(rng: random.Random) -> Program:
    """Two layers with an activation between them."""
    m, d, h = size(rng, 8, 4096), size(rng, 256, 2048), size(rng, 512, 8192)
    return Program(
        "mlp",
        f"gelu(x @ w1) @ w2 + x bf16 {m}x{d}x{h}",
        (Input((m, d), "bfloat16"), Input((d, h), "bfloat16"), Input((h, d), "bfloat16")),
        lambda x, a, b: (wide(lp.gelu(wide(x @ a)).astype("bfloat16") @ b) + wide(x)).astype("bfloat16"),
        lambda torch, x, a, b: torch.nn.functional.gelu(x @ a) @ b + x,
        flops=4.0 * m * d * h,
        sides=(m, d, h),
    )


@family
def attention(rng: random.Random) -> Program:
    b, h, n, d = size(rng, 1, 4), size(rng, 4, 16), size(rng, 128, 2048), rng.choice([64, 128])

    def ours(q: Any, k: Any, v: Any) -> Any:
        p = lp.softmax(wide(q @ k.transpose((0, 1, 3, 2))) * d**-0.5, axis=-1).astype("bfloat16")
        return p @ v

    def theirs(torch: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    inputs = (Input((b, h, n, d), "bfloat16"),) * 3
    return Program("attention", f"attention bf16 {b}x{h}x{n}x{d}", inputs, ours, theirs,
                   flops=4.0 * b * h * n * n * d, sides=(n, n, d))  # fmt: skip


@family
def typed(rng: random.Random) -> Program:
    """Products in the types that tensor cores take besides those of 16 bits, either operand transposed or not."""
    t, layout = (
        rng.choice(["int8", "uint8", "float8_e4m3fn", "float8_e5m2", "tf32"]),
        rng.choice(["nn", "nt", "tn", "tt"]),
    )
    m, n, k = (size(rng, 64, 4096) for _ in range(3))
    stored, ints = "float32" if t == "tf32" else t, t in ("int8", "uint8")
    shapes = (m, k) if layout[0] == "n" else (k, m), (k, n) if layout[1] == "n" else (n, k)

    def turned(x: Any, y: Any) -> tuple[Any, Any]:
        return x if layout[0] == "n" else x.T, y if layout[1] == "n" else y.T

    def ours(x: Any, y: Any) -> Any:
        x, y = turned(x, y)
        if t == "tf32":
            return lp.tf32(x) @ lp.tf32(y)
        to = "int32" if ints else "float32"
        return lp.cast(x, to) @ lp.cast(y, to)

    def theirs(torch: Any, x: Any, y: Any) -> Any:
        x, y = turned(x, y)
        return x @ y if t == "tf32" else x.float() @ y.float()

    low, high = ((-8, 8) if t == "int8" else (0, 16)) if ints else (0, 0)
    inputs = tuple(Input(shape, stored, low, high) for shape in shapes)
    name = f"{t} {layout} {m}x{k}x{n}"
    return Program("typed", name, inputs, ours, theirs, flops=2.0 * m * n * k, unit=t, sides=(m, n, k))


@family
def quantized(rng: random.Random) -> Program:
    """Weights of 8 or 4 bits with scales, a few rows or many."""
    m, k, n = size(rng, 1, 1024), size(rng, 512, 8192, of=128), size(rng, 512, 8192, of=8)
    bits = rng.choice([8, 4])

    def eight(x: Any, w: Any, s: Any) -> Any:
        return x @ (lp.cast(w, "bfloat16") * s).T

    def four(x: Any, w: Any, s: Any) -> Any:
        def code(i: Any, j: Any) -> Any:
            return lp.cast((w[i, j // 2] >> lp.cast(j % 2 * 4, "uint8")) & 15, "bfloat16")

        return x @ lp.compute((n, k), lambda i, j: code(i, j) * s[i, j // 128] - 8 * s[i, j // 128]).T

    def theirs(torch: Any, x: Any, w: Any, s: Any) -> Any:
        if bits == 8:
            return x @ (w.to(x.dtype) * s).T
        codes = torch.stack([w & 15, w >> 4], dim=-1).reshape(n, k)
        return x @ ((codes.to(x.dtype) - 8) * s.repeat_interleave(128, dim=1)).T

    weight = Input((n, k), "int8", -8, 8) if bits == 8 else Input((n, k // 2), "uint8", 0, 256)
    scale = Input((n, 1), "bfloat16") if bits == 8 else Input((n, k // 128), "bfloat16")
    inputs = (Input((m, k), "bfloat16"), weight, scale)
    name = f"x @ (int{bits} * scale).T {m}x{k}x{n}"
    ours = eight if bits == 8 else four
    return Program("quantized", name, inputs, ours, theirs, flops=2.0 * m * n * k, sides=(m, n, k))
