"""Programs of several stages as `schedules.plan` makes kernels of them, beside the program as one group, by prediction.

    python benchmarks/gpu_plans.py [--rows adamw,block] [--arch sm_90a] [--log] [--write]

No GPU is needed: times are predicted. The floor is that of what a program is given and gives, moved once, and of its
products at the rate of tensor cores, whichever is more, with one launch; over is the plan's time by that.
`--log` prints every decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tables

import loopir as lp
import schedules

F32, BF = "float32", "bfloat16"


def given(name: str, *shape: int, dtype: str = F32) -> Any:
    return lp.placeholder(shape, dtype, name=name)


def rms(x: Any, g: Any) -> Any:
    wide = x.astype(F32)
    return (wide * lp.rsqrt(lp.mean(wide * wide, axis=1, keepdims=True) + 1e-5) * g.astype(F32)).astype(BF)


def residual_norm() -> list[Any]:
    h = (given("x", 8192, 4096) + given("r", 8192, 4096)).named("h")
    d = h - lp.mean(h, axis=1, keepdims=True)
    return [h, d * lp.rsqrt(lp.mean(d * d, axis=1, keepdims=True) + 1e-5) * given("g", 4096)]


def statistics() -> list[Any]:
    x = given("x", 8192, 8192)
    return [lp.mean(x, axis=1), lp.max(x, axis=1), lp.sum(x * x, axis=1)]


def batch_norm() -> list[Any]:
    x = given("x", 65536, 256)
    mean = lp.mean(x, axis=0)
    d = x - mean
    var = lp.mean(d * d, axis=0)
    return [d * lp.rsqrt(var + 1e-5) * given("g", 256) + given("b", 256), mean, var]


def qkv() -> list[Any]:
    x = given("x", 2048, 1024, dtype=BF)
    return [x @ given(n, 1024, 1024, dtype=BF) for n in ("q", "k", "v")]


def swiglu() -> list[Any]:
    x, down = given("x", 4096, 4096, dtype=BF), given("d", 11008, 4096, dtype=BF)
    gate, up = (x @ given(n, 4096, 11008, dtype=BF) for n in ("g", "u"))
    return [(lp.silu(gate) * up) @ down]


def adamw() -> list[Any]:
    out: list[Any] = []
    for n in range(12):
        p, g, m, v = (given(f"{name}{n}", 1 << 18) for name in "pgmv")
        m1, v1 = (m * 0.9 + g * 0.1).named(f"m_{n}"), (v * 0.999 + g * g * 0.001).named(f"v_{n}")
        out += [m1, v1, (p * 0.9999 - 0.001 * m1 / (lp.sqrt(v1) + 1e-8)).named(f"p_{n}")]
    return out


def mlp_gradients() -> list[Any]:
    x, w1, w2 = given("x", 4096, 1024, dtype=BF), given("w1", 1024, 4096, dtype=BF), given("w2", 4096, 1024, dtype=BF)
    y = given("y", 4096, 1024, dtype=BF)
    h = (x @ w1).named("h")
    a = lp.relu(h).named("a")
    e = ((a @ w2) - y).named("e")
    da = (e @ lp.transpose(w2, (1, 0))) * lp.where(h > 0.0, 1.0, 0.0).astype(BF)
    return [lp.transpose(x, (1, 0)) @ da, lp.transpose(a, (1, 0)) @ e]


def block() -> list[Any]:
    tokens, width, heads = 2048, 1024, 8
    each = width // heads
    x, g, g2 = given("x", tokens, width, dtype=BF), given("g", width, dtype=BF), given("g2", width, dtype=BF)
    n = rms(x, g)
    q, k, v = (
        lp.transpose(lp.reshape(n @ given(name, width, width, dtype=BF), (tokens, heads, each)), (1, 0, 2))
        for name in "qkv"
    )
    scores = (q @ lp.transpose(k, (0, 2, 1))).astype(F32) * each**-0.5
    heard = lp.softmax(scores).astype(BF) @ v
    x = x + lp.reshape(lp.transpose(heard, (1, 0, 2)), (tokens, width)) @ given("o", width, width, dtype=BF)
    wide = lp.gelu(rms(x, g2) @ given("u", width, 4 * width, dtype=BF))
    return [x + wide @ given("d", 4 * width, width, dtype=BF)]


def chain() -> list[Any]:
    x = given("x", 1 << 25)
    return [x * 2.0, lp.exp(x), lp.relu(x) + 1.0]


def long_chain() -> list[Any]:
    x = given("x", 1 << 25)
    for _ in range(6):
        x = lp.tanh(x * 0.5) * x + 1.0
    return [x]


def softmax() -> list[Any]:
    return [lp.softmax(given("x", 8192, 4096))]


def group_norm() -> list[Any]:
    x = given("x", 32, 32, 8192, dtype=BF).astype(F32)
    d = x - lp.mean(x, axis=2, keepdims=True)
    return [(d * lp.rsqrt(lp.mean(d * d, axis=2, keepdims=True) + 1e-5)).astype(BF)]


def product_epilogue() -> list[Any]:
    return [lp.gelu(given("x", 4096, 4096, dtype=BF) @ given("w", 4096, 4096, dtype=BF) + given("b", 4096, dtype=BF))]


def convolution() -> list[Any]:
    x, w = given("x", 16, 64, 56, 56, dtype=BF), given("w", 128, 64, 3, 3, dtype=BF)
    return [lp.relu(lp.conv2d(x, w, padding=1) + given("b", 128, 1, 1, dtype=BF))]


def resnet_block() -> list[Any]:
    x = given("x", 16, 64, 56, 56, dtype=BF)
    w = [given(f"w{n}", 64, 64, 3, 3, dtype=BF) for n in range(2)]
    b = [given(f"b{n}", 64, 1, 1, dtype=BF) for n in range(2)]
    h = lp.relu(lp.conv2d(x, w[0], padding=1) + b[0])
    return [lp.relu(lp.conv2d(h, w[1], padding=1) + b[1] + x)]


def heads(queries: int, keys: int, tokens: int, each: int) -> list[Any]:
    """Attention of so many heads of queries, several of which read those of one head of keys."""
    q = given("q", keys, queries // keys, tokens, each, dtype=BF)
    k, v = (given(name, keys, 1, tokens, each, dtype=BF) for name in "kv")
    scores = (q @ lp.transpose(k, (0, 1, 3, 2))).astype(F32) * each**-0.5
    return [lp.softmax(scores).astype(BF) @ v]


def experts(dtype: str) -> list[Any]:
    """Rows times the matrix that an index chooses."""
    x, w, ids = (
        given("x", 2048, 256, dtype=dtype),
        given("w", 8, 256, 512, dtype=dtype),
        given("ids", 2048, dtype="int64"),
    )
    k = lp.reduce_axis(256, name="k")
    return [lp.compute((2048, 512), lambda i, j: lp.sum(x[i, k] * w[ids[i], k, j], axis=k), name="moe")]


def dlrm() -> list[Any]:
    """Products of every two of 26 looked-up rows, and of what a small network makes."""
    found = given("table", 100_000, 64, dtype=BF)[given("ids", 2048, 26, dtype="int64")]
    dense = lp.relu(given("x", 2048, 256, dtype=BF) @ given("w", 256, 64, dtype=BF))
    return [found @ lp.transpose(found, (0, 2, 1)), dense]


def mixed_adamw() -> list[Any]:
    """Parameters in bfloat16 with moments and masters in float32, and two in float32 alone."""
    out: list[Any] = []
    for n in range(6):
        g, (p, m, v) = given(f"g{n}", 1 << 18, dtype=BF if n % 3 else F32), (given(f"{x}{n}", 1 << 18) for x in "pmv")
        wide = g.astype(F32)
        m1, v1 = (m * 0.9 + wide * 0.1).named(f"m_{n}"), (v * 0.999 + wide * wide * 0.001).named(f"v_{n}")
        p1 = (p * 0.9999 - 0.001 * m1 / (lp.sqrt(v1) + 1e-8)).named(f"p_{n}")
        out += [m1, v1, p1, *([p1.astype(BF)] if n % 3 else [])]
    return out


def regression_gradients() -> list[Any]:
    """Of softmax regression: the gradient of the weights and of the bias."""
    x, w, y = given("x", 8192, 1024, dtype=BF), given("w", 1024, 256, dtype=BF), given("y", 8192, 256, dtype=BF)
    e = (lp.softmax((x @ w).astype(F32)) - y.astype(F32)).astype(BF).named("e")
    return [lp.transpose(x, (1, 0)) @ e, lp.sum(e.astype(F32), axis=0)]


PROGRAMS: dict[str, Callable[[], list[Any]]] = {
    "chain of 18 steps": long_chain,
    "chain, three outputs": chain,
    "softmax": softmax,
    "group norm": group_norm,
    "residual + layernorm, both outputs": residual_norm,
    "mean, max, sum of squares": statistics,
    "batch norm, training": batch_norm,
    "product + bias + gelu": product_epilogue,
    "conv + bias + relu": convolution,
    "resnet block": resnet_block,
    "attention": lambda: heads(8, 8, 2048, 128),
    "attention, grouped queries": lambda: heads(32, 8, 2048, 128),
    "experts, bfloat16": lambda: experts(BF),
    "experts, float32": lambda: experts(F32),
    "dlrm": dlrm,
    "qkv": qkv,
    "swiglu": swiglu,
    "adamw, 12 tensors": adamw,
    "adamw, mixed dtypes": mixed_adamw,
    "softmax regression, gradients": regression_gradients,
    "mlp gradients": mlp_gradients,
    "transformer block": block,
}


GATHERED = {"dlrm": {"table": 2048 * 26 * 64 * 2}}
"""Bytes that programs need of arrays of which they read some rows alone."""


def floor(s: lp.Schedule, machine: lp.Machine, gathered: dict[str, int]) -> float:
    """Seconds: what is needed and given moved once, or all products by tensor cores, and a launch."""
    held = lp.buffer_bytes(s) | gathered
    read, written = (sum(held[a.buffer.name] for a in s.func.args if a.access != x) for x in ("out", "in"))
    products = [x for x in s.stages if schedules.View(s, "cuda").classes[x] == "contraction"]
    operations = sum(2.0 * float(s.cost.by_statement[x]) for x in products)
    rate = machine.tensor_rate(BF)
    return max(machine.memory_seconds(read, written), operations / (rate.warpgroup or rate.warp)) + machine.launch


def main() -> None:
    parser = tables.options(__doc__)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--log", action="store_true", help="print every decision")
    asked = parser.parse_args()
    wanted, machine = tables.chosen(asked.rows), lp.machine(asked.arch)
    record = tables.Record("gpu_plans.txt", asked.write)
    record(f"commit {tables.commit()}; predicted for {machine.name}")
    record(f"{'program':36} {'one group us':>12} {'kernels':>7} {'plan us':>8} {'kernels':>7} {'MB':>7} {'floor us':>8}"
           f" {'over':>5} {'planned in s':>12}")  # fmt: skip
    for name, program in PROGRAMS.items():
        if wanted and not any(w in name for w in wanted):
            continue
        s = lp.Schedule(program())
        whole = lp.predict(schedules.gpu(s, arch=asked.arch), "cuda", arch=asked.arch)
        begun = time.process_time()
        p = schedules.plan(s, "cuda", arch=asked.arch)
        took, moved = time.process_time() - begun, sum(g.bytes for g in p.groups)
        least = floor(s, machine, GATHERED.get(name, {}))
        record(f"{name:36} {whole.seconds * 1e6:12.1f} {whole.kernels:7} {p.seconds * 1e6:8.1f} {p.kernels:7} "
               f"{moved / 1e6:7.1f} {least * 1e6:8.1f} {p.seconds / least:5.2f} {took:12.1f}")  # fmt: skip
        if asked.log:
            print(p, *p.decisions, sep="\n")
    record.done(None)


if __name__ == "__main__":
    main()
