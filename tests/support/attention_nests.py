# ruff: noqa: E501
"""Attention on Hopper as the nests that a schedule arrives at, as text: what lowering has to make of them.

A warpgroup fills rings of K and V; the others have 64 queries each, with scores, powers and output in registers. The
powers are the left operand of the second product as they lie. `overlapped`: the scores of the next block and the
products of this one are under way while the powers of the next block are made; K and V have rings of their own.
A row's maximum and sum are held by the four lanes that hold its elements: fragments of shape [rows, 4].
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import loopir as lp

LOG2_E = 1.4426950408889634
ROW = "fragment(128, 2, lambda t, v: (t // 32 * 16 + t % 32 // 4 + v * 8, t % 4))"
_PRELUDE = """\
__device__ __forceinline__ float lp_quad_{name}(float x) {{
  float y = __shfl_xor_sync(0xffffffffu, x, 1); x = {fold};
  y = __shfl_xor_sync(0xffffffffu, x, 2); return {fold};
}}
"""
for _name, _fold in (("max", "fmaxf({0}, {1})"), ("sum", "{0} + {1}")):
    _lines = (f"{{M}}[{r}] = {_fold.format(f'{{M}}[{r}]', f'lp_quad_{_name}({{T}}[{r}])')};" for r in (0, 1))
    lp.instruction(
        level="warpgroup",
        cuda=" ".join(_lines),
        cuda_prelude=_PRELUDE.format(name=_name, fold=_fold.format("x", "y")),
        doc="What four lanes have of a row, folded, to each of them.",
    )(f"""
def quad_{_name}(M: "inout float32[64, 4] fragment {ROW}", T: "float32[64, 4] fragment {ROW}"):
    for i, q, p in grid(64, 4, 4):
        M[i, q] = {_name}(T[i, p])
""")


def swizzled(rows: int, depth: int) -> str:
    inside = f"y // 64 * {rows * 64} + x * 64 + (y // 8 % 8 ^ x % 8) * 8 + y % 8"
    return f"layout=mapped(lambda slot, x, y: slot * {rows * depth} + {inside})"


def nest(
    rows: int,
    keys: int,
    depth: int,
    *,
    heads: int,
    length: int,
    causal: bool = False,
    overlapped: bool = False,
    registers: tuple[int, int] = (24, 240),
    stages: int = 2,
    descending: bool = False,
    peel: bool = False,
    order: str = "io",
    blocks: int = 132,
    boxes: bool = False,
    t: str = "bfloat16",
) -> str:
    """`order`: "io" (rows fastest, a head a y), "lpt-G" (longest first, G heads fastest), "persistent-G" (the same by
    `blocks` that go on). `descending`: the last block of keys first; `peel`: only the first is masked. `boxes`: results
    leave by way of shared memory."""
    c = depth**-0.5 * LOG2_E
    n = length // rows
    tiles = heads * n
    kind, _, g = order.partition("-")
    group = int(g or heads)
    if kind == "io":
        io, h = "io", "h"
    else:
        tile = "io" if kind == "lpt" else f"(turn * {blocks} + blk)"
        io = f"({n - 1} - {tile} % {group * n} // {group})"
        h = f"({tile} // {group * n} * {group} + {tile} % {group})"
        if kind == "persistio":
            io, h = f"({tile} % {n})", f"({tile} // {n})"
    count = f"(({io} * {rows} + {rows - 1}) // {keys} + 1)" if causal else str(length // keys)

    def block(jo: str) -> str:
        return f"({count} - 1 - ({jo}))" if descending else f"({jo})"

    def fill(p: str, to: str, array: str, slot: str, begin: str, high: int) -> str:
        return f"""
with role{registers}:
    for c{p} in unroll({depth // 64}):
        for r{p} in range({high}):
            for x{p} in range(64):
                {to}[{slot}, r{p}, c{p} * 64 + x{p}]: "fill_{p}" = {array}[{h}, {begin} + r{p}, c{p} * 64 + x{p}]
"""

    def fill_k(p: str, jo: str) -> str:
        return fill(p, "Ks", "K", f"({jo}) % {stages}", f"{block(jo)} * {keys}", keys)

    def fill_v(p: str, jo: str) -> str:
        return fill(p, "Vs", "V", f"({jo}) % {stages}", f"{block(jo)} * {keys}", keys)

    def scores(p: str, jo: str) -> str:
        return f"""
for is{p} in range({rows}):
    for js{p} in range({keys}):
        for ds{p} in range({depth}):
            S[is{p}, js{p}]: "S{p}" = sum(float32(Qs[0, is{p}, ds{p}]) * float32(Ks[({jo}) % {stages}, js{p}, ds{p}]), over=ds{p}, init=0.0)
"""

    def masked(p: str, jo: str) -> str:
        if not causal or (peel and p == "b"):
            return ""
        return f"""
if {io} * {rows} < {block(jo)} * {keys} + {keys - 1}:
    for im{p} in range({rows}):
        for jm{p} in range({keys}):
            S[im{p}, jm{p}]: "mask{p}" = select({block(jo)} * {keys} + jm{p} <= {io} * {rows} + im{p}, S[im{p}, jm{p}], -inf)
"""

    def softmax(p: str, first: bool) -> str:
        then = f"""
for ix{p} in range({rows}):
    for qx{p} in range(4):
        X[ix{p}, qx{p}]: "then{p}" = M[ix{p}, qx{p}]
"""
        mend = f"""
for ir{p} in range({rows}):
    for qr{p} in range(4):
        X[ir{p}, qr{p}]: "mend{p}" = exp2_16((X[ir{p}, qr{p}] - M[ir{p}, qr{p}]) * {c})
for il{p} in range({rows}):
    for ql{p} in range(4):
        L[il{p}, ql{p}]: "L{p}_mend" = L[il{p}, ql{p}] * X[il{p}, ql{p}]
"""
        return f"""
{"" if first else then}
for it{p} in range({rows}):
    for qt{p} in range(4):
        T[it{p}, qt{p}]: "T{p}_start" = -inf
for iu{p} in range({rows}):
    for ju{p} in range({keys}):
        T[iu{p}, ju{p} // 2 % 4]: "T{p}" = max(S[iu{p}, ju{p}])
for iq{p} in range({rows}):
    for qq{p} in range(4):
        for pq{p} in range(4):
            M[iq{p}, qq{p}]: "M{p}" = max(T[iq{p}, pq{p}], over=pq{p})
for ie{p} in range({rows}):
    for je{p} in range({keys}):
        S[ie{p}, je{p}]: "E{p}" = exp2_16(S[ie{p}, je{p}] * {c} - M[ie{p}, je{p} // 2 % 4] * {c})
{"" if first else mend}
for ia{p} in range({rows}):
    for ja{p} in range({keys}):
        L[ia{p}, ja{p} // 2 % 4]: "L{p}" = sum(S[ia{p}, ja{p}])
"""

    def mended(p: str) -> str:
        return f"""
for iz{p} in range({rows}):
    for ez{p} in range({depth}):
        A[iz{p}, ez{p}]: "A{p}_mend" = A[iz{p}, ez{p}] * X[iz{p}, ez{p} // 2 % 4]
"""

    def powers(p: str) -> str:
        return f"""
for ip{p} in range({rows}):
    for jp{p} in range({keys}):
        P[ip{p}, jp{p}]: "P{p}" = {t}(S[ip{p}, jp{p}])
"""

    def products(p: str, jo: str) -> str:
        return f"""
for iy{p} in range({rows}):
    for ey{p} in range({depth}):
        for jy{p} in range({keys}):
            A[iy{p}, ey{p}]: "A{p}" = sum(float32(P[iy{p}, jy{p}]) * float32(Vs[({jo}) % {stages}, jy{p}, ey{p}]), over=jy{p})
"""

    def loop(extent: str, body: str) -> str:
        return f"for jo in range({extent}):\n" + textwrap.indent(body.strip("\n") + "\n", "    ")

    start = f"""
for i0 in range({rows}):
    for q0 in range(4):
        L[i0, q0]: "L_start" = 0.0
for i1 in range({rows}):
    for q1 in range(4):
        M[i1, q1]: "M_start" = -inf
for i2 in range({rows}):
    for e2 in range({depth}):
        A[i2, e2]: "A_start" = 0.0
"""
    if overlapped:
        body = fill_k("k", "0") + scores("a", "0") + masked("a", "0") + softmax("a", True) + powers("a")
        inside = fill_k("l", "jo + 1") + scores("b", "jo + 1") + fill_v("v", "jo") + products("b", "jo")
        inside += masked("b", "jo + 1") + softmax("b", False) + mended("b") + powers("b")
        body += loop(f"{count} - 1", inside) + fill_v("w", f"{count} - 1") + products("c", f"{count} - 1")
    else:
        inside = fill_k("k", "jo") + fill_v("v", "jo") + scores("a", "jo") + masked("a", "jo") + softmax("a", False)
        body = loop(count, inside + powers("a") + mended("a") + products("b", "jo"))
    ends = (
        f"""
for i4 in range({rows}):
    for e4 in range({depth}):
        O[{h}, {io} * {rows} + i4, e4]: "O" = {t}(A[i4, e4] * (1.0 / G[i4, e4 // 2 % 4]))
"""
        if not boxes
        else f"""
with alloc("{t}[{rows}, {depth}]", scope="shared", layout=mapped(lambda x, y: y // 64 * {rows * 64} + x * 64 + (y // 8 % 8 ^ x % 8) * 8 + y % 8)) as Os:
    for i4 in range({rows}):
        for e4 in range({depth}):
            Os[i4, e4]: "O_make" = {t}(A[i4, e4] * (1.0 / G[i4, e4 // 2 % 4]))
    for xb in range({rows}):
        for cb in unroll({depth // 64}):
            for yb in range(64):
                O[{h}, {io} * {rows} + xb, cb * 64 + yb]: "O" = Os[xb, cb * 64 + yb]
"""
    )
    end = f"""
with alloc("float32[{rows}, 4]", scope="fragment", layout={ROW}) as G:
    for i3 in range({rows}):
        for q3 in range(4):
            G[i3, q3]: "G_start" = 0.0
    for iqz in range({rows}):
        for qg in range(4):
            for pg in range(4):
                G[iqz, qg]: "G" = sum(L[iqz, pg], over=pg)
""" + textwrap.indent(ends, "    ")
    row = f'alloc("float32[{rows}, 4]", scope="fragment", layout={ROW})'
    grid = {
        "io": f'for h in bind("blockIdx.y", {heads}):\n        for io in bind("blockIdx.x", {n}):',
        "lpt": f'for io in bind("blockIdx.x", {tiles}):\n        if True:',
        "persistent": f'for blk in bind("blockIdx.x", {blocks}):\n        for turn in range({tiles // blocks}):',
    }
    grid["persistio"] = grid["persistent"]
    deep = " " * 16 if kind != "lpt" else " " * 12
    head = f"""
def flash(Q: "{t}[{heads}, {length}, {depth}]", K: "{t}[{heads}, {length}, {depth}]", V: "{t}[{heads}, {length}, {depth}]", O: "out {t}[{heads}, {length}, {depth}]"):
    {grid[kind]}
            with alloc("{t}[1, {rows}, {depth}]", scope="shared", {swizzled(rows, depth)}) as Qs, alloc("{t}[{stages}, {keys}, {depth}]", scope="shared", {swizzled(keys, depth)}) as Ks, alloc("{t}[{stages}, {keys}, {depth}]", scope="shared", {swizzled(keys, depth)}) as Vs, alloc("float32[{rows}, {depth}]", scope="fragment") as A, {row} as M, {row} as L, {row} as X, {row} as T, alloc("float32[{rows}, {keys}]", scope="fragment") as S, alloc("{t}[{rows}, {keys}]", scope="fragment") as P:
"""
    if kind == "lpt":
        head = head.replace("        if True:\n            with", "        with")
    filling = fill("q", "Qs", "Q", "0", f"{io} * {rows}", rows)
    return head + textwrap.indent((filling + start + body + end).replace("\n\n", "\n").strip("\n") + "\n", deep)


def scheduled(rows: int, keys: int, depth: int, text: str | None = None, **how: Any) -> lp.Schedule:
    """The nest (or `text`, made of it), with its instructions."""
    s = lp.Schedule(lp.parse(text or nest(rows, keys, depth, **how)))
    short = {"bfloat16": "bf16", "float16": "f16"}[how.get("t", "bfloat16")]
    for row in [x for x in s.loops() if re.fullmatch(r"i([0-4]|[mxtuqelarzp][abz])", x)]:
        s = s.split(row, 64, names=(f"{row}w", f"{row}i")).bind(f"{row}w", "warpgroup")
    for p, high in (("q", rows), ("k", keys), ("l", keys), ("v", keys), ("w", keys)):
        s = s.tensorize(f"r{p}", f"tma_load_{high}x64_{short}") if f"r{p}" in s.loops() else s
    for p in (x for x in "ab" if f"S{x}" in s.stages):
        s = s.split(f"ds{p}", 16, names=(f"do{p}", f"di{p}")).split(f"is{p}", 64, names=(f"sw{p}", f"si{p}"))
        s = s.reorder(f"sw{p}", f"do{p}", f"si{p}", f"js{p}", f"di{p}").bind(f"sw{p}", "warpgroup").unroll(f"do{p}")
        s = s.tensorize(f"si{p}", f"wgmma_m64n{keys}k16_{short}_bt")
    for p in (x for x in "bc" if f"A{x}" in s.stages):
        s = s.split(f"jy{p}", 16, names=(f"jo{p}", f"ji{p}")).split(f"iy{p}", 64, names=(f"yw{p}", f"yi{p}"))
        s = s.reorder(f"yw{p}", f"jo{p}", f"yi{p}", f"ey{p}", f"ji{p}").bind(f"yw{p}", "warpgroup").unroll(f"jo{p}")
        s = s.tensorize(f"yi{p}", f"wgmma_m64n{depth}k16_{short}_ar")
    for p, fold in (("a", "max"), ("b", "max"), ("z", "sum")):
        s = s.tensorize(f"iq{p}i", f"quad_{fold}") if f"iq{p}i" in s.loops() else s
    if how.get("boxes"):
        s = s.split("xb", 64, names=("xg", "xi")).reorder("xg", "cb", "xi", "yb").bind("xg", "warpgroup")
        s = s.tensorize("xi", f"tma_store_64x64_{short}")
    return s
