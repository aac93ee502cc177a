"""Contractions of 16-bit floats on tensor cores: a block of warps for each tile of the output.

Written with primitives alone. The tile's sums are a fragment, which the lanes of all warps hold in registers through
all of the reduced loop; both operands' tiles go through shared memory, from where `ldmatrix` takes them. What is done
to a sum afterwards, a cast, a bias, a relu, is done by the lane that holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

import loopir as lp

from ..common.contraction import Contraction, Operand, require_contraction
from ..common.nest_queries import batched, extent, fused, if_legal, reader, reads_of, result_of
from .row_threads import WARP
from .tile_choice import COPY_VECTOR

SHORT_NAMES = {"bfloat16": "bf16", "float16": "f16"}
MMA_ROWS, MMA_COLUMNS = 16, 8
"""Of one mma instruction (PTX ISA, `mma.m16n8k16`)."""


LEAST_BYTES = 4
"""What an asynchronous copy moves at least."""


@dataclass(frozen=True)
class Unit:
    """How tensor cores multiply elements of a type: its name in instructions, the steps of the sum in one of these, the
    elements in a vector of 16 bytes, and the operands that `ldmatrix` fills."""

    short: str
    product: str
    depth: int
    vector: int
    loaded: tuple[str, ...]


LDMATRIX_OPERANDS = ("a", "at", "b", "bt")
UNITS = {
    "bfloat16": Unit("bf16", "mma_m16n8k16_bf16", 16, 8, LDMATRIX_OPERANDS),
    "float16": Unit("f16", "mma_m16n8k16_f16", 16, 8, LDMATRIX_OPERANDS),
    "float32": Unit("f32", "mma_m16n8k8_tf32", 8, 4, ("a", "bt")),
    "int8": Unit("i8", "mma_m16n8k32_s8", 32, 16, ("a", "bt")),
    "uint8": Unit("u8", "mma_m16n8k32_u8", 32, 16, ("a", "bt")),
    "float8_e4m3fn": Unit("e4m3", "mma_m16n8k32_e4m3", 32, 16, ("a", "bt")),
    "float8_e5m2": Unit("e5m2", "mma_m16n8k32_e5m2", 32, 16, ("a", "bt")),
}
"""By dtype; elements of float32 are those that the program rounds to TF32."""

ROUNDINGS = "tf32", "tf32_below"
"""The functions by which a program rounds float32 to TF32: to nearest, and towards zero."""
BYTE_DTYPES = frozenset(("int8", "uint8", "float8_e4m3fn", "float8_e5m2"))
"""Those of 8 bits."""

RAW = {"int8": "i8", "uint8": "u8", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", **SHORT_NAMES}
"""How elements that an operand is computed from are called by asynchronous copies."""


@lp.composite
def matmul_mma(
    s: lp.Schedule,
    stage: str,
    *,
    block: tuple[int, int] = (128, 128),
    warps: tuple[int, int] = (2, 4),
    depth: int = 32,
    stages: int = 1,
    group: int = 1,
    blocks: int | None = None,
    ahead: bool = False,
    spread: bool = False,
    whole: bool = False,
    within: tuple[str, ...] = (),
    near: bool = False,
    staged: bool = False,
) -> lp.Schedule:
    """The contraction `stage`, sums of products of bf16, f16, `lp.tf32` or of types of 8 bits, in tiles of `block` for
    `warps` of warps.

    `stage` is an intermediate that one other stage reads, element by element: its nest gets the blocks and the warps,
    and the sums are made in it, `depth` steps of the reduced loop at a time. Either operand may have the reduced loop
    along its rows, or its other loop. With `stages`, copies run that many steps ahead, less one, and are asynchronous
    where the sizes are known to be multiples of `block` and `depth`; else tiles at the edges are filled up with zeros,
    vector by vector where that can be. `group` and `blocks` are those of `tiles`. The stages `within`, which the
    operands are computed from, are computed in the copies of their tiles; or, of the right operand, with `near`, where
    its fragments are, from a tile of what it is computed from. Where it is `staged`, a tile of the output
    goes to shared memory first, and from there in whole vectors along its rows. With `whole`, operands that do not come
    in whole tiles are copied into such first. With `ahead`, fragments are loaded a step ahead; with `spread`, copies
    are made among the steps, and not all at their start.
    """
    c, out = read_contraction(s, stage)
    unit = _unit_of(s, c)
    if unit is None or not (pairs(s, c) or rounded(s, c) or in_bytes(s, c)):
        raise lp.ScheduleError(
            f"{stage} multiplies elements that are neither of 8 or 16 bits nor rounded by lp.tf32, or are of two types"
        )
    batch, row, column = _loops_of(s, stage, out, c)
    s = s.reorder(*batch, row, column)
    s, (bi, i) = s.split(row, block[0]).with_loops
    s, (bj, j) = s.split(column, block[1]).with_loops
    s = s.reorder(bi, bj, i, j)
    s = _staged(s, out, bj, i, j, block, warps) if staged else _in_warps(s, i, j, block, warps)
    s, at = tiles(s, bi, bj, group, blocks)
    s = s.compute_at(stage, at).set_scope(stage, "fragment")
    s = _sums(s, stage, _Steps(block, warps, depth, unit, stages, ahead, spread, whole, within, near))
    return batched(s, batch)  # once tiles are found: an element of one loop made of several is no place in a tile


def read_contraction(s: lp.Schedule, stage: str) -> tuple[Contraction, str]:
    """The contraction `stage`, and the one stage that reads its sums; ScheduleError where it is none, or has none."""
    c = require_contraction(s, stage)
    out = reader(s, stage)
    if out is None:
        raise lp.ScheduleError(f"{stage} is read by no one stage alone, and its sums are to be an intermediate")
    return c, out


def _unit_of(s: lp.Schedule, c: Contraction) -> Unit | None:
    """How tensor cores multiply the elements of `c`, rounded as the program says."""
    read = next(t for t in s.accesses(c.stage) if t.buffer == c.left.buffer)
    unit = UNITS.get(read.dtype.name)
    return replace(unit, product=f"mma_m16n8k8_{read.by}") if unit is not None and read.by in ROUNDINGS else unit


def pairs(s: lp.Schedule, c: Contraction) -> bool:
    """Whether tensor cores take the elements of `c`, in pairs of 16 bits."""
    return all(t.dtype.name in SHORT_NAMES for t in s.accesses(c.stage) if t.buffer in (c.left.buffer, c.right.buffer))


def rounded(s: lp.Schedule, c: Contraction) -> bool:
    """Whether the elements of `c` are float32 that the program rounds to TF32, both in one way."""
    ways = {t.by for t in s.accesses(c.stage) if t.buffer in (c.left.buffer, c.right.buffer)}
    return len(ways) == 1 and ways <= {*ROUNDINGS}


def in_bytes(s: lp.Schedule, c: Contraction) -> bool:
    """Whether tensor cores of the machine take the elements of `c` as they lie, all of one type of 8 bits."""
    (first, *others) = {t.dtype.name for t in s.accesses(c.stage) if t.buffer in (c.left.buffer, c.right.buffer)}
    plain = all(t.by == "mul" for t in s.accesses(c.stage) if not t.write)
    return plain and not others and first in BYTE_DTYPES and (not first.startswith("float") or lp.machine().has("fp8"))


def _loops_of(s: lp.Schedule, stage: str, out: str, c: Contraction) -> tuple[list[str], str, str]:
    """The loops of `out`, which reads the contraction element by element: around, over rows, over columns."""
    free = [x for x in s.loops(stage) if x != c.reduced]
    if len(free) != len(s.loops(out)):
        raise lp.ScheduleError(f"{out} runs over what {stage} gives in other loops than {stage} does")
    here = dict(zip(free, s.loops(out), strict=True))
    return [here[x] for x in free if x in c.batch], here[c.row], here[c.column]


def tiles(
    s: lp.Schedule, row: str, column: str, group: int, blocks: int | None, batch: Sequence[str] = ()
) -> tuple[lp.Schedule, str]:
    """Blocks for the tiles that loops `row` and `column` count, in bands of `group` rows, column by column.

    So blocks that run at once share rows and columns. With `blocks`, that many blocks stay, and each takes every
    `blocks`-th tile, of all that the loops `batch` around count. The second result is the innermost loop over tiles.
    """
    if group == 1 and blocks is None:
        return s.bind(row, "blockIdx.y").bind(column, "blockIdx.x"), column
    s, (band, inner) = s.split(row, group).with_loops
    s = s.reorder(band, column, inner)
    s, (tile,) = s.fuse(band, column).with_loops
    s, (tile,) = s.fuse(tile, inner).with_loops
    if blocks is None:
        return s.bind(tile, "blockIdx.x"), tile
    s, tile = fused(s, (*batch, tile))
    s, (turn, block) = s.split(tile, blocks).with_loops
    return s.reorder(block, turn).bind(block, "blockIdx.x"), turn


def _in_warps(s: lp.Schedule, i: str, j: str, block: tuple[int, int], warps: tuple[int, int]) -> lp.Schedule:
    """Each warp its part of a tile, rows by warp.y and columns by warp.x."""
    s, (wi, ii) = s.split(i, block[0] // warps[0], tail="exact").with_loops
    s, (wj, jj) = s.split(j, block[1] // warps[1], tail="exact").with_loops
    return s.reorder(wi, wj, ii, jj).bind(wi, "warp.y").bind(wj, "warp.x")


def _staged(
    s: lp.Schedule, out: str, at: str, i: str, j: str, block: tuple[int, int], warps: tuple[int, int]
) -> lp.Schedule:
    """The tile of `out` made in shared memory, by warps, and stored by all lanes."""
    s, (i, j) = tile_of_rows(s, out, at, i, j, block[1])
    return copy_by_warps(_in_warps(s, i, j, block, warps), out, warps, None)


def tile_of_rows(s: lp.Schedule, out: str, at: str, i: str, j: str, width: int) -> tuple[lp.Schedule, tuple[str, ...]]:
    """What `out` makes in an iteration of `at`, over its loops `i` and `j`, in shared memory first, rows of `width`
    apart by other banks; and the loops over that tile."""
    s, tile = s.reindex(out, result_of(s, out), i, j, at=at).with_stage
    loops = s.last.loops
    return s.set_scope(tile, "shared").set_layout(tile, f"lambda x, y: x * {width + COPY_VECTOR} + y"), loops


@dataclass(frozen=True)
class _Steps:
    """How the sums of a tile are made: options of `matmul_mma`, and how its elements are multiplied."""

    block: tuple[int, int]
    warps: tuple[int, int]
    depth: int
    unit: Unit
    stages: int
    ahead: bool
    spread: bool
    whole: bool
    within: tuple[str, ...]
    near: bool


def _sums(s: lp.Schedule, stage: str, how: _Steps) -> lp.Schedule:
    """The tile of sums: copies to shared memory, to fragments, and the instructions."""
    s, (ko, ki, i) = _instruction_loops(s, stage, how)
    how = replace(how, stages=min(how.stages, extent(s, ko) or how.stages))  # no more than there are to copy
    s, copies = _whole_copies(s, stage) if how.whole and not _is_whole(s, stage) else (s, [])
    left, right = contraction_in(s, stage)
    s, left_tile = shared_tile(s, stage, left, ko)
    if how.near:  # edges are filled up while fragments are copies of what is computed
        s, fragment = s.cache_read(stage, right.buffer, "fragment", ki).with_stage
        s = _with_edges_filled(if_legal(s, "pad", stage), stage, how, copies)
        s = _loaded(s, stage, left_tile, how, ki, "a" if left.along else "at", left.along)
        s = _raw(s, fragment, ko, how.warps, how.stages)
    else:
        s, right_tile = shared_tile(s, stage, right, ko)
        s = _with_edges_filled(s, stage, how, copies)
        s = _loaded(s, stage, left_tile, how, ki, "a" if left.along else "at", left.along)
        s = _loaded(s, stage, right_tile, how, ki, "bt" if right.along else "b", right.along)
    s = s.tensorize(i, f"{how.unit.product}{'' if left.along else '_at'}{'_bt' if right.along else ''}")
    if how.ahead:
        s = s.pipeline(ki, stages=2)  # fragments are loaded one step ahead
    if how.stages > 1:
        s = s.pipeline(ko, stages=how.stages, among=ki if how.spread else None)
    return s.unroll(ki)


def _instruction_loops(s: lp.Schedule, stage: str, how: _Steps) -> tuple[lp.Schedule, tuple[str, str, str]]:
    """`s` with the loops of `stage` over a tile in those of steps, warps and instructions; the loops over steps of a
    tile of operands and over instructions in one, and the outermost of an instruction."""
    *_, i, j, k = s.loops(stage)
    s, (ko, kk) = s.split(k, how.depth).with_loops
    s, (ki, k) = s.split(kk, how.unit.depth, tail="exact").with_loops
    s, (wi, ii) = s.split(i, how.block[0] // how.warps[0]).with_loops  # fewer rows or columns are filled up by `pad`
    s, (wj, jj) = s.split(j, how.block[1] // how.warps[1]).with_loops
    s, (ti, i) = s.split(ii, MMA_ROWS).with_loops
    s, (tj, j) = s.split(jj, MMA_COLUMNS).with_loops
    s = s.reorder(ko, wi, wj, ki, ti, tj, i, j, k).bind(wi, "warp.y").bind(wj, "warp.x")
    return s.unroll(ti).unroll(tj), (ko, ki, i)


def _with_edges_filled(s: lp.Schedule, stage: str, how: _Steps, copies: Sequence[str]) -> lp.Schedule:
    """`s` with what operands are computed from inlined, and zeros beyond the edges: in tiles of shared memory, or in
    whole `copies`, which threads then make."""
    for name in how.within:
        s = if_legal(s, "compute_inline", name)
    if not copies:
        s = if_legal(s, "pad", stage)  # no guard is left around an instruction
    for copy in copies:
        s = _fragment_copies(s, copy)
    return s


def _loaded(s: lp.Schedule, stage: str, tile: str, how: _Steps, at: str, kind: str, along: bool) -> lp.Schedule:
    """The `tile` of an operand copied to shared memory by warps, and what an iteration of `at` multiplies of it loaded
    into fragments of a `kind`: "a" for rows, "b" for columns, with a "t" where these are transposed in the tile. Its
    rows go `along` the reduced loop, or across."""
    unit, length = how.unit, how.block[kind[0] == "b"]
    s = s.set_layout(tile, swizzled(how.depth if along else length, unit.vector))
    s = copy_by_warps(s, tile, how.warps, f"cp_async_{unit.short}" if how.stages > 1 else None, unit.vector)
    s, fragment = s.cache_read(stage, tile, "fragment", at).with_stage
    return load_fragments(s, fragment, f"ldmatrix_{kind}_{unit.short}", unit.depth) if kind in unit.loaded else s


def _raw(s: lp.Schedule, made: str, at: str, warps: tuple[int, int], stages: int) -> lp.Schedule:
    """What the fragment `made` is computed from, as it lies, in shared memory: a tile of what there is most of."""
    reads = reads_of(s, made)
    source = max(reads, key=lambda t: (sum(not t.invariant(x) for x in s.loops(made)), -t.dtype.bytes))
    s, tile = s.cache_read(made, source.buffer, "shared", at).with_stage
    width = extent(s, s.loops(tile)[-1])
    vector = 16 // source.dtype.bytes
    if width is None or width % vector:
        raise lp.ScheduleError(f"rows of {source.buffer} in a tile are no whole vectors")
    s = s.set_layout(tile, swizzled(width, vector))
    short = RAW.get(source.dtype.name)
    return copy_by_warps(s, tile, warps, f"cp_async_{short}" if stages > 1 and short else None, vector)


def _is_whole(s: lp.Schedule, stage: str) -> bool:
    """Whether no guard is around the products."""
    refused = s.why("pad", stage)
    return refused is not None and "no guard" in str(refused)


def _whole_copies(s: lp.Schedule, stage: str) -> tuple[lp.Schedule, list[str]]:
    """Copies, of as few operands as can be, that are made of whole tiles, with zeros at the edges."""
    left, right = contraction_in(s, stage)
    for operands in ((left,), (right,), (left, right)):
        made, copies = _in_tiles(s, stage, operands)
        if made.why("pad", stage) is None:
            return made.pad(stage), copies
    return s, []


def _in_tiles(s: lp.Schedule, stage: str, operands: Sequence[Operand]) -> tuple[lp.Schedule, list[str]]:
    copies: list[str] = []
    for operand in operands:
        s, copy = s.cache_read(stage, operand.buffer, "global", None).with_stage
        copies.append(copy)
    return s, copies


def both_whole(s: lp.Schedule, stage: str) -> lp.Schedule:
    """Copies of both operands that are made of whole tiles, with zeros at the edges, by one launch."""
    s, copies = _in_tiles(s, stage, contraction_in(s, stage))
    s = s.pad(stage)
    blocks: list[str] = []
    for copy in copies:
        s = _fragment_copies(s, copy)
        blocks.append(s.loops(copy)[0])
    return if_legal(s, "merge", *blocks, side_by_side=True)


def _fragment_copies(s: lp.Schedule, copy: str) -> lp.Schedule:
    """The copy of a whole operand, a vector for each thread."""
    s, loop = fused(s, s.loops(copy))
    s, (loop, element) = s.split(loop, COPY_VECTOR, tail="exact").with_loops
    s, (block, thread) = s.split(loop, 256).with_loops
    return s.bind(block, "blockIdx.x").bind(thread, "threadIdx.x").vectorize(element)


def swizzled(width: int, vector: int = COPY_VECTOR) -> str:
    """A layout of rows of `width` elements, in which vectors of 16 bytes that stand below one another, 8 rows of them,
    lie in different banks, as do those along a row: in each row, vectors change places by the row's number."""
    vectors = width // vector
    n = min(8, vectors & -vectors)
    if n == 1:
        return f"lambda r, c: r * {width} + c"
    along = f"c // {vector * n}, c // {vector} % {n}" if vectors > n else f"c // {vector}"
    return f"lambda r, c: (r, {along} ^ r // {8 // n} % {n}, c % {vector})"


def contraction_in(s: lp.Schedule, stage: str) -> tuple[Operand, Operand]:
    """The operands of the contraction `stage` on its innermost three loops: by rows, then by columns."""
    *_, i, j, k = s.loops(stage)
    reads = reads_of(s, stage)
    left = next(t for t in reads if t.invariant(j) and not t.invariant(i))
    right = next(t for t in reads if t.invariant(i) and not t.invariant(j))
    return Operand(left.buffer, left.contiguous(k)), Operand(right.buffer, right.contiguous(k))


def shared_tile(s: lp.Schedule, stage: str, operand: Operand, at: str) -> tuple[lp.Schedule, str]:
    """What `stage` reads of `operand` in an iteration of `at`, copied to shared memory as a matrix, and that copy.

    Dimensions of the operand that count its rows together, as heads and their elements do, are one in the matrix; the
    copy has loops over those in which it is a box around the two of a matrix.
    """
    s, tile = s.cache_read(stage, operand.buffer, "shared", at=at).with_stage
    (written,) = (t for t in s.accesses(tile) if t.write)
    rank = written.text.count(",") + 1
    if rank > 2:
        dims = s.loops(tile)[-rank:]
        s = s.fuse_dims(written.buffer, 0 if operand.along else 1, rank - 1)
        if not operand.along:
            s = s.reorder(*dims[1:-1], dims[0], dims[-1])
        for loop in dims[:-2] if operand.along else dims[1:-1]:
            s = s.unroll(loop)
    return s, tile


def copy_by_warps(
    s: lp.Schedule, copy: str, warps: tuple[int, int], instruction: str | None, vector: int = COPY_VECTOR
) -> lp.Schedule:
    """The copy of a tile by all lanes of all warps, a vector each at a time, perhaps by an instruction.

    A vector is shorter where rows in memory start at no whole one of 16 bytes. Where rows in memory are at most
    half as long as those of the tile, and zeros are half of what is stored, all lanes load and store: asynchronous
    copies by the others, in a branch of their own, were slower (4096 x 8 x 4096 on an H200: 13.1 us, where 9.0 were).
    """
    whole, vector = vector, aligned_vector(s, copy, vector)
    if instruction is not None and vector < whole:
        instruction += f"x{vector}"
    half = _is_half_filled(s, copy)
    s, (flat,) = s.fuse(*s.loops(copy)[-2:]).with_loops
    s, (flat, element) = s.split(flat, vector, tail="exact").with_loops
    s, (flat, lane) = s.split(flat, WARP, tail="exact").with_loops
    s, (flat, x) = s.split(flat, warps[1]).with_loops  # where there is too little for all, some have none
    s, (turn, y) = s.split(flat, warps[0]).with_loops
    s = s.bind(y, "warp.y").bind(x, "warp.x").bind(lane, "lane").unroll(turn)
    return vectors(s, element, instruction, filled=not half)


def _is_half_filled(s: lp.Schedule, copy: str) -> bool:
    """Whether a tile has rows at least twice as long as what is copied to it."""
    reads, loop = reads_of(s, copy), s.loops(copy)[-1]
    if len(reads) != 1 or not reads[0].contiguous(loop):
        return False
    length, width = getattr(s.buffer(reads[0].buffer).shape[-1], "value", None), extent(s, loop)
    return length is not None and width is not None and 2 * length <= width


def aligned_vector(s: lp.Schedule, copy: str, vector: int) -> int:
    """Up to `vector` elements that all rows of what is copied start with at a multiple of: `vector`, a half or a
    quarter of it; `vector` where that is not known, or where it is less than that, or than 4 bytes."""
    (read,) = (t for t in s.accesses(copy) if not t.write) if len(s.accesses(copy)) == 2 else (None,)
    rows = [] if read is None else [read.strides.get(x, 0) for x in s.loops(copy) if not read.contiguous(x)]
    strides = [x for x in (getattr(n, "value", n) for n in rows) if isinstance(x, int)]
    if read is None or len(strides) < len(rows):
        return vector
    found = gcd(vector, *strides)
    return found if found * read.dtype.bytes >= LEAST_BYTES and found * 4 >= vector else vector


def vectors(s: lp.Schedule, element: str, instruction: str | None, *, filled: bool = True) -> lp.Schedule:
    """The loop over a vector of a copy by an instruction where it takes that, else as a vector; those of a border are
    `filled` with zeros, each as a whole, or copied from another array."""
    loops = [element]
    if filled and (parts := all_or_nothing(s, element)) is not None:
        s, filling = parts
        loops.insert(0, filling)
    for loop in loops:
        if instruction is not None and s.why("tensorize", loop, instruction) is None:
            s = s.tensorize(loop, instruction)
        else:
            s = s.vectorize(loop)
    return s


def all_or_nothing(s: lp.Schedule, vector: str) -> tuple[lp.Schedule, str] | None:
    """`vector` as one that copies and one that fills up with zeros, or copies from elsewhere, where it is one of the
    two as a whole."""
    if s.why("specialize", vector) is not None:
        return None
    t, (filling,) = s.specialize(vector).with_loops
    return None if t.why("specialize", vector) is None else (t, filling)


def load_fragments(s: lp.Schedule, copy: str, instruction: str, wide: int) -> lp.Schedule:
    """The copy of a part by one `ldmatrix` for each 16 x `wide` of it."""
    x, y = s.loops(copy)[-2:]
    s, (to, x) = s.split(x, MMA_ROWS, tail="exact").with_loops
    s, (uo, y) = s.split(y, wide, tail="exact").with_loops
    return s.reorder(to, uo, x, y).unroll(to).unroll(uo).tensorize(x, instruction)
