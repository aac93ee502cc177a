"""Elements that several lanes hold: each of them does what is done to one, and they fold together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.errors import LowerError, ScheduleError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Fragment, If
from loopir.ir.layout.layouts import register_tile, replicas
from loopir.ir.parser.parse import fragment_layout
from loopir.ir.traverse.walk import statements

SUMS = {
    32: "fragment(32, 4, lambda t, v: (t // 4 + v // 2 * 8, t % 4 * 2 + v % 2))",
    128: "fragment(128, 4, lambda t, v: (t // 32 * 16 + t % 32 // 4 + v // 2 * 8, t % 4 * 2 + v % 2))",
}
ROWS = {
    32: "fragment(32, 2, lambda t, v: t // 4 + v * 8)",
    128: "fragment(128, 2, lambda t, v: t // 32 * 16 + t % 32 // 4 + v * 8)",
}
FOLDS: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}


def folded(lanes: int, fold: str, wide: int, guard: str = "", rows: str | None = None, stored: str = "M[x]") -> lp.Func:
    """What the rows of a fragment fold to, with what has been folded before, by the lanes that hold them."""
    high = lanes // 2
    bound = "" if lanes == 32 else 'for w in bind("warpgroup", 1):'
    term = f'M[r]: "M" = {fold}(S[r, c], over=c)'
    return lp.parse(f"""
def f(A: "float32[{high}, {wide}]", B: "float32[{high}]", O: "out float32[{high}]"):
    for b in bind("blockIdx.x", 1):
        {bound or "if True:"}
            with alloc("float32[{high}, {wide}]", scope="fragment", layout={SUMS[lanes]}) as S, alloc("float32[{high}]", scope="fragment", layout={rows or ROWS[lanes]}) as M:
                for i in range({high}):
                    for j in range({wide}):
                        S[i, j] = A[i, j]
                for h in range({high}):
                    M[h]: "M_start" = B[h]
                for r in range({high}):
                    for c in range({wide}):
                        {guard and f"if {guard}:"}
                        {"    " if guard else ""}{term}
                for x in range({high}):
                    O[x] = {stored}
""")  # noqa: E501


@settings(max_examples=12)
@given(
    lanes=st.sampled_from((32, 128)),
    fold=st.sampled_from(sorted(FOLDS)),
    tiles=st.integers(1, 2),
    last=st.integers(0, 9),
)
def test_lanes_that_hold_a_row_together_fold_it_together(lanes: int, fold: str, tiles: int, last: int) -> None:
    wide = 8 * tiles
    func = lp.lower(lp.Schedule(folded(lanes, fold, wide, f"c < r + {last}")), "cuda")[0]
    rng = np.random.default_rng(last)
    a, b = (rng.integers(-99, 99, n).astype(np.float32) for n in ((lanes // 2, wide), lanes // 2))
    seen = np.arange(wide) < np.arange(lanes // 2)[:, None] + last
    wanted = [FOLDS[fold]([*row[here], start]) for row, here, start in zip(a, seen, b)]
    np.testing.assert_array_equal(interpret(func, (a, b))["O"], wanted)


def test_one_of_the_lanes_that_hold_an_element_stores_it() -> None:
    """Four that store the same would be found as a race."""
    lowered = lp.lower(lp.Schedule(folded(32, "max", 8)), "cuda")[0]
    asked = [s.cond for s in statements(lowered.body) if isinstance(s, If)]
    assert len(asked) == 1
    assert "Int(value=4)" in str(asked)


@pytest.mark.parametrize(
    ("layout", "count", "tile"),
    [
        (ROWS[32], 4, (16,)),
        (SUMS[32], 1, (16, 8)),
        ("fragment(32, 1, lambda t, v: t % 8)", 1, None),  # held by lanes that are far from one another
        ("fragment(32, 2, lambda t, v: t // 2)", 2, None),  # in two registers of a lane
        ("fragment(32, 1, lambda t, v: t // 32)", 32, (1,)),
    ],
)
def test_how_many_lanes_hold_an_element(layout: str, count: int, tile: tuple[int, ...] | None) -> None:
    found = fragment_layout(layout)
    assert isinstance(found, Fragment)
    assert (replicas(found), register_tile(found)) == (count, tile)


def test_a_row_that_another_lane_holds_is_refused() -> None:
    with pytest.raises(LowerError, match=r"needs M\[\d+\], which lane \d+ holds"):
        lp.lower(
            lp.Schedule(folded(32, "max", 8, rows="fragment(32, 2, lambda t, v: (t // 4 + 1) % 8 + v * 8)")), "cuda"
        )


@pytest.mark.parametrize(
    ("layout", "told"),
    [
        ("fragment(32, 1, lambda t, v: t % 8)", "not made of whole tiles"),
        ("fragment(32, 1)", "a layout is strided"),
        ("fragment(32, 1, lambda t, v: (t, v)", "is no layout"),
    ],
)
def test_layouts_of_fragments_that_are_none(layout: str, told: str) -> None:
    s = lp.Schedule(folded(32, "max", 8))
    with pytest.raises(ScheduleError, match=told):
        s.set_layout("M", layout)
    assert s.set_layout("M", ROWS[32]).func == s.func
