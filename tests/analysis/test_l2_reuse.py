"""What is read again from memory: exact on grids whose reuse is known, and never where the cache holds it all."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from loopir.analysis.cost.l2_reuse import Reference, read_from_memory
from loopir.ir.grammar import Index
from loopir.ir.parser.parse import mapping


def index(text: str) -> Index:
    _, (made,) = mapping(f"lambda i, j: ({text},)", ())
    return made


ROWS, COLUMNS, SIZE = 8, 4096, 1 << 26


@pytest.mark.parametrize("slow", [True, False])
def test_a_matrix_is_read_once_for_each_sweep_that_the_cache_does_not_hold(slow: bool) -> None:
    """Blocks (i, j) read row j of a matrix of 64 MB: i slow sweeps it anew, i fast does not."""
    grid = [("j", COLUMNS), ("i", ROWS)] if slow else [("i", ROWS), ("j", COLUMNS)]
    read = Reference("w", (index("j"),), float(ROWS * SIZE))
    first, again = read_from_memory([read], grid, {}, 132, 1 << 24)["w"]
    assert first == pytest.approx(SIZE)
    assert again == pytest.approx((ROWS - 1) * SIZE if slow else 0.0)


@given(st.integers(1, 6), st.integers(1, 200), st.integers(1, 400))
def test_what_the_cache_holds_is_read_once(rows: int, columns: int, running: int) -> None:
    read = Reference("w", (index("j"),), float(rows * columns * 64))
    first, again = read_from_memory([read], [("j", columns), ("i", rows)], {}, running, 64.0 * rows * columns)["w"]
    assert first == pytest.approx(columns * 64)
    assert again == 0


@given(st.integers(1, 6), st.integers(1, 300), st.integers(1, 400), st.floats(1, 1e6))
def test_no_more_is_read_than_is_asked_for(rows: int, columns: int, running: int, cache: float) -> None:
    taken = float(rows * columns * 64)
    reads = [Reference("w", (index("j"),), taken), Reference("x", (index("i"), index("j // 7")), taken)]
    for first, again in read_from_memory(reads, [("j", columns), ("i", rows)], {}, running, cache).values():
        assert 0 <= again <= first + again <= taken * (1 + 1e-9)


def test_what_memory_decides_is_one_place() -> None:
    assert read_from_memory([Reference("w", (), 64.0)], [("i", 8)], {}, 1, 1.0)["w"][0] == pytest.approx(8.0)
