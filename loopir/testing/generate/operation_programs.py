"""Programs that say everything once: each operation of a type, each conversion from it. For tests of a backend."""

from __future__ import annotations

import loopir.intrinsics  # noqa: F401  # pyright: ignore[reportUnusedImport]  (registers every operation)
from loopir.ir.dtypes import ALL_DTYPES, DType
from loopir.ir.grammar import Func
from loopir.ir.ops import REGISTRY, Intrinsic
from loopir.ir.parser.parse import parse


def operations(t: DType) -> tuple[Func, tuple[Intrinsic, ...]]:
    """A nest for each operation on `t`, over vectors x, y and z; output k is that of operation k."""
    pure = (f for f in REGISTRY.values() if f.lane is None)
    ops = tuple(f for f in pure if t.kind in f.kinds and not f.doc.startswith("Part of") and "private" not in f.doc)
    inputs = ", ".join(f'{v}: "{t}[n]"' for v in "xyz")
    outputs = ", ".join(f'o{k}: "out {"bool" if f.result == "bool" else t}[n]"' for k, f in enumerate(ops))
    lines = [f'def operations(n: "size", {inputs}, {outputs}):']
    for k, f in enumerate(ops):
        args = [f"{v}[i{k}]" for v in "xyz"[: f.arity]]
        value = f"{args[0]} {f.infix} {args[1]}" if f.infix and f.arity == 2 else f"{f.name}({', '.join(args)})"
        lines += [f"    for i{k} in range(n):", f"        o{k}[i{k}] = {value}"]
    return parse("\n".join(lines)), ops


def conversions(t: DType) -> tuple[Func, tuple[DType, ...]]:
    """A nest for each conversion of a vector x of `t`; output k is of type k."""
    types = tuple(other for other in ALL_DTYPES if other != t)
    outputs = ", ".join(f'o{k}: "out {other}[n]"' for k, other in enumerate(types))
    lines = [f'def conversions(n: "size", x: "{t}[n]", {outputs}):']
    for k, other in enumerate(types):
        lines += [f"    for i{k} in range(n):", f"        o{k}[i{k}] = {other}(x[i{k}])"]
    return parse("\n".join(lines)), types
