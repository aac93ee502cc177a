"""Check that the operands of an instruction are placed as it needs: whole tiles of a fragment, aligned runs of memory.

Checked at `tensorize`, so that the user gets the refusal, and again in lowering, as layouts and offsets may have
changed in between.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from loopir.arith.simplify import EMPTY, Context, simplify
from loopir.interp.perform import elements_per_run, in_memory_order
from loopir.ir.grammar import Buffer, Cmp, Fragment, Index, Int, Load, Mapped, Strided, Var, ceildiv, conjuncts
from loopir.ir.instr.match_nest import Match, Operand, Tested
from loopir.ir.layout.layouts import evaluate, register_tile, strides_of
from loopir.ir.layout.smem_descriptors import MatrixDescriptor, box_descriptor, matrix_descriptor
from loopir.ir.ops import ISSUE_SCOPES, LANE, Instruction, Major, OperandAddress
from loopir.ir.printer import text
from loopir.ir.traverse.walk import free_vars, substitute

MAP_RANK, MAP_BYTES = 5, 16
"""Dimensions of a tensor map, and what its strides are multiples of."""
MOST_CELLS = 1 << 20
"""Elements of a layout that are looked at one by one."""
PLAIN = 16
"""Bytes side by side in a matrix without a swizzle."""


def operand_misfit(fn: Instruction, found: Match, known: Context) -> str | None:
    """Which operand of `fn` does not lie as the instruction needs it, and why; None if all do."""
    for a in fn.meaning.args:
        name, operand = a.buffer.name, found.operands[a.buffer.name]
        if isinstance(a.buffer.layout, Fragment):
            reason = _not_tiles(a.buffer.layout, operand, known)
        elif fn.boxed is not None and name in fn.boxed:
            if name == fn.boxed[1]:
                reason = _not_a_box(a.buffer, operand, known)
            else:
                reason = _not_mapped(operand, known) or _not_inside(found.tested.get(name), known)
        elif name in fn.matrices:
            reason = _not_a_matrix(fn.matrices[name], operand, known)
        else:
            reason = _not_a_run(fn, name, operand, known)
        if reason is not None:
            return f"operand {name}, {_describe_operand(operand)}: {reason}"
    return None


def address_element(pointer: OperandAddress | None, operand: Operand) -> tuple[Index, ...]:
    """The element whose address the instruction is given; it may speak of the lane."""
    at = list(operand.at)
    for d, x in zip(operand.dims, pointer.at if pointer is not None else (), strict=pointer is not None):
        at[d] = at[d] + x
    return tuple(at)


def span_of(fn: Instruction, found: Match) -> int:
    """How the box in shared memory is swizzled, of an instruction that has one; `operand_misfit` found nothing."""
    assert fn.boxed is not None
    p = next(a.buffer for a in fn.meaning.args if a.buffer.name == fn.boxed[1])
    operand = found.operands[p.name]
    height, width = (d.value for d in p.shape if isinstance(d, Int))
    how = box_descriptor(operand.buffer, (operand.dims[0], operand.dims[1]), height, width)
    assert isinstance(how, int)
    return how


def descriptor_words(fn: Instruction, found: Match, known: Context) -> tuple[tuple[str, int], ...]:
    """The descriptors, but for the addresses, of the operands that are told by one, and of those in rows how far these
    are from each other; `operand_misfit` found nothing."""
    out: list[tuple[str, int]] = []
    for name, along in fn.matrices.items():
        operand = found.operands[name]
        how = matrix_descriptor(operand.buffer, (operand.dims[0], operand.dims[1]))
        assert isinstance(how, MatrixDescriptor)
        out.append((name, how.word(along)))
    for p in (a.buffer for a in fn.meaning.args if a.buffer.name in fn.pointers and fn.pointers[a.buffer.name].rows):
        apart = _row_pitch(p, found.operands[p.name], known)
        assert apart is not None
        out.append((p.name, apart))
    return tuple(out)


def _describe_operand(operand: Operand) -> str:
    return f"{operand.buffer.name}[{', '.join(map(text, operand.at))}] onwards"


def _not_tiles(layout: Fragment, operand: Operand, known: Context) -> str | None:
    unit, rank = register_tile(layout) or (), len(operand.buffer.shape)
    if operand.dims != tuple(range(rank - len(operand.dims), rank)):
        return "its dimensions are not the last ones of the buffer, in order"
    for d, size in zip(operand.dims[-len(unit) :], unit, strict=True):
        if simplify(operand.at[d] % size, known) != Int(0):
            return f"it starts at {text(operand.at[d])} in dimension {d}, which is no whole number of tiles of {size}"
    return None


def _not_a_matrix(along: Major, operand: Operand, known: Context) -> str | None:
    b, (rows, columns) = operand.buffer, operand.dims
    how = matrix_descriptor(b, (rows, columns))
    if isinstance(how, str):
        return how
    if along == "mn" and how.span == PLAIN:
        return f"a matrix whose columns are the reduced loop has to lie in pieces of 32 bytes or more, not {PLAIN}"
    piece = how.span // b.dtype.bytes if along == "mn" else max(PLAIN, min(how.span, 32)) // b.dtype.bytes
    for d, size in ((rows, 8), (columns, piece)):
        if simplify(operand.at[d] % size, known) != Int(0):
            return f"it starts at {text(operand.at[d])} in dimension {d}, which is no multiple of {size}"
    return None


def _not_a_box(p: Buffer, operand: Operand, known: Context) -> str | None:
    height, width = (d.value for d in p.shape if isinstance(d, Int))
    how = box_descriptor(operand.buffer, (operand.dims[0], operand.dims[1]), height, width)
    if isinstance(how, str):
        return how
    for d, size in zip(operand.dims, (height, width), strict=True):
        if simplify(operand.at[d] % size, known) != Int(0):
            return f"it starts at {text(operand.at[d])} in dimension {d}, which is no multiple of {size}"
    return None


def _not_mapped(operand: Operand, known: Context) -> str | None:
    """Why no tensor map tells of the array, whose rows begin at multiples of 16 bytes."""
    b, rank = operand.buffer, len(operand.buffer.shape)
    if rank > MAP_RANK:
        return f"a tensor map has up to {MAP_RANK} dimensions, not {rank}"
    if operand.dims[-1] != rank - 1 or operand.dims != tuple(sorted(operand.dims)):
        return "the columns of a box lie along the last dimension of the array, and its rows along one before it"
    *outer, inner = strides_of(b) if not isinstance(b.layout, Mapped) else (Int(0),)
    if inner != Int(1):
        return "its last dimension is not contiguous"
    for d, s in enumerate(outer):
        if simplify(s * b.dtype.bytes % MAP_BYTES, known) != Int(0):
            return (
                f"{text(s)} elements from one index of dimension {d} to the next are not known to be a multiple of "
                f"{MAP_BYTES} bytes, which a tensor map needs; say so of the size"
            )
    return None


def _not_inside(tested: Tested | None, known: Context) -> str | None:
    """Why a test is another one than whether an element is inside its array, outside of which boxes have nothing."""
    if tested is None:
        return None
    cond, b, at = tested
    ends = [size - x for x, size in zip(at, b.shape, strict=True)]
    for c in conjuncts(cond):
        low = isinstance(c, Cmp) and c.op == "<=" and any(simplify(c.b - c.a - x, known) == Int(0) for x in at)
        high = isinstance(c, Cmp) and c.op == "<" and any(simplify(c.b - c.a - x, known) == Int(0) for x in ends)
        if not (low or high):
            return f"it is there only if {text(c)}, which is not whether {text(Load(b, at))} is inside {b.name}"
    return None


def _not_a_run(fn: Instruction, name: str, operand: Operand, known: Context) -> str | None:
    pointer = fn.pointers.get(name)
    if pointer is None or pointer.run == 1:
        return None
    b, d, run = operand.buffer, operand.dims[-1], pointer.run
    meant = next(a.buffer for a in fn.meaning.args if a.buffer.name == name)
    if pointer.rows:
        apart = _row_pitch(meant, operand, known)
        return "its rows are not known to lie equally far from each other" if apart is None else None
    if not pointer.aligned and not isinstance(b.layout, Mapped):
        return None if strides_of(b)[d] == Int(1) else f"its elements along dimension {d} do not follow one another"
    rows = elements_per_run(tuple(x.value for x in meant.shape if isinstance(x, Int)), run)
    if max(rows[:-1], default=1) > 1:
        return _not_rows(operand, rows, pointer, known)
    start = address_element(pointer, operand)[d]
    if simplify(start % run, known.loop(LANE, Int(ISSUE_SCOPES[fn.level]))) != Int(0):
        return f"it starts at {text(start)} in dimension {d}, which is no multiple of {run}"
    if not keeps_runs(b, d, run, known):
        bytes_ = run * b.dtype.bytes
        return f"{run} elements along dimension {d} are not known to lie together, at a multiple of {bytes_} bytes"
    return None


def _row_pitch(p: Buffer, operand: Operand, known: Context = EMPTY) -> int | None:
    """By how many elements of a matrix the next row is further, if the elements of each lie together."""
    b, (row, column), shape = operand.buffer, operand.dims, _constant(p)
    if not isinstance(b.layout, Mapped):
        apart = strides_of(b)[row]
        return apart.value if isinstance(apart, Int) and strides_of(b)[column] == Int(1) else None
    whole = all(simplify(operand.at[d] % n, known) == Int(0) for d, n in zip(operand.dims, shape, strict=True))
    found = _within(b, operand.dims, shape)
    if found is None or not whole:
        return None
    cells = found[1].reshape(shape)
    apart, (down, across) = int(cells[-1, 0]) // max(1, shape[0] - 1), np.indices(shape)
    return apart if (cells == down * apart + across).all() else None


def _constant(p: Buffer) -> tuple[int, ...]:
    return tuple(d.value for d in p.shape if isinstance(d, Int))


def _not_rows(operand: Operand, rows: tuple[int, ...], aim: OperandAddress, known: Context) -> str | None:
    """Why the elements of an operand do not lie one after another in their order, at a multiple of them all; None if
    they do."""
    b = operand.buffer
    for d, size in zip(operand.dims, rows, strict=True):
        if simplify(operand.at[d] % size, known) != Int(0):
            return f"it starts at {text(operand.at[d])} in dimension {d}, which is no multiple of {size}"
    told = isinstance(b.layout, Mapped) and (
        _holds_for_all_tiles(b, operand.dims, rows, aim) or _mapped_rows(b, operand.dims, rows, aim)
    )
    if not told:
        shown = " x ".join(map(str, rows))
        return f"{shown} elements along dimensions {operand.dims} are not known to lie together"
    return None


@lru_cache(maxsize=256)
def _within(b: Buffer, dims: tuple[int, ...], rows: tuple[int, ...]) -> tuple[Index, Any] | None:
    """Where tiles of so many rows begin, and by how much further each element of one lies; None unless that is the same
    of all tiles."""
    assert isinstance(b.layout, Mapped)
    known, env, inside = EMPTY, dict[str, Index](), dict[str, Any]()
    for d, (n, number) in enumerate(zip(rows, np.indices(rows), strict=True)):
        tile_, part = Var(f"tile.{d}"), Var(f"part.{d}")
        known = known.loop(tile_.name, ceildiv(b.shape[dims[d]], n)).loop(part.name, Int(n))
        env[b.layout.dims[dims[d]]] = tile_ * n + part
        inside[part.name] = number.ravel()
    at = substitute(b.layout.at, env)
    begin = simplify(substitute(at, dict.fromkeys(inside, Int(0))), known)
    where = simplify(at - begin, known)
    if free_vars(where) - inside.keys():
        return None
    return begin, evaluate(where, inside) + np.zeros(prod(rows), np.int64)


def _holds_for_all_tiles(b: Buffer, dims: tuple[int, ...], rows: tuple[int, ...], aim: OperandAddress) -> bool:
    """Whether the layout says of all tiles at once that their elements lie together, from a multiple of them on."""
    found = _within(b, dims, rows)
    if found is None or simplify(found[0] % prod(rows), EMPTY) != Int(0):
        return False
    order = np.ravel_multi_index(tuple(np.array(in_memory_order(aim)).T), rows) if aim.order else slice(None)
    return bool((found[1][order] == np.arange(prod(rows))).all())


@lru_cache(maxsize=256)
def _mapped_rows(b: Buffer, dims: tuple[int, ...], rows: tuple[int, ...], aim: OperandAddress) -> bool:
    assert isinstance(b.layout, Mapped)
    shape = [x.value for x in b.shape if isinstance(x, Int)]
    if len(shape) != len(b.shape) or any(shape[d] % n for d, n in zip(dims, rows, strict=True)):
        return False
    if prod(shape) > MOST_CELLS:
        return False
    cells = evaluate(b.layout.at, dict(zip(b.layout.dims, np.indices(shape), strict=True)))
    cells = np.moveaxis(cells, dims, range(-len(dims), 0))
    outer = len(shape) - len(dims)
    parts = [x for d, n in zip(dims, rows, strict=True) for x in (shape[d] // n, n)]
    cells = cells.reshape(*cells.shape[:outer], *parts)
    cells = np.moveaxis(cells, range(outer + 1, cells.ndim, 2), range(-len(dims), 0))
    first = cells.reshape(-1, prod(rows))
    if aim.order:
        first = first[:, np.ravel_multi_index(tuple(np.array(in_memory_order(aim)).T), rows)]
    return bool((first == first[:, :1] + np.arange(prod(rows))).all() and (first[:, 0] % prod(rows) == 0).all())


def keeps_runs(b: Buffer, d: int, run: int, known: Context = EMPTY) -> bool:
    """Whether each `run` elements along dimension `d`, from a multiple of it, lie together and at a multiple of it."""
    if isinstance(b.layout, Mapped):
        return _holds_for_all_tiles(b, (d,), (run,), OperandAddress((Int(0),), run)) or _mapped_runs(b, d, run)
    strides = list(b.layout.strides if isinstance(b.layout, Strided) else _dense(b.shape))
    if simplify(strides.pop(d), known) != Int(1):
        return False
    return all(simplify(s % run, known) == Int(0) for s in strides)


def _dense(shape: tuple[Index, ...]) -> tuple[Index, ...]:
    out: list[Index] = [Int(1)]
    for size in reversed(shape[1:]):
        out.insert(0, out[0] * size)
    return tuple(out)


@lru_cache(maxsize=256)
def _mapped_runs(b: Buffer, d: int, run: int) -> bool:
    assert isinstance(b.layout, Mapped)
    shape = [x.value for x in b.shape if isinstance(x, Int)]
    if len(shape) != len(b.shape) or shape[d] % run or prod(shape) > MOST_CELLS:
        return False
    cells = np.moveaxis(evaluate(b.layout.at, dict(zip(b.layout.dims, np.indices(shape), strict=True))), d, -1)
    first = cells.reshape(*cells.shape[:-1], shape[d] // run, run)
    together = first == first[..., :1] + np.arange(run)
    return bool(together.all() and (first[..., 0] % run == 0).all())
