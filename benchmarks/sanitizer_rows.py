"""The kernels with tensor cores, copies by the copy engine, scans and scatters that the sanitizer watches: small ones.

Each is one case: a schedule, small integers, and what NumPy makes of them, which is exact. Sizes are just large enough
that there are several tiles, edges, and turns of each ring. No torch is needed, and no GPU to list them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from loopir.schedules.common.fusion import inlined
from loopir.schedules.common.nest_queries import reader
from loopir.schedules.cuda.conv import conv_mma
from loopir.schedules.cuda.matmul_mma import matmul_mma
from loopir.schedules.cuda.matmul_simt import matmul_simt
from loopir.schedules.cuda.matmul_split_k import matmul_split
from loopir.schedules.cuda.matmul_wgmma import matmul_wgmma
from loopir.schedules.cuda.scan import prefix_sum

import loopir as lp
from loopir import schedules

Shapes = tuple[tuple[int, ...], ...]
LARGEST = 3
SIZES = (264, 520, 400)
"""Rows, columns and steps of a product: no multiples of a tile, and whole vectors of 16 bytes."""
ODD = (129, 67, 101)
GROUPS: dict[str, dict[str, Any]] = {
    "": {},
    "small tiles, one stage": {"block": (64, 64), "stages": 1},
    "tall tiles": {"block": (128, 256)},
    "roles": {"block": (128, 256), "roles": True, "blocks": 3, "store": "boxes"},
    "roles, rows": {"block": (256, 128), "roles": True, "blocks": 3, "store": "rows"},
    "clusters": {"block": (128, 128), "cluster": 2, "group": 2},
    "clusters and roles": {"block": (128, 256), "cluster": 2, "group": 2, "roles": True, "blocks": 4},
    "in turns": {"block": (128, 128), "alternate": True, "stages": 6, "group": 2, "roles": True, "blocks": 4},
    "in turns, clusters": {
        "block": (128, 128),
        "alternate": True,
        "stages": 6,
        "group": 2,
        "roles": True,
        "blocks": 4,
        "cluster": 2,
    },
    "boxes": {"store": "boxes"},
    "bands": {"group": 4, "stages": 4},
    "whole": {"whole": True},
}
"""How products of warpgroups may be made."""


@dataclass(frozen=True)
class Case:
    """A kernel: `make` schedules it, `want` is NumPy's, of inputs of these shapes and types in float64."""

    name: str
    make: Callable[[], lp.Schedule]
    shapes: Shapes
    dtypes: tuple[str, ...]
    want: Callable[..., Any]
    sizes: dict[str, int] = field(default_factory=dict[str, int])

    def inputs(self) -> list[np.ndarray[Any, Any]]:
        rng = np.random.default_rng(0)
        made = (rng.integers(-LARGEST, LARGEST + 1, shape) for shape in self.shapes)
        return [x.astype(dtype) for x, dtype in zip(made, self.dtypes, strict=True)]

    def wrong(self, kernel: Any) -> str:
        """How the kernel's results differ from NumPy's; empty if they do not."""
        arrays = self.inputs()
        want = self.want(*(x.astype(np.float64) for x in arrays))
        got = kernel(*arrays, **self.sizes)
        pairs = list(zip(got, want, strict=True)) if isinstance(got, tuple) else [(got, want)]
        bad = [int((g.astype(np.float64) != w.astype(g.dtype).astype(np.float64)).sum()) for g, w in pairs]
        return f"{bad} elements differ" if any(bad) else ""


def cases() -> Iterator[Case]:
    yield from warpgroups()
    yield from warps()
    yield from whole_programs()


# ---------------------------------------------------------------- products


def operands(sizes: tuple[Any, Any, Any], lies: str) -> Shapes:
    m, n, k = sizes
    return ((k, m) if lies[0] == "t" else (m, k), (n, k) if lies[1] == "t" else (k, n))


def turned(lies: str, a: Any, b: Any) -> tuple[Any, Any]:
    return a.T if lies[0] == "t" else a, b.T if lies[1] == "t" else b


def product(
    name: str, schedule: Callable[[lp.Schedule], lp.Schedule], dtype: str, lies: str = "nn",
    sizes: tuple[int, int, int] = SIZES, *, symbolic: bool = False,
) -> Case:  # fmt: skip
    """relu(A @ B), in the accumulator's type for small types, else in that of the operands."""

    def given(x: Any) -> Any:
        match dtype:
            case "float32":
                return lp.tf32(x, nearest=False)
            case "int8":
                return lp.cast(x, "int32")
            case "float8_e4m3fn" | "float8_e5m2":
                return lp.cast(x, "float32")
            case _:
                return x

    def make() -> lp.Schedule:
        symbols: Any = (lp.symbol("m"), lp.symbol("n"), lp.symbol("k", multiple_of=8))
        shapes = operands(symbols if symbolic else sizes, lies)
        a, b = (lp.placeholder(shape, dtype, name=x) for shape, x in zip(shapes, "AB", strict=True))
        left, right = turned(lies, given(a), given(b))
        return schedule(inlined(lp.Schedule(lp.relu(left @ right))))

    def want(a: Any, b: Any) -> Any:
        left, right = turned(lies, a, b)
        return np.maximum(left @ right, 0)

    return Case(f"{name} {dtype} {lies}{' for all sizes' if symbolic else ''}", make, operands(sizes, lies),
                (dtype, dtype), want)  # fmt: skip


def contracted(schedule: Callable[..., lp.Schedule], **how: Any) -> Callable[[lp.Schedule], lp.Schedule]:
    """`schedule` on the one stage that sums."""
    return lambda s: schedule(s, next(x for x in s.stages if s.reduced(x)), **how)


def warpgroups() -> Iterator[Case]:
    """Products of warpgroups, fed by the copy engine."""
    for name, how in GROUPS.items():
        yield product(f"wgmma {name}", contracted(matmul_wgmma, **how), "bfloat16")
    for lies in ("nt", "tn", "tt"):
        yield product("wgmma", contracted(matmul_wgmma), "float16", lies)
    for dtype in ("int8", "float32", "float8_e4m3fn", "float8_e5m2"):
        for how in ({}, {"block": (64, 32), "stages": 1}, {"block": (128, 256)}):
            name = f"wgmma {how.get('block', '')}"
            yield product(name, contracted(matmul_wgmma, **how), dtype, "nt")
    yield product("wgmma", contracted(matmul_wgmma, stages=4, group=4, blocks=5), "bfloat16", "nt", symbolic=True)
    yield product("wgmma split", contracted(matmul_split, parts=4, block=(128, 64)), "bfloat16", sizes=(128, 128, 1024))
    yield Case("wgmma side by side", partial(side_by_side, matmul_wgmma, roles=False), *SIDES)


def warps() -> Iterator[Case]:
    """Products of warps, and those without tensor cores."""
    for lies in ("nn", "nt", "tn", "tt"):
        yield product("mma", contracted(matmul_mma, block=(64, 64), warps=(2, 2), stages=3), "float16", lies)
        yield product("mma odd", contracted(matmul_mma, block=(64, 64), warps=(2, 2), stages=3), "bfloat16", lies, ODD)
    yield product("mma bands", contracted(matmul_mma, group=2, blocks=3, stages=4), "bfloat16", sizes=(512, 384, 256))
    yield product("mma ahead", contracted(matmul_mma, ahead=True, spread=True, stages=3), "float16",
                  sizes=(256, 256, 256))  # fmt: skip
    yield product("mma staged", contracted(matmul_mma, staged=True, stages=3), "float16", sizes=(256, 256, 256))
    yield product("mma whole", contracted(matmul_mma, block=(64, 64), warps=(2, 2), whole=True, stages=3), "bfloat16",
                  "nt", ODD)  # fmt: skip
    yield product("mma split", contracted(matmul_split, parts=4, warpgroups=False, block=(64, 64), warps=(2, 2)),
                  "bfloat16", sizes=(128, 128, 1024))  # fmt: skip
    yield product("mma", contracted(matmul_mma, stages=3), "bfloat16", symbolic=True)
    for turn in (False, True):
        yield plain(f"simt{' turned' if turn else ''}", contracted(matmul_simt, turn=turn), (256, 256, 64))
    yield Case("mma side by side", partial(side_by_side, matmul_mma, warps=(2, 2)), *SIDES)
    for dtype in ("bfloat16", "float32", "int8", "float8_e4m3fn"):
        for lies, sizes in (("nn", SIZES), ("tt", ODD), ("nt", (16, 384, 512)), ("nt", (1, 384, 512))):
            made = plain if dtype == "float32" else product
            yield made(f"auto {'x'.join(map(str, sizes))}", on_cuda, dtype=dtype, lies=lies, sizes=sizes)


def on_cuda(s: lp.Schedule) -> lp.Schedule:
    return schedules.auto(s, "cuda", arch="sm_90a")


def plain(
    name: str, schedule: Callable[[lp.Schedule], lp.Schedule], sizes: tuple[int, int, int] = SIZES,
    dtype: str = "float32", lies: str = "nn",
) -> Case:  # fmt: skip
    """A @ B in full float32."""

    def make() -> lp.Schedule:
        a, b = (lp.placeholder(v, dtype, name=x) for v, x in zip(operands(sizes, lies), "AB", strict=True))
        left, right = turned(lies, a, b)
        return schedule(lp.Schedule(lp.relu(left @ right)))

    def want(a: Any, b: Any) -> Any:
        left, right = turned(lies, a, b)
        return np.maximum(left @ right, 0)

    return Case(f"{name} {dtype} {lies}", make, operands(sizes, lies), (dtype, dtype), want)


ONE, OTHER, STEPS, ROWS = 256, 384, 320, 512
SIDES: tuple[Shapes, tuple[str, ...], Callable[..., Any]] = (
    ((ROWS, STEPS), (STEPS, ONE), (STEPS, OTHER)), ("bfloat16",) * 3, lambda a, b, c: (np.maximum(a @ b, 0), a @ c),
)  # fmt: skip


def side_by_side(schedule: Callable[..., lp.Schedule], **how: Any) -> lp.Schedule:
    """Two products that share an operand, in one grid: the tiles of the one, then those of the other."""
    a, b = lp.placeholder((ROWS, STEPS), "bfloat16", name="A"), lp.placeholder((STEPS, ONE), "bfloat16", name="B")
    s = lp.Schedule([lp.relu(a @ b), a @ lp.placeholder((STEPS, OTHER), "bfloat16", name="C")])
    blocks: list[str] = []
    for stage in [x for x in s.stages if s.reduced(x)]:
        out = reader(s, stage)
        assert out is not None
        s = schedule(s, stage, block=(128, 128), group=2, stages=4, **how)
        blocks.append(s.loops(out)[0])
    return s.merge(*blocks, side_by_side=True, name="tile")


# ---------------------------------------------------------------- other programs


def whole_programs() -> Iterator[Case]:
    """Convolutions, prefix sums, scatters, and products among other stages."""
    for c, h, k, r, stride in ((64, 12, 64, 3, 1), (64, 14, 64, 1, 1), (3, 18, 64, 7, 2)):
        yield convolution(c, h, k, r, stride)
    for dtype in ("float32", "int64", "int8"):
        for n in (5, 4097, 40001):
            yield Case(f"prefix sum {n} {dtype}", partial(scanned, dtype), ((n,),), (dtype,), np.cumsum)
    yield attention_scores()


def convolution(c: int, h: int, k: int, r: int, stride: int) -> Case:
    """A convolution of one image as a product on tensor cores; borders are zeros."""
    p, size = r // 2, (h + 2 * (r // 2) - r) // stride + 1
    shapes = ((1, h, h, c), (r, r, c, k))

    def make() -> lp.Schedule:
        x, w = (lp.placeholder(shape, "bfloat16", name=n) for shape, n in zip(shapes, "xw", strict=True))
        padded = lp.pad(x, [(0, 0), (p, p), (p, p), (0, 0)]).named("padded") if p else x
        u, v, z = lp.reduce_axis(r, name="u"), lp.reduce_axis(r, name="v"), lp.reduce_axis(c, name="z")

        def element(b: Any, i: Any, j: Any, o: Any) -> Any:
            left, right = padded[b, i * stride + u, j * stride + v, z], w[u, v, z, o]
            return lp.sum(lp.cast(left, "float32") * lp.cast(right, "float32"), axis=(u, v, z))

        y = lp.compute((1, size, size, k), element, name="conv")
        return conv_mma(lp.Schedule(lp.relu(y).named("y")), "conv")

    def want(x: Any, w: Any) -> Any:
        wide = np.pad(x, [(0, 0), (p, p), (p, p), (0, 0)])
        seen = np.lib.stride_tricks.sliding_window_view(wide, (r, r), (1, 2))[:, ::stride, ::stride]
        return np.maximum(np.einsum("bijzuv,uvzo->bijo", seen, w), 0)

    return Case(f"conv {c}x{h}x{h} {k} of {r}x{r} by {stride}", make, shapes, ("bfloat16",) * 2, want)


def scanned(dtype: str) -> lp.Schedule:
    return schedules.scan(lp.Schedule(prefix_sum(dtype)), "cuda")


def attention_scores() -> Case:
    """A product, a bias and a maximum along its rows: a reduction behind tensor cores."""
    shapes = ((256, 64), (512, 64), (512,))

    def make() -> lp.Schedule:
        q, k = (lp.placeholder(s, "bfloat16", name=x) for s, x in zip(shapes[:2], "QK", strict=True))
        b = lp.placeholder(shapes[2], "float32", name="b")
        return on_cuda(lp.Schedule(lp.max(lp.cast(q @ k.T, "float32") + b, axis=1)))

    def want(q: Any, k: Any, b: Any) -> Any:
        return ((q @ k.T).astype("bfloat16").astype(np.float64) + b).max(axis=1)

    return Case("scores, their largest", make, shapes, ("bfloat16", "bfloat16", "float32"), want)
