"""Programs of several stages as `schedules.plan` makes kernels of them, beside the program as one group, by prediction.

    python benchmarks/gpu_plans.py [--rows adamw,block] [--arch sm_90a] [--log] [--write]

No GPU is needed: times are predicted. The floor is that of what a program is given and gives, moved once, and of its
products at the rate of tensor cores, whichever is more, with one launch. `--log` prints every decision.
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


PROGRAMS: dict[str, Callable[[], list[Any]]] = {
    "chain, three outputs": chain,
    "residual + layernorm, both outputs": residual_norm,
    "mean, max, sum of squares": statistics,
    "batch norm, training": batch_norm,
    "qkv": qkv,
    "swiglu": swiglu,
    "adamw, 12 tensors": adamw,
    "mlp gradients": mlp_gradients,
    "transformer block": block,
}


def floor(s: lp.Schedule, machine: lp.Machine) -> float:
    """Seconds: what is given and gives moved once, or all products by tensor cores, and a launch."""
    held = lp.buffer_bytes(s)
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
           f" {'planned in s':>12}")  # fmt: skip
    for name, program in PROGRAMS.items():
        if wanted and not any(w in name for w in wanted):
            continue
        s = lp.Schedule(program())
        whole = lp.predict(schedules.gpu(s, arch=asked.arch), "cuda", arch=asked.arch)
        begun = time.process_time()
        p = schedules.plan(s, "cuda", arch=asked.arch)
        took, moved = time.process_time() - begun, sum(g.bytes for g in p.groups)
        record(f"{name:36} {whole.seconds * 1e6:12.1f} {whole.kernels:7} {p.seconds * 1e6:8.1f} {p.kernels:7} "
               f"{moved / 1e6:7.1f} {floor(s, machine) * 1e6:8.1f} {took:12.1f}")  # fmt: skip
        if asked.log:
            print(p, *p.decisions, sep="\n")
    record.done(None)


if __name__ == "__main__":
    main()
