"""Try the spelling of an instruction on this CPU against the nest that it means."""

from __future__ import annotations

from collections.abc import Mapping
from math import ulp as ulp_of
from typing import Any

import ml_dtypes
import numpy as np

from loopir.build import Schedule
from loopir.interp.interpret import interpret
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    Alloc,
    Arg,
    Body,
    Buffer,
    Func,
    InstrRegion,
    Int,
    Load,
    Loop,
    Node,
    Reduce,
    Stmt,
    Store,
    Var,
)
from loopir.ir.instr.llvm_text import is_llvm_text
from loopir.ir.ops import Instruction, find_instruction
from loopir.ir.traverse.rebuild import replace, transform
from loopir.ir.traverse.walk import fresh_name, take_name, taken_names
from loopir.testing.oracles.rounding import NoBound, error_bounds

Array = np.ndarray[Any, Any]
ROWS, TRIED_ROW = 3, 1
"""Each operand is one of so many rows of an array, so that what is written beside it shows."""
SPECIAL: tuple[float | str, ...] = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, "tiny", "smallest_subnormal")
"""Floats in some examples: those of the type with no full precision, too."""


def check_instruction(instruction: Instruction | str, *, examples: int = 100, seed: int = 0, ulps: float = 0.0) -> None:
    """Run `instruction`, which is spelt by an LLVM text, on random operands; compare it with what its meaning gives.

        check_instruction(vpdpbusd)

    Integers are any of their type; floats are of all magnitudes, and in every other example infinities, nan, zeros of
    both signs and denormal numbers are among them. Integers have to be equal. Floats may differ by twice what rounding
    can do to the meaning, as of a product and a sum that are rounded once; and by `ulps` units in the last place, for
    an approximation. Raises AssertionError with the element, what it is, what it should be and the operands; and
    ValueError for an instruction without such a text.
    """
    fn = find_instruction(instruction) if isinstance(instruction, str) else instruction
    if fn is None or not is_llvm_text(fn.llvm):
        raise ValueError(f"{instruction} has no LLVM text as its llvm=, which is what is checked here")
    func = _program(fn)
    kernel = Schedule(func).build("llvm", fma=False, threads=1)
    rng = np.random.default_rng(seed)
    for example in range(examples):
        arrays = {
            a.buffer.name: _drawn(rng, a.buffer, special=example % 2 == 1) for a in func.args if a.access != "out"
        }
        wanted, got = _run_both(func, kernel, arrays)
        for name, one in wanted.items():
            _require_same(fn, func, name, one, got[name], arrays, ulps)


def _run_both(func: Func, kernel: Any, arrays: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """The arrays that are written, as the interpreter and as the kernel leave them."""
    with np.errstate(all="ignore"):
        wanted = dict(interpret(func, dict(arrays)))
    given = {name: x.copy() for name, x in arrays.items()}
    kernel(*given.values())
    return wanted, {name: given[name] for name in wanted}


def _require_same(
    fn: Instruction, func: Func, name: str, wanted: Array, got: Array, arrays: Mapping[str, Array], ulps: float
) -> None:
    b = next(a.buffer for a in func.args if a.buffer.name == name)
    floats = b.dtype.is_float
    one, other = (np.asarray(x, np.float64) if floats else x for x in (wanted, got))
    wrong = ~((one == other) | ((one != one) & (other != other)))
    if floats and wrong.any():
        with np.errstate(all="ignore"):
            wrong &= ~(np.abs(one - other) <= _allowed(func, b, one, arrays, ulps))
    if not wrong.any():
        return
    at = tuple(int(x) for x in np.argwhere(wrong)[0])
    where = f"{name}[{', '.join(map(str, at[1:]))}]"
    beside = (
        "" if at[0] == TRIED_ROW else f", {TRIED_ROW - at[0]} rows before the operand, which it should leave alone,"
    )
    read = {a.buffer.name for a in fn.meaning.args if a.access != "out"}
    operands = "\n".join(f"    {a} = {x[TRIED_ROW].tolist()}" for a, x in arrays.items() if a in read)
    raise AssertionError(
        f"{fn.name}: {where}{beside} is {other[at]}, and by its meaning {one[at]}; its operands were\n{operands}"
    )


def _allowed(func: Func, b: Buffer, wanted: Array, arrays: Mapping[str, Array], ulps: float) -> Array:
    """By how much each element may differ."""
    last = np.array([ulps * _last_place(b.dtype, float(x)) for x in wanted.ravel()]).reshape(wanted.shape)
    try:
        bounds = dict(zip((o.name for o in func.outputs()), error_bounds(func, dict(arrays), {}), strict=True))
    except NoBound:
        return last
    return np.nan_to_num(2 * bounds[b.name]) + last


def _last_place(t: DType, x: float) -> float:
    """One unit in the last place of `x` in type `t`."""
    if not np.isfinite(x):
        return 0.0
    return ulp_of(max(abs(x), float(ml_dtypes.finfo(t.numpy).tiny))) * 2.0 ** (53 - t.digits)


def _drawn(rng: np.random.Generator, b: Buffer, *, special: bool) -> Array:
    shape, t = tuple(d.value for d in b.shape if isinstance(d, Int)), b.dtype
    if t.kind == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if not t.is_float:
        info = np.iinfo(t.numpy)
        return rng.integers(info.min, info.max, shape, t.numpy, endpoint=True)
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)).astype(t.numpy)
    if special:
        some = [_special(t, v) for v in SPECIAL]
        x = np.where(rng.random(shape) < 0.25, rng.choice(np.array(some), shape).astype(t.numpy), x)
    return x


def _special(t: DType, v: float | str) -> float:
    return float(getattr(ml_dtypes.finfo(t.numpy), v) if isinstance(v, str) else v)


# ---------------------------------------------------------------- the program


def _program(fn: Instruction) -> Func:
    """A Func that runs `fn` once, each operand being a row of an array, or a copy of one in the memory it needs."""
    meaning = fn.meaning
    taken = taken_names(meaning)
    arrays: dict[str, Buffer] = {}
    held: dict[str, Buffer] = {}
    for a in meaning.args:
        p = a.buffer
        arrays[p.name] = Buffer(p.name, (Int(ROWS), *p.shape), p.dtype)
        if p.scope not in ("any", "global"):
            held[p.name] = Buffer(fresh_name(f"{p.name}_held", taken), p.shape, p.dtype, p.scope)
            taken.add(held[p.name].name)

    def visit(n: Node) -> Node:
        if isinstance(n, Load):
            return Load(*_operand_element(n.buffer.name, n.at, arrays, held))
        if isinstance(n, Store):
            b, at = _operand_element(n.buffer.name, n.at, arrays, held)
            return replace(n, buffer=b, at=at)
        if isinstance(n, Reduce):
            places = [_operand_element(x.name, n.at, arrays, held) for x in n.buffers]
            return replace(n, buffers=tuple(b for b, _ in places), at=places[0][1])
        return n

    body: Body = (InstrRegion(fn, tuple(transform(s, visit) for s in meaning.body)),)
    for a in meaning.args:
        if (inner := held.get(a.buffer.name)) is not None:
            outer = arrays[a.buffer.name]
            before = _copy_loops(inner, outer, taken, into=True) if a.access != "out" else ()
            after = _copy_loops(inner, outer, taken, into=False) if a.access != "in" else ()
            body = (Alloc(inner, (*before, *body, *after)),)
    args = tuple(Arg(arrays[a.buffer.name], "in" if a.access == "in" else "inout") for a in meaning.args)
    return Func(f"check_{fn.name}", args, (), body)


def _operand_element(
    name: str, at: Any, arrays: Mapping[str, Buffer], held: Mapping[str, Buffer]
) -> tuple[Buffer, Any]:
    return (held[name], at) if name in held else (arrays[name], (Int(TRIED_ROW), *at))


def _copy_loops(inner: Buffer, outer: Buffer, taken: set[str], *, into: bool) -> tuple[Stmt, ...]:
    """Copy an operand into its memory, or back."""
    names: list[str] = []
    for _ in inner.shape:
        names.append(fresh_name("e", taken))
        taken.add(names[-1])
    at = tuple(Var(x) for x in names)
    row = (Int(TRIED_ROW), *at)
    label = take_name(f"{inner.name}_{'in' if into else 'out'}", taken)
    s: Stmt = Store(label, inner, at, Load(outer, row)) if into else Store(label, outer, row, Load(inner, at))
    for name, size in reversed(list(zip(names, inner.shape, strict=True))):
        s = Loop(name, size, "serial", (s,))
    return (s,)
