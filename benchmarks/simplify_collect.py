"""Collects the indices and conditions that scheduling and lowering simplify, as lines for `benchmarks/simplify.py`.

    python benchmarks/simplify_collect.py > benchmarks/simplify_calls.txt

Each line is a program, what is known (assumptions, loops and guards, outermost first) and what is simplified there.
What speaks of memory is left out. The programs are those that the simplifier is meant for; run this again only if
they change, as figures are compared over the same lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopir as lp
from loopir.arith import simplify as room
from loopir.arith.simplify import Context
from loopir.ir.grammar import Cond, Index, Int, Node, ValueToCond, ValueToIndex, Var
from loopir.ir.printer import text
from loopir.ir.traverse.walk import nodes

Steps = tuple[str, ...]


def matmul(symbolic: bool) -> Any:
    """C = A @ B, tiled on three levels: a block's tile, a thread's, a vector."""
    n, m, k = (lp.symbol(v) for v in ("n", "m", "k")) if symbolic else (1000, 1024, 512)
    A, B = lp.placeholder((n, k), "float32", name="A"), lp.placeholder((k, m), "float32", name="B")
    r = lp.reduce_axis(k, name="r")
    s = lp.Schedule(lp.compute((n, m), lambda i, j: lp.sum(A[i, r] * B[r, j], axis=r), name="C"))
    s = s.tile("i", "j", 64, 64).split("r", 16).tile("i_i", "j_i", 8, 8)
    s = s.reorder("i_o", "j_o", "r_o", "i_i_o", "j_i_o", "r_i", "i_i_i", "j_i_i").unroll("i_i_i")
    return s.fuse("i_o", "j_o", name="block").fuse("i_i_o", "j_i_o", name="thread")


def blur() -> Any:
    """Three by three, as two stages, with the vertical one tiled and shifted inwards."""
    h, w = lp.symbol("h", min=64), lp.symbol("w", min=64)
    x = lp.placeholder((h, w), "float32", name="x")
    across = lp.compute((h, w - 2), lambda i, j: x[i, j] + x[i, j + 1] + x[i, j + 2], name="across")
    down = lp.compute((h - 2, w - 2), lambda i, j: across[i, j] + across[i + 1, j] + across[i + 2, j], name="down")
    s = lp.Schedule(down)
    s = s.split("down.i", 32, tail="shift_inwards").split("down.j", 16, tail="peel")
    return s.split("across.j", 8, tail="shift_inwards").fuse("across.i", "j_o")


def conv() -> Any:
    """A 3x3 convolution with zero padding, written as a guarded read."""
    n, h, w, c, f = lp.symbol("n"), 56, 56, 64, lp.symbol("f", multiple_of=16)
    x, k = lp.placeholder((n, h, w, c), "float32", name="x"), lp.placeholder((3, 3, c, f), "float32", name="k")
    r, q, d = (lp.reduce_axis(e, name=v) for e, v in ((3, "r"), (3, "q"), (c, "d")))

    def read(b: Any, i: Any, j: Any) -> Any:
        y, z = i + r - 1, j + q - 1
        return lp.where((y >= 0) & (y < h) & (z >= 0) & (z < w), x[b, y, z, d], 0.0)

    out = lp.compute((n, h, w, f), lambda b, i, j, o: lp.sum(read(b, i, j) * k[r, q, d, o], axis=(r, q, d)), name="y")
    s = lp.Schedule(out).split("o", 16).tile("i", "j", 5, 16).split("d", 8)
    return s.fuse("b", "i_o", name="rows").fuse("rows", "j_o", name="tile")


def layernorm() -> Any:
    n, d = lp.symbol("n"), 768
    x = lp.placeholder((n, d), "float32", name="x")
    mean = x.sum(axis=1) / d
    centred = x - mean[:, None]
    s = lp.Schedule(centred / lp.sqrt((centred * centred).sum(axis=1)[:, None] / d + 1e-5))
    for loop in s.loops():
        s = s.split(loop, 24)
    return s


def attention() -> Any:
    heads, n, d = 8, lp.symbol("n"), 64
    q, k, v = (lp.placeholder((heads, n, d), "float32", name=t) for t in "qkv")
    e, j = lp.reduce_axis(d, name="e"), lp.reduce_axis(n, name="j")
    scores = lp.compute((heads, n, n), lambda h, a, b: lp.sum(q[h, a, e] * k[h, b, e], axis=e), name="scores")
    top = lp.max(scores, axis=2)
    p = lp.exp(scores - top[:, :, None])
    total = p.sum(axis=2)
    out = lp.compute((heads, n, d), lambda h, a, b: lp.sum(p[h, a, j] * v[h, j, b], axis=j), name="mix")
    s = lp.Schedule(out / total[:, :, None])
    for loop in s.loops():
        extent = s.loop(loop).extent
        s = s if isinstance(extent, Int) and extent.value < 32 else s.split(loop, 32)
    return s


def crossed(x: Any) -> Callable[[Any, Any], Any]:
    return lambda i, j: x[i, j] + x[i + 1, j + 2] + x[i + 2, j + 1]


def stencils() -> Any:
    """Sixteen stages, each over one element less on either side."""
    n = lp.symbol("n", min=256)
    x: Any = lp.placeholder((n, n), "float32", name="x")
    for t in range(1, 17):
        shape = (n - 2 * t, n - 2 * t)
        x = lp.compute(shape, crossed(x), name=f"s{t}")
    s = lp.Schedule(x)
    for t in range(1, 17):
        s = s.split(f"s{t}.i", 32, tail="guard" if t % 2 else "shift_inwards", names=(f"o{t}", f"l{t}"))
    return s


def fused() -> Any:
    """Flat loops over shapes of which nothing is known: divisions by sizes and by their products."""
    n, m, k = lp.symbol("n"), lp.symbol("m"), lp.symbol("k")
    x = lp.placeholder((n, m, k), "float32", name="x")
    s = lp.Schedule(lp.compute((n, m, k), lambda a, b, c: x[a, b, c] * 2.0, name="y"))
    return s.fuse("a", "b", name="ab").fuse("ab", "c", name="flat").split("flat", 256)


PROGRAMS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "matmul": (lambda: matmul(symbolic=True), ("llvm",)),
    "matmul 1000x1024x512": (lambda: matmul(symbolic=False), ("llvm",)),
    "blur": (blur, ("llvm",)),
    "conv 3x3": (conv, ("llvm",)),
    "layernorm": (layernorm, ("llvm",)),
    "attention": (attention, ("llvm",)),
    "16 stencils": (stencils, ("llvm",)),
    "flat": (lambda: fused().bind("flat_o", "blockIdx.x").bind("flat_i", "threadIdx.x"), ("cuda",)),
}


class Recorder:
    """Stands in for the public calls, and remembers how each Context came about."""

    def __init__(self) -> None:
        self.steps: dict[int, tuple[Context, Steps]] = {}
        self.calls: dict[tuple[Steps, str], None] = {}

    def __enter__(self) -> Recorder:
        self.kept = {name: getattr(room, name) for name in ("simplify", "simplify_cond")}
        self.methods = {name: getattr(Context, name) for name in ("loop", "given")}
        for name, fn in self.kept.items():
            setattr(room, name, self.watched(fn))
        Context.loop = lambda c, v, e: self.known(c, f"for {v} in {text(e)}", self.methods["loop"](c, v, e))  # type: ignore
        Context.given = lambda c, *conds: self.known(c, *map(told, conds), self.methods["given"](c, *conds))  # type: ignore
        return self

    def __exit__(self, *_: object) -> None:
        for name, fn in self.kept.items():
            setattr(room, name, fn)
        for name, fn in self.methods.items():
            setattr(Context, name, fn)

    def known(self, before: Context, *told: Any) -> Context:
        *steps, after = told
        self.steps[id(after)] = (after, (*self.steps.get(id(before), (before, ()))[1], *steps))
        return after

    def watched(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        def call(node: Node, ctx: Context = room.EMPTY) -> Any:
            plain = not any(isinstance(n, ValueToIndex | ValueToCond) for n in nodes(node))
            if isinstance(node, Index | Cond) and not isinstance(node, Int | Var) and plain:
                self.calls[self.steps.get(id(ctx), (ctx, ()))[1], text(node)] = None
            return fn(node, ctx)

        return call


def told(c: Cond) -> str:
    return f"if {text(c)}"


def main() -> None:
    for name, (make, targets) in PROGRAMS.items():
        with Recorder() as recorder:
            s = make()
            for target in targets:
                lp.lower(s, target)
        for steps, what in recorder.calls:
            if not any("[" in step for step in steps):
                print(" | ".join((name, *steps, what)))


if __name__ == "__main__":
    main()
