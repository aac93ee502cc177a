"""Results that leave a block as boxes, copied from shared memory by one thread while all go on.

A tile of results is made slice by slice, 128 bytes of each row, in a few slots of shared memory that are used in turn:
while boxes of one slice are on their way, the next one is made. Rows are swizzled, so the pairs that threads hold go
there without conflicts; by `stmatrix`, in a quarter of the instructions, it was no faster on an H200, with gelu 1 to
4 % slower.
"""

from __future__ import annotations

from collections.abc import Callable

import loopir as lp

from ..common.nest_queries import extent, result_of

SHORT_NAMES = {
    "bfloat16": "bf16", "float16": "f16", "float32": "f32", "int32": "i32", "int8": "i8",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip
"""What copies of boxes call an element type."""
SWIZZLE_BYTES, MAX_BOX_ROWS = 128, 256
"""Of a row of a slice, and rows of a box at most."""


def swizzled(rows: int, vector: int) -> str:
    """The layout of a tile of so many rows in pieces of 128 bytes, their parts of 16 exchanged by the row."""
    piece = 8 * vector
    within = f"x * {piece} + (y // {vector} % 8 ^ x % 8) * {vector} + y % {vector}"
    return f"lambda x, y: y // {piece} * {rows * piece} + {within}"


def slots_of(slices: int) -> int:
    """How many slices are there at once: two or three, if they follow one another from tile to tile."""
    return next((n for n in (2, 3) if slices % n == 0), 1)


def result_bytes(rows: int, columns: int, element: int) -> int:
    """Shared memory that such results take, of elements of so many bytes."""
    return rows * SWIZZLE_BYTES * slots_of(columns * element // SWIZZLE_BYTES)


def tile_of_results(s: lp.Schedule, stage: str, out: str, at: str) -> tuple[lp.Schedule, str, str]:
    """What `out` makes of `stage` in an iteration of `at`, by its last two loops, in shared memory first: rows and
    columns, whatever shape the array has that they go to; and the stages that make it and that copy it."""
    i, j = s.loops(out)[-2:]
    made = s.cache_write(out, "shared", at=at)
    (tile,) = {*made.buffers} - {*s.buffers}
    plain = [getattr(n, "value", None) for n in made.buffer(tile).shape] == [extent(s, i), extent(s, j)]
    whole = result_of(s, out)
    if plain or s.why("reindex", out, whole, i, j, at=at) is not None:
        both = (out, *made.last.stages)
    else:
        made = s.reindex(out, whole, i, j, at=at)
        both = (out, *made.last.stages)
        (tile,) = {*made.buffers} - {*s.buffers}
        made = made.set_scope(tile, "shared")
    (first,) = (x for x in both if any(t.buffer == stage for t in made.accesses(x)))
    (copy,) = (x for x in both if x != first)
    return made, first, copy


def store_boxes(
    s: lp.Schedule,
    stage: str,
    out: str,
    at: str,
    rows: int,
    by_threads: Callable[[lp.Schedule, str], lp.Schedule],
    own: int,
) -> lp.Schedule | None:
    """`out`, made of `stage` in loop `at`, through slots of shared memory, as boxes; None if it is not of whole slices,
    is read in the same nest, or no tensor map tells of it. Who makes the `rows` of a slice, `by_threads` says of their
    loop: warpgroups, each `own` rows, which it stores itself and waits for nobody."""
    whole = result_of(s, out)
    near = [x for x in s.stages if {*s.loops(x)} & {*s.loops(out)}]
    if any(t.buffer == whole and not t.write for x in near for t in s.accesses(x)):
        return None
    s, made, copy = tile_of_results(s, stage, out, at)
    (target,) = (t for t in s.accesses(made) if t.write)
    dtype, width = target.dtype, SWIZZLE_BYTES // target.dtype.bytes
    short, columns = SHORT_NAMES.get(dtype.name), extent(s, s.loops(made)[-1]) or 0
    if short is None or columns % width or rows > MAX_BOX_ROWS:
        return None
    slots, turns = slots_of(columns // width), list[str]()
    for x in (made, copy):
        s, (turn, j) = s.split(s.loops(x)[-1], width, tail="exact").with_loops
        i = s.loops(x)[-3]
        s = s.reorder(turn, i, j)
        turns.append(turn)
    s = s.fuse_loops(*turns).unroll(turns[0])
    if columns > slots * width:
        s = s.fold_storage(target.buffer, 1, slots * width)
    s = s.set_layout(target.buffer, swizzled(rows, width // 8))
    s = by_threads(s, s.loops(made)[-2])
    x = s.loops(copy)[-2]
    s, (group, x) = s.split(x, own, tail="exact").with_loops
    s, box = s.bind(group, "warpgroup"), f"tma_store_{own}x{width}_{short}"
    return s.tensorize(x, box) if s.why("tensorize", x, box) is None else None
