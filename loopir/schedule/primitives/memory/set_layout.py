"""set_layout: where the elements of an intermediate lie: transposed, packed, padded, swizzled."""

from __future__ import annotations

from itertools import product

from loopir.errors import ParseError, ScheduleError
from loopir.ir.grammar import Buffer, Func, Index, Int, Mapped, Strided
from loopir.ir.layout.layout_map import layout_from_map
from loopir.ir.layout.layouts import evaluate, is_injective, is_tiled, reads_only
from loopir.ir.parser.parse import fragment_layout, mapping
from loopir.ir.traverse.walk import replace, replace_buffers
from loopir.schedule.core.find import join_names
from loopir.schedule.legality.scopes import find_alloc
from loopir.schedule.schedule import primitive

TRIED = 1 << 16
"""Elements that are tried for two in one place, to name them."""


@primitive
def set_layout(func: Func, buffer: str, layout: str) -> Func:
    """Lay the elements of the intermediate `buffer` out by `layout`, a mapping of indices written as a lambda.

    The mapping gives the place in a row-major array that is just large enough: "lambda i, j: (j, i)" transposes,
    "lambda i, j: (j // 16, i, j % 16)" packs panels of 16 columns, "lambda i, j: i * 33 + j" pads rows,
    "lambda i, j: (i, j // 8 ^ i % 8, j % 8)" swizzles: chunks of 8 columns change places, in each row otherwise.
    It may speak of sizes, but for such as a dimension is called like, and has to put no two elements in one place. An
    array that the caller passes lies as it does: `cache_read` makes a copy that may lie otherwise.

    That of a fragment says which element each register of each lane holds: "fragment(32, 1, lambda t, v: t)" are 32
    elements for 32 lanes, and "fragment(32, 1, lambda t, v: t // 4)" 8 of them, each held by four lanes.

    before:
        def f(n: "size", A: "float32[8, n]", B: "out float32[8, n]"):
            with alloc("float32[8, n]") as T:
                for i in range(8):
                    for j in range(n):
                        T[i, j] = A[i, j] * 2.0
                for k in range(8):
                    for h in range(n):
                        B[k, h] = T[k, h]
    call:    set_layout("T", "lambda i, j: (j, i)")
    after:
        def f(n: "size", A: "float32[8, n]", B: "out float32[8, n]"):
            with alloc("float32[8, n]", layout=strided(1, 8)) as T:
                for i in range(8):
                    for j in range(n):
                        T[i, j] = A[i, j] * 2.0
                for k in range(8):
                    for h in range(n):
                        B[k, h] = T[k, h]
    call:    set_layout("T", "lambda i, j: (j // 4, i, j % 4)")
    after:
        def f(n: "size", A: "float32[8, n]", B: "out float32[8, n]"):
            with alloc("float32[8, n]", layout=mapped(lambda i, j: (j // 4 * 8 + i) * 4 + j % 4)) as T:
                for i in range(8):
                    for j in range(n):
                        T[i, j] = A[i, j] * 2.0
                for k in range(8):
                    for h in range(n):
                        B[k, h] = T[k, h]
    call:    set_layout("T", "lambda i, j: (j // 4, i ^ j // 4 % 8, j % 4)")
    after:
        def f(n: "size", A: "float32[8, n]", B: "out float32[8, n]"):
            with alloc("float32[8, n]", layout=mapped(lambda i, j: (j // 4 * 8 + (i ^ j // 4 % 8)) * 4 + j % 4)) as T:
                for i in range(8):
                    for j in range(n):
                        T[i, j] = A[i, j] * 2.0
                for k in range(8):
                    for h in range(n):
                        B[k, h] = T[k, h]
    call:    set_layout("T", "lambda i, n: n * 8 + i")
    after:
        def f(n: "size", A: "float32[8, n]", B: "out float32[8, n]"):
            with alloc("float32[8, n]", layout=mapped(lambda i, n_1: n_1 * 8 + i)) as T:
                for i in range(8):
                    for j in range(n):
                        T[i, j] = A[i, j] * 2.0
                for k in range(8):
                    for h in range(n):
                        B[k, h] = T[k, h]
    refuses: set_layout("T", "lambda i, i: i")           # calls two dimensions i
    refuses: set_layout("A", "lambda i, j: (j, i)")      # A is an argument of 'f', and its memory is the caller's
    refuses: set_layout("T", "lambda i: i")              # T has 2 dimensions, and the layout maps 1
    refuses: set_layout("T", "lambda i, j: (i, j // 2)") # is not known to put each element of T in a place of its own
    refuses: set_layout("T", "strided(1, 8)")            # a mapping of indices is written lambda i, j: (j, i)

    before:
        def g(A: "float32[4, 4]", B: "out float32[4, 4]"):
            with alloc("float32[4, 4]") as T:
                for i in range(4):
                    for j in range(4):
                        T[i, j] = A[i, j]
                for k in range(4):
                    for h in range(4):
                        B[k, h] = T[h, k]
    refuses: set_layout("T", "lambda i, j: i + j")       # T[0, 1] and T[1, 0] would lie in one place
    refuses: set_layout("T", "lambda i, j: (i, j - 1)")  # T[0, 0] would lie below the start
    """
    b = find_alloc(func, buffer).buffer
    if layout.strip().startswith("fragment("):
        return replace_buffers(func, {b.name: _as_fragment(b, layout)})
    try:
        dims, to = mapping(layout, func.sizes)
    except ParseError as error:
        raise ScheduleError(
            f"{layout!r} is no layout: {error.msg}", suggestion="a mapping of indices, as in lambda i, j: (j, i)"
        ) from None
    if len(dims) != len(b.shape):
        raise ScheduleError(
            f"{b.name} has {len(b.shape)} dimensions, and the layout maps {len(dims)}",
            suggestion=f"lambda {', '.join('ijkhxyzuvw'[: len(b.shape)])}: ...",
        )
    if len({*dims}) != len(dims):
        raise ScheduleError(
            f"{layout!r} calls two dimensions {join_names(sorted({x for x in dims if dims.count(x) > 1}))}",
            suggestion="names of their own",
        )
    if not to or not all(reads_only(x, frozenset({*dims, *func.sizes})) for x in to):
        raise ScheduleError(
            "a layout is made of its dimensions, sizes and integers only",
            suggestion="an index of these, as in lambda i, j: (j, i)",
        )
    made = layout_from_map(dims, to, b.shape)
    new = replace(b, layout=made)
    if made is not None and not is_injective(new):
        raise _refusal(new, layout)
    return replace_buffers(func, {b.name: new})


def _as_fragment(b: Buffer, layout: str) -> Buffer:
    """The fragment `b` with the layout that is given."""
    try:
        held = fragment_layout(layout)
    except ParseError as error:
        suggestion = "fragment(lanes, registers, lambda lane, register: element)"
        raise ScheduleError(f"{layout!r} is no layout: {error.msg}", suggestion=suggestion) from None
    if b.scope != "fragment":
        raise ScheduleError(
            f"{b.name} is in {b.scope} memory, which no lanes hold in registers",
            suggestion=f'set_scope({b.name!r}, "fragment") first',
        )
    if not is_tiled(held, b.shape):
        shape = ", ".join(map(str, b.shape))
        raise ScheduleError(
            f"{b.name}, of shape ({shape}), is not made of whole tiles of {layout!r}",
            suggestion="lanes that hold all elements of a tile, each once, or each by as many lanes side by side",
        )
    return replace(b, layout=held)


def _refusal(b: Buffer, layout: str) -> ScheduleError:
    """Names two elements in one place, if the shape is constant and not too large."""
    sizes = [d.value for d in b.shape if isinstance(d, Int)]
    suggestion = "a mapping that can be undone, such as x // 16 together with x % 16"
    if len(sizes) == len(b.shape):
        lies: dict[int, tuple[int, ...]] = {}
        for at, _ in zip(product(*map(range, sizes)), range(TRIED), strict=False):
            place = _constant_offset(b, at)
            if place is None:
                break
            if place < 0:
                reason = f"{b.name}[{', '.join(map(str, at))}] would lie below the start of {b.name}"
                return ScheduleError(reason, suggestion="a mapping to indices from 0 up")
            if place in lies:
                both = " and ".join(f"{b.name}[{', '.join(map(str, x))}]" for x in (lies[place], at))
                return ScheduleError(f"{both} would lie in one place", suggestion=suggestion)
            lies[place] = at
    reason = f"{layout!r} is not known to put each element of {b.name} in a place of its own"
    return ScheduleError(reason, suggestion=suggestion)


def _constant_offset(b: Buffer, at: tuple[int, ...]) -> int | None:
    """Where element `at` lies, if no size decides."""
    env: dict[str, int] = {}
    ix: Index = Int(0)
    match b.layout:
        case Mapped(dims, where):
            ix, env = where, dict(zip(dims, at, strict=True))
        case Strided(strides):
            for x, step in zip(at, strides, strict=True):
                ix = ix + step * x
        case _:
            return None
    return evaluate(ix, env) if reads_only(ix, frozenset(env)) else None
