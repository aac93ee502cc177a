"""Products on the GPU beside torch (cuBLAS) and torch.compile, in one run on one GPU.

    python benchmarks/gpu_matmul.py [--rows 4096x,llama] [--no-compile] [--write]
    python benchmarks/gpu_matmul.py --sizes 2304x2048x8192,2304x2048x4096

Each row is checked against torch in float32 before it is timed, on random data; then they are timed in turns, and
medians are taken. Printed: TFLOP/s of each, and how many times as fast as cuBLAS and as torch.compile ours is. A row
that loopir has no schedule for is told, and counts as none. `sched` and `build` are milliseconds to schedule, in a
process that has scheduled something before, and to compile for the first time.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gpu_timing
import tables
import torch
import torch.nn.functional as F

import loopir as lp
from loopir import schedules

ROUNDS = 7
MODELS = {
    "7B": {"qkv": (12288, 4096), "up": (11008, 4096), "down": (4096, 11008), "lm_head": (32000, 4096)},
    "70B": {"qkv": (10240, 8192), "up": (28672, 8192), "down": (8192, 28672), "lm_head": (128256, 8192)},
}
"""The weights of real layers: outputs, inputs."""
TOKENS = {"7B": (1, 16, 256, 4096), "70B": (1, 16, 4096)}


@dataclass(frozen=True)
class Row:
    """A product of m x k by k x n, `lies` in memory as "nn", "nt", "tn" or "tt", and what is done with it."""

    name: str
    m: int
    n: int
    k: int
    dtype: str = "bfloat16"
    lies: str = "nn"
    epilogue: str = ""
    batch: int = 0

    @property
    def flops(self) -> float:
        return 2.0 * max(1, self.batch) * self.m * self.n * self.k

    def shapes(self) -> list[tuple[int, ...]]:
        left = (self.k, self.m) if self.lies[0] == "t" else (self.m, self.k)
        right = (self.n, self.k) if self.lies[1] == "t" else (self.k, self.n)
        first = (self.batch,) if self.batch else ()
        extra = {"bias+gelu": [(self.n,)], "residual": [(*first, self.m, self.n)], "scales": [(self.m, 1), (self.n,)]}
        return [(*first, *left), (*first, *right), *extra.get(self.epilogue, [])]

    def ours(self) -> lp.Schedule:
        given = [lp.placeholder(s, self.dtype, name=f"x{n}") for n, s in enumerate(self.shapes())]
        return lp.Schedule(self.expression(lp, lambda x: lp.gelu(x, approximate="tanh"), *given).astype(self.dtype))

    def torch(self, *given: Any) -> Any:
        return self.expression(torch, lambda x: F.gelu(x, approximate="tanh"), *given)

    def expression(self, of: Any, activation: Callable[[Any], Any], x: Any, y: Any, *extra: Any) -> Any:
        """The same for both: what they are given says whose it is."""
        order = (0, 2, 1) if self.batch else (1, 0)
        turned = [t.permute(order) if of is torch else lp.transpose(t, order) for t in (x, y)]
        z = (turned[0] if self.lies[0] == "t" else x) @ (turned[1] if self.lies[1] == "t" else y)
        match self.epilogue:
            case "bias+gelu":
                return activation(z + extra[0])
            case "residual":
                return z + extra[0]
            case "scales":
                return z * extra[0] * extra[1]
            case _:
                return z


def rows() -> Iterator[Row]:
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 4096, 1024), (8192, 1024, 16384),
                    (1024, 1024, 1024), (1025, 1023, 1027)):  # fmt: skip
        yield Row(f"bf16 {m}x{n}x{k}", m, n, k)
    for lies in ("nt", "tn", "tt"):
        yield Row(f"bf16 4096x4096x4096 {lies}", 4096, 4096, 4096, lies=lies)
    yield Row("f16 4096x4096x4096", 4096, 4096, 4096, "float16")
    yield Row("f32 4096x4096x4096", 4096, 4096, 4096, "float32")
    yield Row("bf16 16 of 1024x1024x512", 1024, 1024, 512, batch=16)
    for m, n, k in ((4096, 4096, 4096), (16384, 4096, 1024)):
        for epilogue in ("bias+gelu", "residual", "scales"):
            yield Row(f"bf16 {m}x{n}x{k} {epilogue}", m, n, k, epilogue=epilogue)
    for model, layers in MODELS.items():
        for tokens in TOKENS[model]:
            for layer, (n, k) in layers.items():
                yield Row(f"llama {model} {layer} {tokens}x{n}x{k}", tokens, n, k, lies="nt")
    near, far = [MODELS["7B"][x] for x in ("qkv", "down")], [MODELS["70B"][x] for x in ("up", "down")]
    both = near + far  # weights that lie the other way round, and few tokens
    cases = ((1, "nn", both), (2, "nn", near), (2, "nt", near), (8, "nn", near), (8, "nt", near), (16, "nn", both))
    for tokens, lies, weights in cases:
        for n, k in weights:
            yield Row(f"few {tokens}x{n}x{k} {lies}", tokens, n, k, lies=lies)


def sized(sizes: str) -> Iterator[Row]:
    for lies in ("nn", "nt"):
        for size in sizes.split(","):
            m, n, k = map(int, size.split("x"))
            yield Row(f"bf16 {size} {lies}", m, n, k, lies=lies)


# ---------------------------------------------------------------- measuring


def error(row: Row, got: Any, inputs: list[Any]) -> float:
    """The largest difference from torch in float32, as a share of the largest magnitude."""
    want = row.torch(*(x.float() for x in inputs))
    if not torch.isfinite(got).all():
        return math.inf
    return float((got.float() - want).abs().max() / want.abs().max())


def cublas(row: Row, inputs: list[Any]) -> Callable[[], Any]:
    """torch's own: where nothing follows, the product alone, of views made before and into memory that is there."""
    if row.epilogue:
        return lambda: row.torch(*inputs)
    x, y = (t.mT if lies == "t" else t for t, lies in zip(inputs, row.lies, strict=True))
    out = torch.matmul(x, y)
    return lambda: torch.matmul(x, y, out=out)


@dataclass(frozen=True)
class Measured:
    times: dict[str, float]
    error: float
    schedule: float
    compile: float


def measure(row: Row, compiled: bool) -> Measured:
    dtype = getattr(torch, row.dtype)
    inputs = [torch.randn(*s, device="cuda", dtype=dtype) for s in row.shapes()]
    gc.collect()
    gc.freeze()  # what torch.compile has left behind is not looked through while ours is timed
    began = time.perf_counter()
    s = schedules.auto(row.ours(), "cuda")
    scheduled = time.perf_counter()
    kernel = s.build("cuda")
    built = time.perf_counter()
    out = kernel(*inputs)
    torch.cuda.synchronize()
    wrong = error(row, out, inputs)
    allowed = 8 * torch.finfo(dtype).eps
    if not wrong <= allowed:
        raise ArithmeticError(f"WRONG: off by {wrong:.2e} of the largest value, and {allowed:.2e} is allowed")
    runs: dict[str, Callable[[], Any]] = {
        "ours": lambda: kernel(*inputs, out=(out,)),
        "cublas": cublas(row, inputs),
    }
    if compiled:
        torch._dynamo.reset()
        fast = torch.compile(row.torch, dynamic=False)
        runs["compile"] = lambda: fast(*inputs)
    return Measured(gpu_timing.in_turns(runs, ROUNDS), wrong, scheduled - began, built - scheduled)


def told(row: Row, found: Measured) -> str:
    speed = {name: row.flops / t / 1e12 for name, t in found.times.items()}
    ours = speed["ours"]
    compiled = f"{speed['compile']:8.1f} {ours / speed['compile']:6.3f}" if "compile" in speed else f"{'-':>8} {'-':>6}"
    return (
        f"{row.name:40} {ours:8.1f} {speed['cublas']:8.1f} {ours / speed['cublas']:6.3f} {compiled} "
        f"{found.error:8.1e} {found.schedule * 1e3:7.0f} {found.compile * 1e3:7.0f}"
    )


def main() -> int:
    parser = tables.options(__doc__)
    parser.add_argument("--sizes", default="", help="products of bf16 of these rows x columns x reduced, both ways")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    asked = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    wanted = tables.chosen(asked.rows)
    failed = False
    schedules.auto(Row("", 256, 256, 256).ours(), "cuda")  # modules are imported when they are first used
    record = gpu_timing.record("gpu_matmul.txt", asked.write)
    record(f"{'TFLOP/s':40} {'ours':>8} {'cuBLAS':>8} {'ratio':>6} {'compile':>8} {'ratio':>6} {'error':>8} "
        f"{'sched':>7} {'build':>7}  ms")  # fmt: skip
    ratios: dict[str, list[float]] = {"cublas": [], "compile": []}
    for row in sized(asked.sizes) if asked.sizes else rows():
        if wanted and not any(w in row.name for w in wanted):
            continue
        try:
            found = measure(row, not asked.no_compile)
        except (lp.LoopirError, RuntimeError, ArithmeticError) as reason:
            failed = failed or isinstance(reason, ArithmeticError)
            record(f"{row.name:40} none: {type(reason).__name__}: {str(reason).splitlines()[0][:90]}")
            continue
        record(told(row, found))
        for name in ratios.keys() & found.times.keys():
            ratios[name].append(found.times[name] / found.times["ours"])
    for name, all_of in ratios.items():
        if all_of:
            record(f"over {name}: geometric mean {statistics.geometric_mean(all_of):.3f}, least {min(all_of):.3f}")
    record.done(None)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
