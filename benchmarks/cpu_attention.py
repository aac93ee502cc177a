"""Attention from its naive stages by `schedules.auto` on the CPU, beside NumPy's chain and torch's fused function.

    python benchmarks/cpu_attention.py                     # at one thread and at two
    python benchmarks/cpu_attention.py --rows causal       # rows whose name holds one of these words
    python benchmarks/cpu_attention.py --write             # kept in benchmarks/results/cpu_attention.txt

float32, softmax(Q K^T / sqrt(d)) V with a mask where a row is causal. Each library has a process of its own and is
stopped while it is another's turn (`cpu_peers`); blocks of calls alternate, and times are their medians. The results of
the others are compared with loopir's, and loopir's with NumPy's. torch is left out where it is not installed. GB/s is
what reading Q, K and V once and writing the result once would take in that time.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cpu import alternated, prepared
from cpu_peers import peers
from tables import Record, chosen, commit, machine, writing

import loopir as lp
from loopir import schedules

Array = np.ndarray[Any, np.dtype[Any]]
SHAPES = (
    (8, 1024, 1024, 64, False), (8, 1024, 1024, 64, True), (8, 1000, 1000, 64, True), (8, 1024, 1024, 80, False),
    (4, 1024, 1024, 128, False), (4, 1024, 1024, 128, True), (2, 1024, 1024, 256, False), (4, 300, 2048, 64, False),
    (32, 1, 8192, 128, False), (8, 1, 8191, 128, False),
)  # fmt: skip
"""Heads, rows of Q, rows of K and V, columns, and whether row i sees the keys up to i alone."""


def name_of(heads: int, rows: int, keys: int, columns: int, causal: bool) -> str:
    return f"{heads} x {rows} x {keys} x {columns}{', causal' * causal}"


@dataclass(frozen=True, slots=True)
class Attention:
    """The arrays of one row, and what each library makes of them."""

    shape: tuple[int, int, int, int, bool]
    tolerance: float = 1e-4

    @property
    def name(self) -> str:
        return name_of(*self.shape)

    def arrays(self) -> tuple[Array, Array, Array]:
        heads, rows, keys, columns, _ = self.shape
        rng = np.random.default_rng(0)
        return tuple(rng.standard_normal((heads, n, columns)).astype(np.float32) for n in (rows, keys, keys))

    def schedule(self) -> lp.Schedule:
        heads, rows, keys, columns, causal = self.shape
        sizes = {"q": rows, "k": keys, "v": keys}
        q, k, v = (lp.placeholder((heads, n, columns), "float32", name=x) for x, n in sizes.items())
        scores = q @ k.transpose(0, 2, 1) * (1.0 / math.sqrt(columns))
        if causal:
            scores = lp.where(lp.arange(keys)[None, :] <= lp.arange(rows)[:, None], scores, -math.inf)
        return schedules.auto(lp.Schedule(lp.softmax(scores, axis=-1) @ v), "llvm")

    def call(self, who: str, threads: int) -> tuple[Callable[[], object], Array]:
        q, k, v = self.arrays()
        if who == "loopir":
            kernel, out = self.schedule().build("llvm", threads=threads), np.empty_like(q)
            return lambda: kernel(q, k, v, out=(out,)), out
        if who == "NumPy":
            call, out = self._numpy(q, k, v), np.empty_like(q)
            return lambda: np.copyto(out, call()), out
        torch = importlib.import_module("torch")
        torch.set_num_threads(threads)
        a, b, c = map(torch.from_numpy, (q[None], k[None], v[None]))
        attend = torch.nn.functional.scaled_dot_product_attention
        return lambda: attend(a, b, c, is_causal=self.shape[4]), attend(a, b, c, is_causal=self.shape[4])[0].numpy()

    def _numpy(self, q: Array, k: Array, v: Array) -> Callable[[], Array]:
        _, rows, keys, columns, causal = self.shape
        mask = np.where(np.tri(rows, keys, dtype=bool), 0, -np.inf).astype(np.float32) if causal else None

        def call() -> Array:
            s = q @ k.transpose(0, 2, 1) * np.float32(1 / math.sqrt(columns))
            s = s if mask is None else s + mask
            p = np.exp(s - s.max(axis=-1, keepdims=True))
            return (p / p.sum(axis=-1, keepdims=True)) @ v

        return call


def row(*shape: Any) -> Attention:
    """What `cpu_peers` asks a library's process to prepare."""
    return Attention(shape)  # pyright: ignore[reportArgumentType]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rows", default="", help="only rows whose name holds one of these, separated by commas")
    writing(parser)
    asked = parser.parse_args()
    words = chosen(asked.rows)
    record = Record("cpu_attention.txt", asked.write)
    who = ("loopir", "NumPy", *(("torch",) if importlib.util.find_spec("torch") else ()))
    record(f"{machine()}, {commit()}; ms, medians; x NumPy and x torch are their times by loopir's")
    for threads in asked.threads:
        title = f"{threads} thread{'s' * (threads > 1)}"
        record(f"{title:32s}{''.join(f'{x:>9s}' for x in who)}  x NumPy  x torch   GB/s")
        with tempfile.TemporaryDirectory() as folder:
            for shape in SHAPES:
                if words and not any(w in name_of(*shape) for w in words):
                    continue
                with peers(who, threads) as running:
                    prepared(running, "cpu_attention:row", shape, str(Path(folder) / "result.npy"))
                    times = alternated(running, rounds=7, seconds=0.05)
                record(_line(shape, who, times))
    record.done(None)


def _line(shape: tuple[int, int, int, int, bool], who: tuple[str, ...], times: dict[str, float]) -> str:
    heads, rows, keys, columns, _ = shape
    ours, moved = times["loopir"], 4 * heads * columns * 2 * (rows + keys)
    ratios = "".join(f"{times[x] / ours:9.2f}" if x in times else f"{'-':>9s}" for x in ("NumPy", "torch"))
    return f"{name_of(*shape):32s}{''.join(f'{times[x] * 1e3:9.2f}' for x in who)}{ratios}{moved / ours / 1e9:7.1f}"


if __name__ == "__main__":
    main()
