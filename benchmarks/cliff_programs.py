"""Programs drawn at random from twelve families of whole programs, with what no schedule of each can avoid.

`draw(family, seed, n)` gives the same program in every process. Sizes are multiples of 8 as a rule and odd now and
then; dtypes, axes, epilogues, masks and numbers of tensors are drawn, too. `wide_programs.py` has programs of which
torch's form is known; these are larger, and have none.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import loopir as lp
from loopir import schedules

F32, BF, F16 = "float32", "bfloat16", "float16"
Outputs = list[Any]


@dataclass
class Draw:
    """One program while it is drawn: its random numbers, its placeholders, and what its name says of it."""

    rng: random.Random
    said: list[str] = field(default_factory=list[str])
    gathered: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes of an array of which only some are needed."""
    count: int = 0

    def pick(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def often(self, share: float) -> bool:
        return self.rng.random() < share

    def say(self, *words: Any) -> None:
        self.said += map(str, words)

    def given(self, *shape: int, dtype: str = F32) -> Any:
        self.count += 1
        return lp.placeholder(shape, dtype, name=f"x{self.count}")

    def rows(self, *lengths: int) -> int:
        """One of `lengths`, and now and then one more."""
        return self.pick(*lengths) + self.often(0.12)

    def real(self) -> str:
        t = self.pick(F32, BF, BF)
        self.say(t)
        return t


@dataclass(frozen=True)
class Drawn:
    """A program, and the bytes that are needed of arrays that are not read whole."""

    family: str
    name: str
    schedule: lp.Schedule
    gathered: dict[str, int]


FAMILIES: dict[str, Callable[[Draw], Outputs]] = {}


def family(make: Callable[[Draw], Outputs]) -> Callable[[Draw], Outputs]:
    FAMILIES[make.__name__] = make
    return make


def draw(name: str, seed: int, n: int) -> Drawn:
    d = Draw(random.Random(f"{seed} {name} {n}"))
    outputs = FAMILIES[name](d)
    return Drawn(name, " ".join(d.said), lp.Schedule(outputs), d.gathered)


def wide(x: Any) -> Any:
    return lp.cast(x, F32)


def activated(d: Draw, x: Any) -> Any:
    name = d.pick("relu", "gelu", "silu", "tanh", "sigmoid")
    d.say(name)
    return getattr(lp, name)(x)


def normed(d: Draw, x: Any, t: str) -> Any:
    """Layer norm or RMS norm along the last dimension."""
    kind, c = d.pick("layernorm", "rmsnorm"), x.shape[-1]
    d.say(kind)
    v = wide(x)
    if kind == "layernorm":
        v = v - lp.mean(v, axis=-1, keepdims=True)
    scaled = v * lp.rsqrt(lp.mean(v * v, axis=-1, keepdims=True) + 1e-5) * wide(d.given(c, dtype=t))
    return (scaled + wide(d.given(c, dtype=t)) if kind == "layernorm" else scaled).astype(t)


# ---------------------------------------------------------------- through memory


@family
def elementwise(d: Draw) -> Outputs:
    """Chains with broadcasts, one to three values of which are asked for."""
    shape = d.pick((1 << 20,), (10_000_019,), (1 << 24,), (4096, 4096), (2047, 5001), (8, 512, 1024), (16, 64, 56, 56))
    t = d.real()
    d.say(shape)
    values = [wide(d.given(*shape, dtype=t)) for _ in range(d.pick(1, 2, 3))]
    if d.often(0.5):
        d.say("row")
        values.append(wide(d.given(shape[-1], dtype=t)))
    for _ in range(d.pick(2, 4, 8)):
        a, b = d.rng.choice(values), d.rng.choice(values)
        steps: list[Callable[[], Any]] = [
            lambda a=a, b=b: a + b * 0.5,
            lambda a=a, b=b: a * b,
            lambda a=a, b=b: lp.maximum(a, b),
            lambda a=a, b=b: lp.where(a > 0.0, a, b),
            lambda a=a, b=b: activated(d, a) - b,
        ]
        values.append(d.rng.choice(steps)())
    whole = [v for v in values if v.shape == values[0].shape]
    count = min(d.pick(1, 1, 2, 3), len(whole))
    d.say(count, "outputs")
    return [v.astype(t) for v in whole[-count:]]


@family
def norms(d: Draw) -> Outputs:
    """Softmax and norms of all kinds, along rows or columns."""
    kind = d.pick("softmax", "logsoftmax", "norm", "standardise", "unit", "group", "less the least", "statistics")
    t = d.real()
    d.say(kind)
    if kind == "group":
        n, c, h = d.pick(2, 16), d.pick(64, 128, 320), d.pick(16, 32, 64)
        d.say((n, c, h, h))
        v = wide(d.given(n, c, h, h, dtype=t)).reshape((n, 32, c // 32, h, h))
        v = v - lp.mean(v, axis=(2, 3, 4), keepdims=True)
        v = v * lp.rsqrt(lp.mean(v * v, axis=(2, 3, 4), keepdims=True) + 1e-5)
        return [(v.reshape((n, c, h, h)) * wide(d.given(c, dtype=t))[:, None, None]).astype(t)]
    shape = d.pick(
        (8192, 1024), (4096, 4096), (1000, 10_000), (65536, 256), (32, 131_072), (8, 12, 512, 512), (5000, 1023)
    )
    axis = 0 if len(shape) == 2 and d.often(0.25) and kind != "norm" else -1
    d.say(shape, "axis", axis)
    x = d.given(*shape, dtype=t)
    v = wide(x)
    fold: dict[str, Callable[[], Outputs]] = {
        "softmax": lambda: [lp.softmax(v, axis=axis).astype(t)],
        "logsoftmax": lambda: [(v - lp.logsumexp(v, axis=axis, keepdims=True)).astype(t)],
        "norm": lambda: [normed(d, x, t)],
        "standardise": lambda: [
            ((v - lp.mean(v, axis=axis, keepdims=True)) / lp.std(v, axis=axis, keepdims=True)).astype(t)
        ],
        "unit": lambda: [(v * lp.rsqrt((v * v).sum(axis=axis, keepdims=True) + 1e-6)).astype(t)],
        "less the least": lambda: [(v - lp.min(v, axis=axis, keepdims=True)).astype(t)],
        "statistics": lambda: [lp.mean(v, axis=axis), lp.max(v, axis=axis), (v * v).sum(axis=axis)],
    }  # fmt: skip
    return fold[kind]()


@family
def residual(d: Draw) -> Outputs:
    """A residual sum and its norm, both asked for."""
    rows, c, t = d.rows(512, 2048, 8192, 16384), d.pick(768, 1024, 4096, 8192), d.real()
    d.say(rows, c)
    h = (wide(d.given(rows, c, dtype=t)) + wide(d.given(rows, c, dtype=t))).astype(t)
    if d.often(0.4):
        d.say("bias")
        h = (wide(h) + wide(d.given(c, dtype=t))).astype(t)
    h = h.named("h")
    return [h, normed(d, h, t)]


@family
def batch_norm(d: Draw) -> Outputs:
    """In training, of rows or images, with what is learnt of them asked for now and then."""
    t = d.real()
    if d.often(0.5):
        shape, axes = (d.rows(1024, 8192, 65536), d.pick(64, 256, 1024)), (0,)
    else:
        shape, axes = (d.pick(8, 32), d.pick(64, 256), d.pick(14, 28, 56), 0), (0, 2, 3)
        shape = (*shape[:3], shape[2])
    d.say(shape)
    v = wide(d.given(*shape, dtype=t))
    mean = lp.mean(v, axis=axes, keepdims=True)
    var = lp.mean((v - mean) * (v - mean), axis=axes, keepdims=True)
    at = (slice(None), None, None) if len(shape) == 4 else (slice(None),)
    y = (v - mean) * lp.rsqrt(var + 1e-5) * d.given(shape[1])[at] + d.given(shape[1])[at]
    if d.often(0.5):
        y = activated(d, y)
    if d.often(0.3):
        d.say("statistics")
        return [y.astype(t), mean.reshape((shape[1],)), var.reshape((shape[1],))]
    return [y.astype(t)]


@family
def optimizers(d: Draw) -> Outputs:
    """A step of SGD, AdamW or Lion over several tensors."""
    kind, count = d.pick("sgd", "adamw", "lion"), d.pick(1, 2, 4, 8)
    sizes = [d.pick(1000, 65536, 1 << 20, 4_000_001) for _ in range(count)]
    if d.often(0.5):
        sizes = sizes[:1] * count
    t = d.pick(F32, F32, BF)
    d.say(kind, t, *sizes)
    out: Outputs = []
    for k, n in enumerate(sizes):
        p, g, m = d.given(n, dtype=t), wide(d.given(n, dtype=t)), d.given(n)
        if kind == "sgd":
            m1 = (m * 0.9 + g + wide(p) * 1e-4).named(f"m_{k}")
            out += [m1, (wide(p) - m1 * 1e-3).astype(t)]
        elif kind == "lion":
            out += [(m * 0.99 + g * 0.01).named(f"m_{k}"),
                    (wide(p) * 0.999 - lp.sign(m * 0.9 + g * 0.1) * 1e-4).astype(t)]  # fmt: skip
        else:
            v = d.given(n)
            m1, v1 = (m * 0.9 + g * 0.1).named(f"m_{k}"), (v * 0.999 + g * g * 0.001).named(f"v_{k}")
            out += [m1, v1, (wide(p) * 0.9999 - m1 * 1e-3 / (lp.sqrt(v1) + 1e-8)).astype(t)]
    return out


# ---------------------------------------------------------------- products


def epilogue(d: Draw, y: Any, t: str) -> Any:
    """Bias, activation, residual, scale: some of them."""
    y = wide(y)
    if d.often(0.6):
        d.say("bias")
        y = y + wide(d.given(y.shape[-1], dtype=t))
    if d.often(0.6):
        y = activated(d, y)
    if d.often(0.3):
        d.say("residual")
        y = y + wide(d.given(*y.shape, dtype=t))
    return y.astype(t)


@family
def products(d: Draw) -> Outputs:
    """Products and convolutions with what is made of them, in all layouts, of few rows and many."""
    if d.often(0.35):
        return convolution(d)
    t = d.pick(BF, BF, BF, F16, F32)
    m, k, n = d.rows(1, 16, 128, 1024, 4096), d.pick(512, 1024, 4096), d.rows(256, 1024, 4096)
    form = d.pick("plain", "plain", "x.T", "w.T", "[B, T, D]", "batched")
    d.say(t, form, m, k, n)
    if form == "batched":
        b, k = d.pick(4, 16), d.pick(64, 128)
        return [epilogue(d, d.given(b, m, k, dtype=t) @ d.given(b, k, n, dtype=t), t)]
    if form == "[B, T, D]":
        b = d.pick(2, 8)
        y = epilogue(d, d.given(b, m, k, dtype=t).reshape((b * m, k)) @ d.given(k, n, dtype=t), t)
        return [y.reshape((b, m, n))]
    x = d.given(k, m, dtype=t).T if form == "x.T" else d.given(m, k, dtype=t)
    w = d.given(n, k, dtype=t).T if form == "w.T" else d.given(k, n, dtype=t)
    return [epilogue(d, x @ w, t)]


def convolution(d: Draw) -> Outputs:
    n, c, k, h = d.pick(1, 8, 32), d.pick(3, 64, 128, 256), d.pick(64, 128, 256), d.pick(14, 28, 56)
    r, s, t = d.pick(1, 3, 3, 7), d.pick(1, 1, 2), d.pick(BF, BF, F32)
    d.say("conv", t, (n, c, h, h), f"{r}x{r}/{s} to", k)
    y = lp.conv2d(d.given(n, c, h, h, dtype=t), d.given(k, c, r, r, dtype=t), padding=r // 2, stride=s)
    y = wide(y) * d.given(k)[:, None, None] + d.given(k)[:, None, None]
    return [(activated(d, y) if d.often(0.7) else y).astype(t)]


@family
def attention(d: Draw) -> Outputs:
    """With a mask or none, over heads that lie apart or are split from a row and merged again."""
    b, h, n, e = d.pick(1, 4), d.pick(8, 16), d.rows(256, 1024, 2048), d.pick(64, 128)
    split, mask = d.often(0.4), d.pick("", "causal", "bias")
    d.say((b, h, n, e), "of rows" if split else "of heads", mask)
    if split:
        q, k, v = (d.given(b, n, h * e, dtype=BF).reshape((b, n, h, e)).transpose((0, 2, 1, 3)) for _ in range(3))
    else:
        q, k, v = (d.given(b, h, n, e, dtype=BF) for _ in range(3))
    scores = wide(q @ k.transpose((0, 1, 3, 2))) * e**-0.5
    if mask == "causal":
        scores = lp.tril(scores) + lp.triu(lp.full((n, n), -1e9, F32), 1)
    elif mask == "bias":
        scores = scores + d.given(h, n, n)[None]
    y = lp.softmax(scores, axis=-1).astype(BF) @ v
    return [y.transpose((0, 2, 1, 3)).reshape((b, n, h * e)) if split else y]


@family
def gated(d: Draw) -> Outputs:
    """SwiGLU by two matrices or the halves of one, with or without the product after it."""
    m, k, n = d.rows(16, 256, 1024, 4096), d.pick(512, 1024, 4096), d.pick(1408, 2816, 4096)
    halves, down = d.often(0.4), d.often(0.5)
    d.say(m, k, n, "halves" if halves else "two matrices", "down" if down else "")
    x = d.given(m, k, dtype=BF)
    if halves:
        y = wide(x @ d.given(k, 2 * n, dtype=BF))
        gate, up = y[:, :n], y[:, n:]
    else:
        gate, up = (wide(x @ d.given(k, n, dtype=BF)) for _ in range(2))
    y = (lp.silu(gate) * up).astype(BF)
    return [y @ d.given(n, k, dtype=BF)] if down else [y]


@family
def qkv(d: Draw) -> Outputs:
    """Q, K and V of one array by three matrices or one; fewer heads of K and V; heads split or not."""
    m, k, e, h = d.rows(64, 512, 2048, 4096), d.pick(1024, 2048), d.pick(64, 128), d.pick(8, 16)
    g, one, split = d.pick(h, h // 4), d.often(0.3), d.often(0.5)
    d.say(m, k, f"{h} and {g} heads of {e}", "one matrix" if one else "", "split" if split else "")
    x = d.given(m, k, dtype=BF)
    if d.often(0.3):
        x = normed(d, x, BF)
    if one:
        y = x @ d.given(k, (h + 2 * g) * e, dtype=BF)
        parts = [y[:, : h * e], y[:, h * e : (h + g) * e], y[:, (h + g) * e :]]
    else:
        parts = [x @ d.given(k, n * e, dtype=BF) for n in (h, g, g)]
    if split:
        parts = [p.reshape((m, n, e)).transpose((1, 0, 2)) for p, n in zip(parts, (h, g, g), strict=True)]
    return parts


@family
def gathers(d: Draw) -> Outputs:
    """Embeddings, bags, rows that are looked up and normed or multiplied, weights of experts by index."""
    kind = d.pick("embedding", "bag", "normed", "product", "experts", "dlrm")
    t, rows, c, n = d.pick(F32, BF), d.pick(10_000, 100_000), d.pick(64, 128, 1024), d.rows(512, 2048, 8192)
    d.say(kind, t, (rows, c), n)
    size = 4 if t == F32 else 2
    if kind == "experts":
        e, h = d.pick(8, 16), d.pick(512, 1024)
        k = lp.reduce_axis(c, name="k")
        x, w, ids = d.given(n, c, dtype=t), d.given(e, c, h, dtype=t), d.given(n, dtype="int64")
        return [lp.compute((n, h), lambda i, j: lp.sum(x[i, k] * w[ids[i], k, j], axis=k), name="moe")]
    table = d.given(rows, c, dtype=t)
    if kind in ("bag", "dlrm"):
        many = d.pick(4, 32) if kind == "bag" else 26
        ids = d.given(n, many, dtype="int64")
        d.gathered[table.name] = min(rows, n * many) * c * size
        if kind == "bag":
            k = lp.reduce_axis(many, name="k")
            return [lp.compute((n, c), lambda i, j: lp.sum(table[ids[i, k], j], axis=k), name="bag")]
        found = table[ids]
        return [(found @ found.transpose((0, 2, 1))).astype(t)]
    found = table[d.given(n, dtype="int64")]
    d.gathered[table.name] = min(rows, n) * c * size
    if kind == "normed":
        return [normed(d, found, t)]
    if kind == "product":
        return [found @ d.given(c, d.pick(256, 1024), dtype=t)]
    return [(wide(found) * math.sqrt(c) + wide(d.given(n, c, dtype=t))).astype(t)]


@family
def gradients(d: Draw) -> Outputs:
    """Of linear layers with an activation, of softmax regression, of a norm."""
    kind = d.pick("linear", "mlp", "cross entropy", "norm")
    rows, c = d.rows(1024, 4096, 8192), d.pick(512, 1024, 4096)
    d.say(kind, rows, c)
    x = d.given(rows, c, dtype=BF)
    if kind == "norm":
        v, dy, g = wide(x), wide(d.given(rows, c, dtype=BF)), d.given(c)
        r = lp.rsqrt(lp.mean(v * v, axis=1, keepdims=True) + 1e-5)
        w = dy * g
        return [(r * (w - v * r * r * lp.mean(w * v, axis=1, keepdims=True))).astype(BF), (dy * v * r).sum(axis=0)]
    if kind == "cross entropy":
        n = d.pick(128, 1024)
        w, y = d.given(c, n, dtype=BF), d.given(rows, n, dtype=BF)
        e = ((lp.softmax(wide(x @ w)) - wide(y)) * (1.0 / rows)).astype(BF).named("e")
        return [x.T @ e, e @ w.T]
    n = d.pick(512, 1024, 4096)
    w, dy = d.given(c, n, dtype=BF), d.given(rows, n, dtype=BF)
    if kind == "linear":
        d.say(n)
        return [dy @ w.T, x.T @ dy, wide(dy).sum(axis=0)]
    h = (x @ w).named("h")
    dh = (wide(dy) * lp.where(wide(h) > 0.0, 1.0, 0.0)).astype(BF).named("dh")
    return [lp.relu(h), x.T @ dh, dh @ w.T]


@family
def blocks(d: Draw) -> Outputs:
    """An MLP block, a transformer block, or a residual block of convolutions."""
    kind = d.pick("mlp", "transformer", "resnet")
    if kind == "resnet":
        n, c, h, t = d.pick(1, 8, 32), d.pick(64, 128, 256), d.pick(14, 28, 56), d.pick(BF, BF, F32)
        d.say(kind, t, (n, c, h, h))
        x = y = d.given(n, c, h, h, dtype=t)
        for last in (False, True):
            y = wide(lp.conv2d(y, d.given(c, c, 3, 3, dtype=t), padding=1)) * d.given(c)[:, None, None]
            y = y + d.given(c)[:, None, None]
            y = lp.relu(y + wide(x) if last else y).astype(t)
        return [y]
    n, w = d.rows(256, 512, 2048), d.pick(512, 1024, 2048)
    d.say(kind, n, w)
    x = d.given(n, w, dtype=BF)
    if kind == "transformer":
        h = w // 64
        y = normed(d, x, BF)
        q, k, v = ((y @ d.given(w, w, dtype=BF)).reshape((n, h, 64)).transpose((1, 0, 2)) for _ in range(3))
        p = lp.softmax(wide(q @ k.transpose((0, 2, 1))) * 0.125).astype(BF) @ v
        x = x + p.transpose((1, 0, 2)).reshape((n, w)) @ d.given(w, w, dtype=BF)
    y = normed(d, x, BF) @ d.given(w, 4 * w, dtype=BF)
    return [x + lp.gelu(y) @ d.given(4 * w, w, dtype=BF)]


# ---------------------------------------------------------------- what no schedule can avoid


def floor(program: Drawn, machine: lp.Machine) -> float:
    """Seconds that no schedule goes below: what is needed and made moved once, or all products, and one launch.

    Products take the rate of tensor cores for their operands' type, those of float32 that of ordinary units.
    """
    s = program.schedule
    held = lp.buffer_bytes(s) | program.gathered
    read, written = (sum(held[a.buffer.name] for a in s.func.args if a.access != x) for x in ("out", "in"))
    seconds = 0.0
    for stage, kind in schedules.View(s, "cuda").classes.items():
        if kind == "contraction":
            types = {t.dtype.name for t in s.accesses(stage) if not t.write}
            rate = machine.tensor_rate(BF)
            narrow = types & {BF, F16} or not types & {F32}
            most = (
                max(rate.warp, rate.warpgroup) if narrow else 2.0 * machine.lanes * machine.processors * machine.clock
            )
            seconds += 2.0 * float(s.cost.by_statement[stage]) / most
    return max(machine.memory_seconds(read, written), seconds) + machine.launch
