"""Sorting along a dimension, without branches: short rows by rank, longer ones by a network.

By rank, where an element goes is how many come before it: n * n comparisons for n elements, in any order, for rows of
any size. A network compares elements in an order that does not depend on them: for rows of a size that is known,
log(n) ** 2 rounds, each of which a vector or all threads take at once (Batcher, "Sorting networks and their
applications", 1968, its rounds with shuffles as in Stone, "Parallel processing with the perfect shuffle", 1971). One
that moves indices, in stable order, or long rows, has one loop over all rounds; where the elements of shorter rows
alone are asked for, it has a nest for each phase, and nothing else to move. Fewer elements of a long row than a network
has rounds are selected one after the other: a handful each by a reduction over those that come after the one before it,
more in a nest that remembers the first of each of many parts of the row, as a tournament does (Knuth, "The art of
computer programming", volume 3, section 5.2.3).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.grammar import Const, Func
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.tensor.called_nests import call
from loopir.tensor.core import as_expr, stage_reduction
from loopir.tensor.creation import arange, zeros
from loopir.tensor.functions import (
    axis_of,
    broadcast_to,
    concatenate,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    monoid,
    pad,
    where,
)
from loopir.tensor.index import same
from loopir.tensor.reductions import fold
from loopir.tensor.scattering import scatter_add
from loopir.tensor.tensor import Tensor

__all__ = ["argsort", "sort", "take_along_axis", "topk"]


NETWORK_SIZE = 64
"""Elements of a row from which on a network makes fewer comparisons than ranks do."""
MOST_IN_A_NETWORK = 1 << 28
"""Elements of the longest row that a network sorts: places are below 2 ** 31, with room for those behind them."""
MOST_BY_PHASES = 256
"""Elements of the longest row whose phases have a nest each, of which there are few enough to be scheduled soon."""
LEAST_SIDE_BY_SIDE = 16
"""Rows of which there are fewer are not side by side in the lanes of vectors, or blocks enough for a GPU."""
MOST_SELECTED = 8
"""Elements that are selected by a stage of the program each, at most."""
LANES_OF_A_ROW = 256
"""Lanes that have the first of some elements of a row each, at most, where elements are selected one by one."""
ROUNDS_OF_A_PASS = 8
"""How many rounds of a network take the time of a pass over the row, about."""


def _keys(e: Tensor, size: Any, far: Any, descending: bool) -> tuple[Tensor, Tensor]:
    """What the last dimension of `e` is sorted by, and, where that is equal, by what, which no two of a row share.

    NaN has the key of infinity, and counts as larger: its place is taken as if it were `far` behind that of all
    numbers, or the numbers' behind those of all NaNs.
    """
    place = arange(size, dtype="int32")
    if not e.dtype.is_float:
        return e, place
    e, nan = e.astype("float32") if e.dtype.is_narrow else e, isnan(e)
    last = logical_not(nan) if descending else nan
    return where(nan, math.inf, e).astype(e.dtype), where(last, place + far, place).astype("int32")


def _places_by_rank(rows: Tensor, count: Any, descending: bool) -> Tensor:
    """The indices of the first `count` elements of each row in order."""
    size = rows.shape[-1]
    keys, ties = _keys(rows, size, size, descending)
    keys, ties = keys.named("keys"), ties.named("ties")
    mine, theirs = keys[..., :, None], keys[..., None, :]
    earlier = logical_or(
        theirs > mine if descending else theirs < mine,
        logical_and(theirs == mine, ties[..., None, :] < ties[..., :, None]),
    )
    rank = fold(Tensor, "sum", earlier, -1, False, dtypes.int32, "rank")
    places = broadcast_to(arange(size, dtype="int32"), rows.shape)
    return scatter_add(zeros((*rows.shape[:-1], count), "int32"), -1, rank, places)


def _places_by_selection(rows: Tensor, count: int, descending: bool) -> Tensor:
    """The indices of the first `count` elements of each row in order, each by a pass over the row."""
    size = rows.shape[-1]
    keys, ties = _keys(rows, size, size, descending)
    ties = broadcast_to(ties, keys.shape)
    none = (keys.dtype.least if descending else keys.dtype.greatest, dtypes.int32.greatest)

    def before(a: Any, b: Any) -> Any:
        return logical_or(a[0] > b[0] if descending else a[0] < b[0], logical_and(a[0] == b[0], a[1] < b[1]))

    def first(a: Any, b: Any) -> Any:
        return tuple(where(before(a, b), x, y) for x, y in zip(a, b, strict=True))

    select, left, places = monoid("first", identity=none, combine=first), (keys, ties), list[Tensor]()
    for _ in range(count):
        key, tie = select(left, axis=-1, keepdims=True)
        places.append(where(tie < size, tie, tie - size))
        later = before((key, tie), (keys, ties))
        left = tuple(where(later, x, n) for x, n in zip((keys, ties), none, strict=True))
    return concatenate(places, axis=-1)


def _network(kind: dtypes.DType, size: int, descending: bool) -> Func:
    """The nest that sorts rows of `size` elements, a power of two, NaN as the largest.

    A phase merges runs of 2 ** (phase - 1) elements that are in order into runs of twice as many. Its first round
    compares the two ends of a run and goes on inwards, the others compare its halves, and each shuffles these, so that
    after all of a phase every element lies in its place again. There are two copies of a row, read and written in turn.
    """
    turn, lines = 0, list[str]()
    for phase in range(1, size.bit_length()):
        half = 2 ** (phase - 1)
        start, place = f"i // {half} * {2 * half}", f"i % {half}"
        ends = f"{start} + {place}", f"{start} + {2 * half - 1} - {place}"
        lines += _exchanges(size, kind, descending, ends, (str(turn), str(1 - turn)))
        if phase > 1:
            copies = f"(s + {1 - turn}) % 2", f"(s + {turn}) % 2"
            halves = f"{start} + {place}", f"{start} + {place} + {half}"
            inner = _exchanges(size, kind, descending, halves, copies)
            lines += [f"for s in range({phase - 1}):", *("    " + x for x in inner)]
        turn = (turn + phase) % 2
    return parse(VALUES.format(type=kind.name, n=size, turn=turn, rounds="\n".join("        " + x for x in lines)))


def _exchanges(
    size: int, kind: dtypes.DType, descending: bool, at: tuple[str, str], copies: tuple[str, str]
) -> list[str]:
    """A loop over the pairs of a row that puts the first of each before the other one, from one copy into another."""
    nan = f" | isnan(key_{1 + int(descending)}[()])" if kind.is_float else ""
    swapped = f"(key_2[()] {'>' if descending else '<'} key_1[()]){nan}"
    return [
        f"for i in range({size // 2}):",
        f'    with alloc("{kind.name}[]", scope="local") as key_1, alloc("{kind.name}[]", scope="local") as key_2:',
        *(f"        key_{n}[()] = key[r, {copies[0]}, {at[n - 1]}]" for n in (1, 2)),
        *(
            f"        key[r, {copies[1]}, i * 2 + {n - 1}] = select({swapped}, key_{3 - n}[()], key_{n}[()])"
            for n in (1, 2)
        ),
    ]


VALUES = """
def sort_rows(rows: "size", keys: "{type}[rows, {n}]", key: "out {type}[rows, 2, {n}]", order: "out {type}[rows, {n}]"):
    for r in range(rows):
        for i in range({n}):
            key[r, 0, i] = keys[r, i]
{rounds}
        for i in range({n}):
            order[r, i] = key[r, {turn}, i]
"""
SHUFFLED = """
def sort_rows(rows: "size", keys: "{type}[rows, {n}]", ties: "int32[rows, {n}]",
              key: "out {type}[rows, 2, {n}]", tie: "out int32[rows, 2, {n}]", order: "out int32[rows, {n}]"):
    for r in range(rows):
        for i in range({n}):
            key[r, 0, i] = keys[r, i]
            tie[r, 0, i] = ties[r, i]
        for t in range({count}):
            if {phase} + {step} < {rounds} - 1:
                for i in range({n}):
                    key[{next}] = select(i % 2 < 1, key[{left}], key[{right}])
                    tie[{next}] = select(i % 2 < 1, tie[{left}], tie[{right}])
            if {phase} + {step} >= {rounds} - 1:
                for i in range({n}):
                    key[{next}] = select(({earlier}) ^ ({other}), key[{right}], key[{left}])
                    tie[{next}] = select(({earlier}) ^ ({other}), tie[{right}], tie[{left}])
        for i in range({n}):
            order[r, i] = tie[r, {count} % 2, i] & {last}
"""
"""Sort rows of n = 2 ** rounds elements. A round shuffles a row, so that elements i and i + n / 2 lie side by side, and
exchanges the two of each pair that is out of order. Of as many rounds as make a phase, those before its first pair only
shuffle; after all of a phase each element lies in its place again, in runs of 2 ** (phase + 1) that are in order, up
and down. Those that only shuffle before the very first pair are left out, as rows begin in any order."""


def _network_of_shuffles(kind: dtypes.DType, rounds: int, descending: bool) -> Func:
    """The nest that sorts rows of 2 ** `rounds` elements in one loop over all rounds: of any length, it is short. There
    are two copies of a row, read and written in turn."""
    size, first = 2**rounds, rounds - 1
    phase, step = f"(t + {first}) // {rounds}", f"(t + {first}) % {rounds}"
    left, right = "r, t % 2, i // 2", f"r, t % 2, i // 2 + {size // 2}"
    earlier = f"key[{right}] {'>' if descending else '<'} key[{left}]"
    earlier = f"({earlier}) | ((key[{right}] == key[{left}]) & (tie[{right}] < tie[{left}]))"
    down = f"select({phase} < {rounds} - 1, int32(i), 0) >> int32(max({phase} + {step} + 2 - {rounds}, 0))"
    return parse(SHUFFLED.format(
        type=kind.name, n=size, last=size - 1, rounds=rounds, count=rounds**2 - first, phase=phase, step=step,
        left=left, right=right, earlier=earlier, next="r, (t + 1) % 2, i", other=f"((int32(i) ^ ({down})) & 1) == 1",
    ))  # fmt: skip


def _places_by_network(rows: Tensor, size: int, count: int, descending: bool) -> Tensor:
    """The indices of the first `count` elements of each row in order; what fills a row up comes last."""
    whole = 1 << (size - 1).bit_length()
    flat = rows.reshape((-1, size))
    keys, ties = _keys(flat, size, whole, descending)
    keys = _filled_up(keys, descending)
    if whole > size:
        places = arange(whole, dtype="int32") + 2 * whole
        ties = where(arange(whole) < size, pad(broadcast_to(ties, flat.shape), ((0, 0), (0, whole - size))), places)
    ties = broadcast_to(ties.astype("int32"), keys.shape)
    *_, order = call(_network_of_shuffles(keys.dtype, whole.bit_length() - 1, descending), keys, ties)
    return order[:, :count].reshape((*rows.shape[:-1], count))


SELECTED = """
@monoid(identity=({none}, 2147483647))
def first(a0: "{type}", a1: "int32", b0: "{type}", b1: "int32"):
    return select({before}, a0, b0), select({before}, a1, b1)

def select_of_rows(rows: "size", keys: "{type}[rows, {n}]", ties: "int32[rows, {n}]",
                   key: "out {type}[rows, {lanes}]", tie: "out int32[rows, {lanes}]",
                   best: "out {type}[rows, {groups}]", best_tie: "out int32[rows, {groups}]",
                   last: "out {type}[rows, {ends}]", order: "out int32[rows, {ends}]"):
    for r in range(rows):
        for i in range(1):
            order[r, i] = -1
        for i in range({lanes}):
            tie[r, i] = -1
        for t in range({count}):
            for i in range({lanes}):
                if tie[r, i] == order[r, t]:
                    with alloc("{type}[]", scope="local") as k, alloc("int32[]", scope="local") as at:
                        for j in range({each}):
                            if j * {lanes} + i < {n}:
                                k[()], at[()] = first(
                                    select({later}, keys[r, j * {lanes} + i], {none}),
                                    select({later}, ties[r, j * {lanes} + i], 2147483647),
                                    over=j, init=({none}, 2147483647))
                        key[r, i] = k[()]
                        tie[r, i] = at[()]
            for i in range({groups}):
                with alloc("{type}[]", scope="local") as k, alloc("int32[]", scope="local") as at:
                    for j in range({in_group}):
                        k[()], at[()] = first(key[r, j * {groups} + i], tie[r, j * {groups} + i],
                                              over=j, init=({none}, 2147483647))
                    best[r, i] = k[()]
                    best_tie[r, i] = at[()]
            for i in range(1):
                with alloc("{type}[]", scope="local") as k, alloc("int32[]", scope="local") as at:
                    for j in range({groups}):
                        k[()], at[()] = first(best[r, j + i], best_tie[r, j + i], over=j, init=({none}, 2147483647))
                    last[r, t + 1 + i] = k[()]
                    order[r, t + 1 + i] = at[()]
"""
"""Select the first elements of rows, one after the other. Of every so many elements a lane has the first that is not
taken yet, and looks for the next one once its own is taken; the first of all lanes is that of groups of these."""


def _selection(kind: dtypes.DType, size: int, count: int, descending: bool) -> Func:
    """The nest that selects the first `count` elements of each row, one after the other."""
    lanes = min(LANES_OF_A_ROW, 1 << (size - 1).bit_length() - 1)
    groups = 1 << lanes.bit_length() // 2
    before = f"({{b0}} {'<' if descending else '>'} {{a0}}) | (({{a0}} == {{b0}}) & ({{a1}} < {{b1}}))"
    at = f"r, j * {lanes} + i"
    later = before.format(a0="last[r, t]", a1="order[r, t]", b0=f"keys[{at}]", b1=f"ties[{at}]")
    return parse(SELECTED.format(
        type=kind.name, none=text(Const(kind.least if descending else kind.greatest, kind)), n=size, count=count,
        ends=count + 1, lanes=lanes, each=-(-size // lanes), groups=groups, in_group=lanes // groups,
        before=before.format(a0="a0", a1="a1", b0="b0", b1="b1"), later=f"(t < 1) | ({later})",
    ))  # fmt: skip


def _places_one_by_one(rows: Tensor, size: int, count: int, descending: bool) -> Tensor:
    """The indices of the first `count` elements of each row in order, each by what the one before leaves."""
    flat = rows.reshape((-1, size))
    keys, ties = _keys(flat, size, size, descending)
    *_, order = call(_selection(keys.dtype, size, count, descending), keys, broadcast_to(ties, keys.shape))
    places = order[:, 1:]
    return where(places < size, places, places - size).astype("int32").reshape((*rows.shape[:-1], count))


def _values_by_network(rows: Tensor, size: int, descending: bool) -> Tensor:
    """The elements of each row in order."""
    keys = rows.reshape((-1, size))
    keys = _filled_up(keys.astype("float32") if keys.dtype.is_narrow else keys, descending, math.nan)
    *_, found = call(_network(keys.dtype, 1 << (size - 1).bit_length(), descending), keys)
    return found[:, :size].astype(rows.dtype).reshape(rows.shape)


def _filled_up(keys: Tensor, descending: bool, greatest: float | None = None) -> Tensor:
    """Rows of `keys` filled up to a power of two by what comes last: the least element, or the greatest float."""
    size = int(keys.shape[-1])
    missing = (1 << (size - 1).bit_length()) - size
    greatest = keys.dtype.greatest if greatest is None or not keys.dtype.is_float else greatest
    return pad(keys, ((0, 0), (0, missing)), value=keys.dtype.least if descending else greatest) if missing else keys


def _by_phases(rows: Tensor, size: int) -> bool:
    """Whether a network sorts `rows` of `size` elements with a nest for each of its phases."""
    count = [n for n in rows.shape[:-1] if isinstance(n, int)]
    return size <= MOST_BY_PHASES and len(count) == rows.ndim - 1 and math.prod(count) >= LEAST_SIDE_BY_SIDE


def _few(count: int, size: Any) -> bool:
    """Whether `count` passes over rows of `size` take less time than to sort them."""
    if not isinstance(size, int):
        return True
    return size >= NETWORK_SIZE and count * ROUNDS_OF_A_PASS <= (size - 1).bit_length() ** 2


def _sorting_places(what: str, x: Any, axis: int, count: Any, descending: bool) -> tuple[Tensor, int, Tensor]:
    """The keys in memory, the axis, and the indices along it of the first `count` in order, stable."""
    elements, d, order = _rows_along(what, x, axis)
    rows, size = elements.transpose(order), elements.shape[d]
    if isinstance(count, int) and 0 < count <= MOST_SELECTED and _few(count, size):
        at = _places_by_selection(rows, count, descending)
    elif isinstance(size, int) and _by_network(size):
        few = 0 < count <= (size - 1).bit_length() ** 2  # of a network's rounds, each of which goes over a row, too
        at = (_places_one_by_one if few else _places_by_network)(rows, size, count, descending)
    else:
        at = _places_by_rank(rows, count, descending)
    return elements, d, at.astype("int64").transpose([order.index(k) for k in range(elements.ndim)])


def _rows_along(what: str, x: Any, axis: int) -> tuple[Tensor, int, list[int]]:
    """The elements in memory, the axis, and the order of dimensions that puts it last."""
    e = stage_reduction(as_expr(Tensor, x, None))
    if not e.ndim:
        raise ExprError(f"{what} of {e.described()}, which has no dimension to sort along")
    d = axis_of(what, axis, e, e.ndim)
    elements = (e.astype("uint8") if e.dtype == dtypes.bool_ else e).named("elements")
    return elements, d, [k for k in range(e.ndim) if k != d] + [d]


def _by_network(size: int) -> bool:
    """Whether rows of `size` elements are sorted by a network."""
    return NETWORK_SIZE <= size <= MOST_IN_A_NETWORK


def _gathered_rows(e: Tensor, d: int, at: Tensor) -> Tensor:
    """The elements of `e` at indices along dimension `d`, each row its own."""
    every = [at if k == d else arange(n)[(slice(None), *(None,) * (at.ndim - 1 - k))] for k, n in enumerate(at.shape)]
    return e.from_start(tuple(every))


def argsort(x: Any, axis: int = -1, descending: bool = False) -> Tensor:
    """The indices, int64, that sort `x` along `axis`; equal elements stay in their order, NaN counts as the largest."""
    e = as_expr(Tensor, x, None)
    count = e.shape[axis_of("argsort", axis, e, e.ndim)] if e.ndim else 0
    return _sorting_places("argsort", e, axis, count, descending)[2]


def sort(x: Any, axis: int = -1, descending: bool = False) -> Tensor:
    """The elements of `x` in order along `axis`; NaN counts as the largest."""
    e = as_expr(Tensor, x, None)
    count = e.shape[axis_of("sort", axis, e, e.ndim)] if e.ndim else 0
    elements, _, order = _rows_along("sort", e, axis)
    rows = elements.transpose(order)
    if not (isinstance(count, int) and _by_network(count) and _by_phases(rows, count)):
        return _gathered_rows(*_sorting_places("sort", e, axis, count, descending)).astype(e.dtype)
    found = _values_by_network(rows, count, descending)
    return found.transpose([order.index(k) for k in range(e.ndim)]).astype(e.dtype)


def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along `axis`, or smallest, in order, and their indices; NaN counts as largest."""
    e = as_expr(Tensor, x, None)
    size = e.shape[axis_of("topk", axis, e, e.ndim)] if e.ndim else 1
    whole = isinstance(k, int) and not isinstance(k, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not whole or k < 0 or (isinstance(size, int) and k > size):
        raise ExprError(f"topk of {e.described()}: k={k!r}; it is from 0 to the size along the axis, {size}")
    keys, d, at = _sorting_places("topk", e, axis, k, largest)
    return _gathered_rows(keys, d, at).astype(e.dtype), at


def take_along_axis(x: Any, index: Tensor, axis: int = -1) -> Tensor:
    """The elements of `x` at `index` along `axis`, each row by its own; the other sizes are those of `x`."""
    e = stage_reduction(as_expr(Tensor, x, None))
    d = axis_of("take_along_axis", axis, e, e.ndim)
    symbols = {**e.symbols, **index.symbols}
    if index.ndim != e.ndim or any(k != d and not same(n, index.dims[k], symbols) for k, n in enumerate(e.dims)):
        raise ExprError(
            f"take_along_axis of {e.described()} at {index.described()}: but for axis {d}, the sizes differ"
        )
    return _gathered_rows(e, d, where(index < 0, index + e.shape[d], index) if index.dtype.kind == "int" else index)
