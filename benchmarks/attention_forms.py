"""Forms of attention, each written stage by stage as a user does: kernels, predicted time, spills. No GPU is needed.

    python benchmarks/attention_forms.py [--arch sm_90a] [--rows causal,decode] [--compile] [--write]

The floor is that of `lp.machine(arch)`: the products on its tensor cores or the exponentials of the scores, without
those that a mask leaves out, or every array read or written once, whichever takes longest. Only with `--compile` does
ptxas count bytes spilled.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import tables

import loopir as lp
from loopir import schedules

F32, POWERS = "float32", 16
"""The type of scores; exponentials that a processor makes in a cycle."""
Score = Callable[..., Any]
"""What becomes of a score, given the numbers of its batch, head, row and key, and what the form reads further."""


@dataclass(frozen=True)
class Form:
    """Attention of `heads`, of which `group` read the same keys; the scores of 16-bit floats are float32 if `wide`."""

    batch: int
    heads: int
    rows: int | str
    keys: int | str
    depth: int
    dtype: str = "bfloat16"
    group: int = 1
    score: Score | None = None
    wide: bool = True
    inputs: Mapping[str, tuple[tuple[int, ...], str]] = field(default_factory=dict[str, "tuple[tuple[int, ...], str]"])
    """Shapes and types of what `score` reads further."""
    visible: float = 1.0
    """The share of the scores that no mask leaves out."""
    paged: int = 0
    """Keys in a page: where these lie, an array of indices says."""
    shared: int = 0
    """Columns of queries and keys further, whose keys all heads share, and whose products are added to the scores."""
    stored: str = ""
    """The type that queries, keys and values are stored in, if it is another one, with a scale for each head."""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of symbolic lengths, in the prediction."""

    def schedule(self) -> lp.Schedule:
        b, h, d, g, dtype = self.batch, self.heads, self.depth, self.group, self.dtype
        stored = self.stored or dtype
        names = {x: lp.symbol(x) for x in (self.rows, self.keys) if isinstance(x, str)}
        n, m = (names[x] if isinstance(x, str) else x for x in (self.rows, self.keys))
        q = lp.placeholder((b, h, n, d), stored, name="Q")
        e, j = lp.reduce_axis(d, name="e"), lp.reduce_axis(m, name="j")
        if self.paged:
            page, most = self.paged, m // self.paged
            k, v = (lp.placeholder((b * most, page, h // g, d), dtype, name=x) for x in "KV")
            table = lp.placeholder((b, most), "int32", name="table")

            def at(x: Any, b: Any, h: Any, y: Any, e: Any) -> Any:
                return x[table[b, y // page], y % page, h, e]
        else:
            k, v = (lp.placeholder((b, h // g, m, d), stored, name=x) for x in "KV")

            def at(x: Any, b: Any, h: Any, y: Any, e: Any) -> Any:
                return x[b, h, y, e]

        further = [lp.placeholder(shape, t, name=x) for x, (shape, t) in self.inputs.items()]
        if self.wide:
            s = lp.compute(
                (b, h, n, m),
                lambda b, h, x, y: lp.sum(q[b, h, x, e].astype(F32) * at(k, b, h // g, y, e).astype(F32), axis=e),
            )
        else:
            s = q @ k.transpose(0, 1, 3, 2)
        if self.shared:
            qs, ks = (lp.placeholder((b, h if x == "QS" else 1, n, self.shared), dtype, name=x) for x in ("QS", "KS"))
            s = s + (qs @ ks.transpose(0, 1, 3, 2)).astype(F32)
        scales = [lp.placeholder((h, 1, 1), F32, name=f"scale{x}") for x in "QKV"] if self.stored else []
        s = s * (d + self.shared) ** -0.5 * (scales[0] * scales[1] if scales else 1.0)
        if self.score is not None:
            raw, score = s, self.score
            s = lp.compute((b, h, n, m), lambda b, h, x, y: score(raw[b, h, x, y], b, h, x, y, *further), name="X")
        p = lp.softmax(s)
        if not self.wide:
            return lp.Schedule(p @ v)
        o = lp.compute(
            (b, h, n, d),
            lambda b, h, x, c: lp.sum(
                p[b, h, x, j].astype(dtype).astype(F32) * at(v, b, h // g, j, c).astype(F32), axis=j
            ),
        )
        o = o * scales[2] if scales else o
        return lp.Schedule(lp.compute((b, h, n, d), lambda *i: o[i].astype(dtype), name="out"))

    def floor(self, machine: lp.Machine) -> float:
        """Seconds."""
        rows, keys = (self.sizes[x] if isinstance(x, str) else x for x in (self.rows, self.keys))
        one, size = self.batch * self.heads, 1 if self.stored else 4 if self.dtype == F32 else 2
        queries, keys_each = self.depth + self.shared, 2 * self.depth / self.group + self.shared / self.heads
        seen = self.batch * self.heads * rows * keys * self.visible
        rate = machine.tensor_rate(self.dtype)
        products = 2.0 * machine.lanes * machine.processors * machine.clock  # float32 as it is, not cut off to TF32
        products = products if self.dtype == F32 else max(rate.warp, rate.warpgroup)
        powers = POWERS * machine.processors * machine.clock
        made = (4 if self.dtype == F32 else 2) * one * rows * self.depth
        memory = machine.memory_seconds(size * one * (rows * queries + keys * keys_each), made)
        return max(memory, 2 * seen * (queries + self.depth) / products, seen / powers) + machine.launch


@dataclass(frozen=True)
class Latent(Form):
    """Decoding with keys and values of all heads in one latent vector of `depth`, and keys further of `shared`."""

    def schedule(self) -> lp.Schedule:
        b, h, m = self.batch, self.heads, self.keys
        assert isinstance(m, int)
        q, qs = (lp.placeholder((b, h, d), self.dtype, name=x) for x, d in (("Q", self.depth), ("QS", self.shared)))
        c, ks = (lp.placeholder((b, m, d), self.dtype, name=x) for x, d in (("C", self.depth), ("KS", self.shared)))
        s = (q @ c.transpose(0, 2, 1)).astype(F32) + (qs @ ks.transpose(0, 2, 1)).astype(F32)
        return lp.Schedule(lp.softmax(s * (128 + self.shared) ** -0.5).astype(self.dtype) @ c)

    def floor(self, machine: lp.Machine) -> float:
        """Seconds."""
        assert isinstance(self.keys, int)
        rate, keys = machine.tensor_rate(self.dtype), self.batch * self.keys
        wide, size = 2 * self.depth + self.shared, 2 * self.batch * self.heads
        memory = machine.memory_seconds(2 * keys * (self.depth + self.shared) + size * wide, size * self.depth)
        return max(memory, 2 * keys * self.heads * wide / max(rate.warp, rate.warpgroup)) + machine.launch


@dataclass(frozen=True)
class Gradients(Form):
    """Gradients of queries, keys and values, with the powers found again from the logarithm of each row's sum; and of
    what is added to the scores of all batches, if it is `learned`."""

    learned: bool = False

    def schedule(self) -> lp.Schedule:
        b, h, n, m, scale = self.batch, self.heads, self.rows, self.keys, self.depth**-0.5
        assert isinstance(n, int)
        assert isinstance(m, int)
        q, d, o = (lp.placeholder((b, h, n, self.depth), self.dtype, name=x) for x in "QDO")
        k, v = (lp.placeholder((b, h // self.group, m, self.depth), self.dtype, name=x) for x in "KV")
        if self.group > 1:
            k, v = (lp.repeat(x, self.group, axis=1) for x in (k, v))
        of_row = lp.placeholder((b, h, n, 1), F32, name="L")
        further = [lp.placeholder(shape, t, name=x) for x, (shape, t) in self.inputs.items()]
        raw = (q @ k.transpose(0, 1, 3, 2)).astype(F32) * scale
        if self.score is not None:
            one, score = raw, self.score
            raw = lp.compute((b, h, n, m), lambda b, h, i, j: score(one[b, h, i, j], b, h, i, j, *further), name="X")
        p = lp.exp(raw - of_row)
        mean = lp.sum(o.astype(F32) * d.astype(F32), axis=-1, keepdims=True)
        of_scores = p * ((d @ v.transpose(0, 1, 3, 2)).astype(F32) - mean)
        s = (of_scores * scale).astype(self.dtype)
        turned = p.astype(self.dtype).transpose(0, 1, 3, 2)
        of_keys = s.transpose(0, 1, 3, 2) @ q, turned @ d
        if self.group > 1:
            shared = (b, h // self.group, self.group, m, self.depth)
            of_keys = tuple(lp.sum(x.reshape(*shared), axis=2) for x in of_keys)
        return lp.Schedule((s @ k, *of_keys, *((lp.sum(of_scores, axis=0),) if self.learned else ())))

    def floor(self, machine: lp.Machine) -> float:
        """Seconds: five products, or what is read and written once."""
        assert isinstance(self.rows, int)
        assert isinstance(self.keys, int)
        one, rate = 2 * self.batch * self.heads * self.depth, machine.tensor_rate(self.dtype)
        seen = self.batch * self.heads * self.rows * self.keys * self.visible
        products = max(rate.warp, rate.warpgroup)
        keys = self.keys / self.group
        read, written = one * (3 * self.rows + 2 * keys), one * (self.rows + 2 * keys)
        powers = POWERS * machine.processors * machine.clock
        return (
            max(machine.memory_seconds(read, written), 10 * seen * self.depth / products, seen / powers)
            + machine.launch
        )


def causal(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return lp.where(j <= i, s, -math.inf)


def finite(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return lp.where(j <= i, s, -1e30)


def window(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return lp.where(j <= i, lp.where(i - j < 512, s, -math.inf), -math.inf)


def sinks(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    """A window, and the first keys."""
    return lp.where((j <= i) & ((i - j < 512) | (j < 4)), s, -math.inf)


def alibi(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return lp.where(j <= i, s + 0.01 * lp.cast(j - i, F32), -math.inf)


def slopes(s: Any, b: Any, h: Any, i: Any, j: Any, slope: Any) -> Any:
    return s - slope[h] * lp.cast(i - j, F32)


def capped(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return 30.0 * lp.tanh(s / 30.0)


def biased(s: Any, b: Any, h: Any, i: Any, j: Any, bias: Any) -> Any:
    return s + bias[h, i, j].astype(F32)


def masked(s: Any, b: Any, h: Any, i: Any, j: Any, mask: Any) -> Any:
    return lp.where(mask[b, j] != 0, s, -1e30)


def documents(s: Any, b: Any, h: Any, i: Any, j: Any, document: Any) -> Any:
    """Of packed sequences: a row sees the keys of its own."""
    return lp.where(document[i] == document[j], s, -1e30)


def lengths(s: Any, b: Any, h: Any, i: Any, j: Any, length: Any) -> Any:
    return lp.where(j < length[b], s, -math.inf)


PLAIN = Form(2, 16, 2048, 2048, 128)
FORMS: dict[str, Form] = {
    "full": PLAIN,
    "causal": replace(PLAIN, score=causal, visible=0.5),
    "16-bit scores": replace(PLAIN, wide=False),
    "float16": replace(PLAIN, dtype="float16"),
    "float16, 16-bit scores": replace(PLAIN, dtype="float16", wide=False),
    "float32": replace(PLAIN, dtype=F32, wide=False),
    **{f"depth {d}": replace(PLAIN, depth=d) for d in (32, 72, 80, 96, 112, 160)},
    "1000 rows and keys": replace(PLAIN, batch=8, rows=1000, keys=1000),
    "1000 rows and keys, causal": replace(PLAIN, batch=8, rows=1000, keys=1000, score=causal, visible=0.5),
    "2049 rows and keys": replace(PLAIN, rows=2049, keys=2049),
    "4095 x 2047": replace(PLAIN, rows=4095, keys=2047),
    "4096 x 77": replace(PLAIN, rows=4096, keys=77, depth=64),
    "77 x 4096": replace(PLAIN, batch=8, rows=77, keys=4096, depth=64),
    "197 (ViT)": replace(PLAIN, batch=32, rows=197, keys=197, depth=64),
    "symbolic": replace(PLAIN, rows="n", keys="m", sizes={"n": 2048, "m": 2048}),
    "symbolic, causal": replace(PLAIN, rows="n", keys="n", sizes={"n": 2048}, score=causal, visible=0.5),
    "4 heads a key head": replace(PLAIN, group=4),
    "all heads one key head": replace(PLAIN, group=16, score=causal, visible=0.5),
    "window 512": replace(PLAIN, rows=4096, keys=4096, score=window, visible=512 / 4096),
    "ALiBi": replace(PLAIN, score=alibi, visible=0.5),
    "slopes of heads": replace(PLAIN, score=slopes, inputs={"slope": ((16,), F32)}),
    "softcap": replace(PLAIN, score=capped),
    "bias": replace(PLAIN, score=biased, inputs={"bias": ((16, 2048, 2048), "bfloat16")}),
    "-1e30 mask of keys": replace(PLAIN, score=masked, inputs={"mask": ((2, 2048), "int8")}),
    "-1e30 causal": replace(PLAIN, score=finite),
    "packed documents": replace(PLAIN, score=documents, inputs={"document": ((2048,), "int32")}),
    "lengths of batches": replace(PLAIN, score=lengths, inputs={"length": ((2,), "int32")}),
    "decode 1 x 8k": replace(PLAIN, batch=1, heads=32, rows=1, keys=8192),
    "decode 16 x 8k, 4 heads a key head": replace(PLAIN, batch=16, heads=32, rows=1, keys=8192, group=4),
    "decode 1 x 128k": replace(PLAIN, batch=1, heads=32, rows=1, keys=131072, group=8),
    "decode 4 rows x 32k": replace(PLAIN, batch=1, heads=32, rows=4, keys=32768),
    "decode 1 x 8k, lengths": replace(PLAIN, batch=8, heads=32, rows=1, keys=8192, score=lengths,
                                      inputs={"length": ((8,), "int32")}),
    **{f"gradients, depth {d}": Gradients(2, 16, 2048, 2048, d) for d in (64, 96, 128, 192, 256)},
    "gradients, causal": Gradients(2, 16, 2048, 2048, 128, score=causal, visible=0.5),
    "gradients, window 512": Gradients(2, 16, 4096, 4096, 128, score=window, visible=512 / 4096),
    "gradients, 4 heads a key head": Gradients(2, 16, 2048, 2048, 128, group=4),
    "gradients, bias": Gradients(2, 16, 2048, 2048, 128, score=biased,
                                 inputs={"bias": ((16, 2048, 2048), "bfloat16")}),
    "gradients, lengths": Gradients(2, 16, 2048, 2048, 128, score=lengths, inputs={"length": ((2,), "int32")}),
    "gradients, 1000 rows and keys": Gradients(8, 16, 1000, 1000, 128),
    "gradients, 1999 x 2001": Gradients(2, 16, 1999, 2001, 128),
    "gradients, learned bias": Gradients(2, 16, 1024, 2048, 128, score=biased, learned=True,
                                         inputs={"bias": ((16, 1024, 2048), "bfloat16")}),
    "window 512 and 4 first keys": replace(PLAIN, rows=4096, keys=4096, score=sinks, visible=512 / 4096),
    "paged": replace(PLAIN, paged=16, group=4),
    "paged, causal": replace(PLAIN, paged=16, group=4, score=causal, visible=0.5),
    "64 further columns, causal": replace(PLAIN, shared=64, score=causal, visible=0.5),
    "float8 with scales": replace(PLAIN, stored="float8_e4m3fn"),
    "decode 8 x 8k, float8 with scales": replace(PLAIN, batch=8, heads=32, rows=1, keys=8192, stored="float8_e4m3fn"),
    "decode 8 x 8k, latent 512 + 64": Latent(8, 128, 1, 8192, 512, shared=64),
    "decode 16 x 8k, paged, 8 heads": replace(PLAIN, batch=16, heads=32, rows=1, keys=8192, paged=16, group=8),
    "decode 8 x 8k, paged": replace(PLAIN, batch=8, heads=32, rows=1, keys=8192, paged=16, group=4),
}  # fmt: skip


def row(name: str, form: Form, arch: str, compiled: bool) -> str:
    machine, begun = lp.machine(arch), time.process_time()
    least = form.floor(machine)
    try:
        s = schedules.auto(form.schedule(), "cuda", arch=arch)
        cost = lp.predict(s, "cuda", arch=arch, sizes=form.sizes)
    except (lp.ScheduleError, lp.LowerError, lp.TargetError) as error:
        return f"{name:36} {type(error).__name__}: {str(error).splitlines()[0]:.100}"
    took = time.process_time() - begun
    spilled = "-"
    if compiled:
        used = lp.compile_source(s, arch).resources.values()
        spilled = str(sum(x.spill_stores + x.spill_loads for x in used))
    times = f"{cost.seconds * 1e6:10.1f} {least * 1e6:8.1f} {cost.seconds / least:7.2f}"
    return f"{name:36} {cost.kernels:7} {times} {spilled:>8} {took:7.1f}"


def main() -> None:
    parser = tables.options(__doc__)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--compile", action="store_true", help="count bytes spilled by ptxas")
    asked = parser.parse_args()
    words = tables.chosen(asked.rows)
    record = tables.Record(f"attention_forms_{asked.arch}.txt", asked.write)
    record(f"commit {tables.commit()}; predicted for {lp.machine(asked.arch).name}, no GPU")
    record(f"{'form':36} {'kernels':>7} {'us':>10} {'floor':>8} {'over':>7} {'spilled':>8} {'s':>7}")
    for name, form in FORMS.items():
        if not words or any(w in name for w in words):
            record(row(name, form, asked.arch, asked.compile))
    record.done(None)


if __name__ == "__main__":
    main()
