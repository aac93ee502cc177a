"""Sliding windows: with what earlier iterations computed, the new part of each is all that the iteration needs."""

import pytest

from loopir.analysis.regions.footprint import Footprint
from loopir.arith.simplify import EMPTY
from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import TRUE, Index, Int, Loop, Var, maximum
from loopir.ir.verify.verify import evaluate
from loopir.schedule.transform.window import unseen

LOOP, N = Var("i"), Var("n")
ROW = Var("row")


def box(base: Index | int, extent: Index | int) -> Footprint:
    b, e = (x if isinstance(x, Index) else Int(x) for x in (base, extent))
    return Footprint((b,), (e,), (e,))


BOXES = {
    "up by one": box(LOOP, 3),
    "up by two": box(LOOP * 2, 5),
    "up by its length": box(LOOP * 3, 3),
    "down by one": box(N - LOOP, 4),
    "of a size": box(LOOP, N),
    "standing": box(2, 4),
    "apart": box(LOOP * 4, 3),
    "clamped below": box(maximum(LOOP - 1, 0), LOOP + 2 - maximum(LOOP - 1, 0)),
}


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_each_iteration_computes_what_none_before_it_did(name: str, n: int) -> None:
    known = EMPTY.given(N >= 1).loop("i", Int(6))
    part, cond = unseen(BOXES[name], Loop("i", Int(6), "serial", ()), (ROW,), known)
    seen = set[int]()
    for i in range(6):
        env = {"i": i, "n": n}
        whole, new = (
            {*range(low := evaluate(x.base[0], env), low + evaluate(x.extent[0], env))} for x in (BOXES[name], part)
        )
        fresh = {row for row in new if cond_holds(cond, {**env, "row": row})}
        assert fresh | seen >= whole
        assert fresh.isdisjoint(seen)
        assert evaluate(part.size[0], env) >= len(new)
        seen |= fresh


def test_a_box_that_moves_along_two_dimensions_is_new_as_a_whole() -> None:
    moving = Footprint((LOOP, LOOP), (Int(3), Int(3)), (Int(3), Int(3)))
    assert unseen(moving, Loop("i", Int(6), "serial", ()), (ROW, ROW), EMPTY) == (moving, TRUE)
