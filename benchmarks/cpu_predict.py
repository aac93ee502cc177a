"""What `lp.predict` says of kernels for CPUs beside what they take: programs that no other table has.

    python benchmarks/cpu_predict.py [--rows exp,matmul] [--write]

One thread; times are of the processor, the least of several blocks of calls on arrays that earlier calls have touched,
so that a busy machine tells less. Programs are scheduled by `schedules.auto`, or "as written". The ratio is predicted
by measured; the ten worst rows come again at the end. The constants of the model were chosen by the first table, and
the programs of the second, `held_out`, had no part in that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tables

import loopir as lp
import schedules

BLOCK, BLOCKS = 0.02, 7
Make = Callable[[], Any]


def arrays(n: int, *shape: int, dtype: str = "float32") -> list[Any]:
    return [lp.placeholder(shape, dtype, name=f"x{k}") for k in range(n)]


def x_(*shape: int, dtype: str = "float32") -> Any:
    return lp.placeholder(shape, dtype, name="x")


def norm(x: Any) -> Any:
    d = x - lp.mean(x, axis=1, keepdims=True)
    return d * lp.rsqrt(lp.mean(d * d, axis=1, keepdims=True) + 1e-5)


def blur(n: int) -> Any:
    x = x_(n, n)
    return lp.compute((n - 2, n - 2), lambda i, j: (x[i, j] + x[i + 1, j + 1] + x[i + 2, j + 2]) * 0.25, name="b")


def product(m: int, k: int, n: int) -> Any:
    return lp.placeholder((m, k), "float32", name="a") @ lp.placeholder((k, n), "float32", name="b")


def programs() -> dict[str, Make]:
    found: dict[str, Make] = {}
    functions = {"exp": lp.exp, "log": lambda x: lp.log(x * x + 1.0), "tanh": lp.tanh, "sqrt": lambda x: lp.sqrt(x * x),
                 "sigmoid": lp.sigmoid, "erf": lp.erf, "sin": lp.sin, "cos": lp.cos}  # fmt: skip
    for name, f in functions.items():
        found[f"{name} 64K"] = lambda f=f: f(x_(1 << 16))
    for n in (12, 15, 18, 20, 22, 24):
        found[f"scale 2^{n}"] = lambda n=n: x_(1 << n) * 2.0 + 1.0
    for n in (14, 17, 21, 23):
        found[f"add 2^{n}"] = lambda n=n: (lambda a, b: a + b)(*arrays(2, 1 << n))
    for n in (16, 22):
        found[f"quotient 2^{n}"] = lambda n=n: (lambda a, b: a / (b * b + 1.0))(*arrays(2, 1 << n))
        found[f"chain of ten 2^{n}"] = lambda n=n: _chain(x_(1 << n), 10)
        found[f"half to half 2^{n}"] = lambda n=n: x_(1 << n, dtype="float16") * 2.0
        found[f"bytes 2^{n}"] = lambda n=n: x_(1 << n, dtype="uint8") * 3
    for n, m in ((64, 1000), (4096, 256), (300, 20000)):
        found[f"row sums {n}x{m}"] = lambda n=n, m=m: lp.sum(x_(n, m), axis=1)
        found[f"column sums {n}x{m}"] = lambda n=n, m=m: lp.sum(x_(n, m), axis=0)
        found[f"softmax {n}x{m}"] = lambda n=n, m=m: lp.softmax(x_(n, m))
        found[f"norm {n}x{m}"] = lambda n=n, m=m: norm(x_(n, m))
    found["sum 2^20"] = lambda: lp.sum(x_(1 << 20))
    found["maximum 2^16"] = lambda: lp.max(x_(1 << 16))
    for n in (100, 1000, 2500):
        found[f"transpose {n}"] = lambda n=n: lp.transpose(x_(n, n), (1, 0)) * 2.0
        found[f"neighbours {n}"] = lambda n=n: blur(n)
        found[f"outer {n}"] = lambda n=n: _outer(*arrays(2, n))
    for m, k, n in (
        (64, 64, 64),
        (200, 300, 400),
        (512, 512, 512),
        (1000, 100, 1000),
        (32, 2048, 512),
        (700, 700, 700),
    ):
        found[f"product {m}x{k}x{n}"] = lambda m=m, k=k, n=n: product(m, k, n)
    found["product + relu 384"] = lambda: lp.relu(product(384, 384, 384))
    for m, n in ((1000, 1000), (4000, 4000)):
        found[f"matrix by vector {m}x{n}"] = lambda m=m, n=n: x_(m, n) @ lp.placeholder((n,), "float32", name="v")
    written = {"scale 2^20": lambda: x_(1 << 20) * 2.0 + 1.0, "exp 64K": lambda: lp.exp(x_(1 << 16)),
               "row sums 500x500": lambda: lp.sum(x_(500, 500), axis=1), "product 128": lambda: product(128, 128, 128),
               "softmax 200x300": lambda: lp.softmax(x_(200, 300)), "norm 200x300": lambda: norm(x_(200, 300)),
               "column sums 500x500": lambda: lp.sum(x_(500, 500), axis=0), "transpose 500": lambda:
               lp.transpose(x_(500, 500), (1, 0)) * 2.0}  # fmt: skip
    return found | {f"{name}, as written": make for name, make in written.items()}


def held_out() -> dict[str, Make]:
    """Programs that the constants of the model were not chosen by."""
    return {
        "silu 100000": lambda: lp.silu(x_(100000)), "exp of rows 300x700": lambda: lp.exp(x_(300, 700) - 1.0),
        "mean of squares 700x900": lambda: _squares(x_(700, 900)),
        "largest of columns 900x500": lambda: lp.max(x_(900, 500), axis=0),
        "softmax 1500x128": lambda: lp.softmax(x_(1500, 128)), "norm 500x3000": lambda: norm(x_(500, 3000)),
        "product 300x900x150": lambda: product(300, 900, 150), "product 128x128x1024": lambda: product(128, 128, 1024),
        "product 16x512x512": lambda: product(16, 512, 512), "neighbours 400": lambda: blur(400),
        "transpose 300": lambda: lp.transpose(x_(300, 300), (1, 0)) + 1.0,
        "doubles 200000": lambda: x_(200000, dtype="float64") * 3.0, "integers 300000": lambda:
        x_(300000, dtype="int32") * 7 + 1, "choice 150000": lambda: lp.where(x_(150000) > 1.0, 1.0, 0.5),
        "triple 3000000": lambda: (lambda a, b, c: a * b + c)(*arrays(3, 3000000)),
        "norm 300x500, as written": lambda: norm(x_(300, 500)), "product 96, as written": lambda: product(96, 96, 96),
        "chain 50000, as written": lambda: _chain(x_(50000), 5), "log 30000, as written": lambda: lp.log(x_(30000)),
        "row sums 64x4000, as written": lambda: lp.sum(x_(64, 4000), axis=1),
    }  # fmt: skip


def _chain(x: Any, count: int) -> Any:
    for n in range(count):
        x = x * 1.5 + float(n)
    return x


def _outer(a: Any, b: Any) -> Any:
    return a[:, None] * b[None, :]


def _squares(x: Any) -> Any:
    return lp.mean(x * x, axis=1)


def measured(s: lp.Schedule) -> float:
    """Seconds of a call on one thread."""
    rng, kernel = np.random.default_rng(0), s.build("llvm", threads=1)
    args: list[Any] = list(s.func.args)
    shapes = [[d.value for d in a.buffer.shape] for a in args]
    every = [np.array(rng.random(n) * 4 + 0.5, a.buffer.dtype.name) for a, n in zip(args, shapes, strict=True)]
    given = [x for x, a in zip(every, args, strict=True) if a.access == "in"]
    out = tuple(x for x, a in zip(every, args, strict=True) if a.access != "in")
    kernel(*given, out=out)
    begun = time.process_time()
    kernel(*given, out=out)
    count = max(1, int(BLOCK / max(1e-6, time.process_time() - begun)))
    found: list[float] = []
    for _ in range(BLOCKS):
        begun = time.process_time()
        for _ in range(count):
            kernel(*given, out=out)
        found.append((time.process_time() - begun) / count)
    return min(found)


def main() -> None:
    asked = tables.options(__doc__).parse_args()
    wanted, record = tables.chosen(asked.rows), tables.Record("cpu_predict.txt", asked.write)
    record(f"commit {tables.commit()}; {tables.machine()}; one thread, microseconds")
    for title, every in (("programs", programs()), ("held out", held_out())):
        rows: list[tuple[float, str]] = []
        record(f"{title:34} {'predicted':>10} {'measured':>10} {'ratio':>6}")
        for name, make in every.items():
            if wanted and not any(w in name for w in wanted):
                continue
            s = lp.Schedule(make())
            s = s if "written" in name else schedules.auto(s, "llvm")
            predicted, took = lp.predict(s, "llvm", threads=1).seconds, measured(s)
            rows.append((predicted / took, name))
            record(f"{name:34} {predicted * 1e6:10.1f} {took * 1e6:10.1f} {predicted / took:6.2f}")
        if rows:
            summary(rows, record)
    record.done(None)


def summary(rows: list[tuple[float, str]], record: tables.Record) -> None:
    """How far predictions are away, and which are farthest."""
    away = sorted(rows, key=lambda r: -abs(math.log(r[0])))
    logs = [abs(math.log(r)) for r, _ in rows]
    within = [sum(x <= math.log(1 + share) for x in logs) for share in (0.25, 0.35)]
    record(f"geometric error {math.exp(sum(logs) / len(logs)):.2f} x; {within[0]} of {len(rows)} within 25 %, "
           f"{within[1]} within 35 %")  # fmt: skip
    record("worst: " + "; ".join(f"{name} {ratio:.2f}" for ratio, name in away[:10]))


if __name__ == "__main__":
    main()
