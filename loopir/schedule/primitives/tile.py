"""tile: split several loops of a nest and put the tiles' loops outside."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.schedule.find import find_loop, find_serial
from loopir.schedule.primitives.reorder import in_order
from loopir.schedule.primitives.split import Tail, Tiling, split_loop
from loopir.schedule.schedule import primitive


@primitive
def tile(func: Func, *loops_and_factors: str | int, tail: Tail = "guard") -> Func:
    """Split each loop by its factor and reorder: the loops over tiles, then the loops inside a tile.

    The loops come first, then as many factors: `tile("i", "j", 32, 64)`. The same as split for each and reorder.

    before:
        def f(A: "float32[8, 8]", B: "out float32[8, 8]"):
            for i in range(8):
                for j in range(8):
                    B[i, j] = A[j, i]
    call:    tile("i", "j", 4, 2)
    after:
        def f(A: "float32[8, 8]", B: "out float32[8, 8]"):
            for i_o in range(2):
                for j_o in range(4):
                    for i_i in range(4):
                        for j_i in range(2):
                            B[i_o * 4 + i_i, j_o * 2 + j_i] = A[j_o * 2 + j_i, i_o * 4 + i_i]
    refuses: tile("i", "j", 4)             # 2 loops and 1 factors
    refuses: tile("i", "j", 3, 2, tail="exact")  # 3 does not divide 8
    """
    half = len(loops_and_factors) // 2
    names = [x for x in loops_and_factors if isinstance(x, str)]
    factors = [x for x in loops_and_factors if isinstance(x, int)]
    if not half or (*names, *factors) != loops_and_factors or len(names) != len(factors):
        raise ScheduleError(
            f"{len(names)} loops and {len(factors)} factors are given; a tile takes the loops, then a factor for each",
            suggestion='tile("i", "j", 32, 32)',
        )
    made: list[Tiling] = []
    for name, factor in zip([find_loop(func, n).var for n in names], factors, strict=True):
        func, tiling = split_loop(func, find_serial(func, name), factor, tail)
        made.append(tiling)
    return in_order(func, [*(t.outer for t in made), *(t.inner for t in made)])
