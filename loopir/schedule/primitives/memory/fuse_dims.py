"""fuse_dims: dimensions of an intermediate that follow one another become one, as loops do by `fuse`."""

from __future__ import annotations

from loopir.analysis.regions.bounds import Subscript, unproved_accesses
from loopir.arith.simplify import sum_of_variables
from loopir.arith.simplify_func import simplify_body
from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, Index, Int, Load
from loopir.ir.printer import text
from loopir.ir.traverse.walk import replace, replace_stmt
from loopir.schedule.core.facts import known_at
from loopir.schedule.legality.scopes import find_alloc
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.shrink_alloc import rebase_accesses


@primitive
def fuse_dims(func: Func, buffer: str, first: int, count: int = 2) -> Func:
    """Make `count` dimensions of the intermediate `buffer`, from dimension `first` on, one dimension of all of them.

    Its elements stay where they are; what changes is how they are counted. Where a nest's loops were fused, an
    iteration then touches neighbours, and regions are boxes again: rows of pixels become rows of a matrix.

    before:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            with alloc("float32[n, 8]") as T:
                for x in range(n * 8):
                    T[x // 8, x % 8] = A[x // 8, x % 8] * 2.0
                for i in range(n):
                    for j in range(8):
                        B[i, j] = T[i, j]
    call:    fuse_dims("T", 0)
    after:
        def f(n: "size", A: "float32[n, 8]", B: "out float32[n, 8]"):
            with alloc("float32[n * 8]") as T:
                for x in range(n * 8):
                    T[x] = A[x // 8, x % 8] * 2.0
                for i in range(n):
                    for j in range(8):
                        B[i, j] = T[i * 8 + j]
    refuses: fuse_dims("A", 0)     # A is an argument of 'f', and its memory is the caller's
    refuses: fuse_dims("T", 1)     # T has 2 dimensions, and none follows dimension 1
    refuses: fuse_dims("T", 0, 1)  # 1 dimension is one already

    before:
        def g(n: "size", x: "int32[n]", A: "float32[n, 8]", B: "out float32[n]"):
            with alloc("float32[n, 8]") as T:
                for i in range(n):
                    for j in range(8):
                        T[i, j] = A[i, j]
                for k in range(n):
                    B[k] = T[k, x[k]]
    refuses: fuse_dims("T", 0)     # T[k, x[k]] is not known to be inside T
    """
    alloc = find_alloc(func, buffer)
    b = alloc.buffer
    if count < 2:
        raise ScheduleError(f"{count} dimension is one already; there are to be 2 or more", suggestion="count=2")
    if not 0 <= first <= len(b.shape) - count:
        reason = f"{b.name} has {len(b.shape)} dimensions, and none follows dimension {first}"
        if 0 <= first < len(b.shape) - 1:
            reason = f"{b.name} has {len(b.shape)} dimensions, and {count} from dimension {first} on are more than that"
        raise ScheduleError(reason, suggestion=f"first + count at most {len(b.shape)}")
    if b.layout is not None:
        raise ScheduleError(f"{b.name} has a layout that tells its dimensions apart", suggestion="fuse them before")
    _require_inside(func, b.name)
    sizes = b.shape[first : first + count]

    places: dict[tuple[Index, ...], Index] = {}
    settled = True

    def fused(at: tuple[Index, ...]) -> tuple[Index, ...]:
        nonlocal settled
        apart = at[first : first + count]
        place = places.get(apart)
        if place is None:
            place = Int(0)
            for x, size in zip(apart, sizes, strict=True):
                place = place * size + x
            short = sum_of_variables(place)
            settled = settled and short is not None
            place = places[apart] = place if short is None else short
        return (*at[:first], place, *at[first + count :])

    total: Index = Int(1)
    for size in sizes:
        total = total * size
    new = replace(b, shape=(*b.shape[:first], total, *b.shape[first + count :]))
    body = tuple(rebase_accesses(s, {b.name: new}, fused) for s in alloc.body)
    if not settled:
        body = simplify_body(body, known_at(func, alloc), old=alloc.body)
    return replace_stmt(func, alloc, replace(alloc, buffer=new, body=body))


def _require_inside(func: Func, name: str) -> None:
    """Refuse if an access may leave a dimension: it would be inside the fused one, at another element."""
    for _, x, _ in unproved_accesses(func, name):
        if isinstance(x, Subscript):
            what = f"{text(Load(x.buffer, x.at))} is not known to be inside {name}"
            raise ScheduleError(what, suggestion="an index that a guard keeps inside")
