"""Instructions performed lane by lane: what registers, addresses and boxes bring is what their nest means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import loopir.intrinsics
from loopir.interp.perform import BoxAt, elements_per_run, in_memory_order, operand_elements, perform
from loopir.ir.grammar import Fragment, Index, Int, Var
from loopir.ir.layout.layouts import evaluate
from loopir.ir.ops import INSTRUCTIONS, ISSUE_SCOPES, LANE, NUMBER, Instruction, OperandAddress, find_instruction

FOUND = [
    "dp4a", "cp_async_f16x4", "ldmatrix_a_bf16", "ldmatrix_at_f16", "ldmatrix_b_f16", "ldmatrix_bt_i8",
    "mma_m16n8k16_bf16", "mma_m16n8k16_f16_at_bt", "mma_m16n8k32_s8", "mma_m16n8k8_tf32", "stmatrix_16x16_f16",
    "stmatrix_64x16_bf16_t",
]  # fmt: skip
"""Of a thread, of a warp and of a warpgroup."""
APART = 3
"""Elements between the rows of an operand that is passed with its row stride."""


class Cells:
    """A buffer of which nothing is asked but its cells."""

    def __init__(self, shape: tuple[int, ...], zero: float = 0) -> None:
        self.shape, self.zero, self.cells = shape, zero, dict[Any, Any]()

    def peek(self, at: tuple[int, ...]) -> Any:
        return self.cells.get(at)

    def taken_all(self, cells: list[int], kind: str, only: bool = True) -> list[Any]:
        return [self.cells.get((n,)) for n in cells]

    def given_all(self, places: list[tuple[int, ...]], values: list[Any], kind: str, slot: Any = None) -> None:
        self.cells.update(zip(places, values, strict=True))


def shape_of(fn: Instruction, n: int) -> tuple[int, ...]:
    return tuple(d.value for d in fn.meaning.args[n].buffer.shape if isinstance(d, Int))


def evaluate_all(at: tuple[Index, ...], lane: int) -> tuple[int, ...]:
    return tuple(int(evaluate(x, {LANE: lane})) for x in at)


def run(fn: Instruction, given: dict[str, np.ndarray], begin: int) -> dict[str, np.ndarray]:
    """What `fn` gives of operands that begin so far in their buffers; registers are each lane's own."""
    lanes = range(ISSUE_SCOPES[fn.level])
    words, cells = dict[str, int](), [list[tuple[Any, int]]() for _ in lanes]
    for n, a in enumerate(fn.meaning.args):
        name, shape = a.buffer.name, shape_of(fn, n)
        shared = Cells((1 << 12,))
        if (aim := fn.pointers.get(name)) is not None and aim.rows:
            words[name] = shape[1] + APART
        for lane in lanes:
            memory = Cells((1 << 12,)) if isinstance(a.buffer.layout, Fragment) else shared
            first = 0 if aim is None else int(np.ravel_multi_index(evaluate_all(aim.at, lane), shape))
            cells[lane].append((memory, begin + first))
            if a.access != "out":
                for at, cell in operand_elements(fn, a, lane, begin + first, words.get(name)):
                    memory.cells[cell,] = given[name][at].item()
    entered: list[int] = []
    perform(fn, words, cells, "ring", entered.append)
    assert set(entered) == set(lanes)
    out: dict[str, np.ndarray] = {}
    for n, a in enumerate(fn.meaning.args):
        if a.access == "in":
            continue
        out[a.buffer.name] = np.full(shape_of(fn, n), None)
        for lane in lanes:
            for at, cell in operand_elements(fn, a, lane, cells[lane][n][1], words.get(a.buffer.name)):
                out[a.buffer.name][at] = cells[lane][n][0].cells[cell,]
    return out


@pytest.mark.parametrize("name", FOUND)
def test_an_instruction_does_what_its_nest_means(name: str) -> None:
    fn = find_instruction(name)
    assert fn is not None
    rng = np.random.default_rng(0)
    given = {
        a.buffer.name: rng.integers(0, 9, shape_of(fn, n)).astype(a.buffer.dtype.numpy)
        for n, a in enumerate(fn.meaning.args)
    }
    read = {a.buffer.name: given[a.buffer.name].copy() for a in fn.meaning.args if a.access != "out"}
    want = lp.interpret(fn.meaning, read, {}, domain="ring")
    for begin in (0, 64):
        got = run(fn, {k: v.astype(np.int64) for k, v in given.items()}, begin)
        assert got.keys() == want.keys()
        for k, x in want.items():
            assert (got[k] == x).all()


def test_what_nothing_has_written_is_told() -> None:
    fn = INSTRUCTIONS["dp4a"]
    cells = [[(Cells((8,)), 0) for _ in fn.meaning.args]]
    for (memory, _), written in zip(cells[0], (4, 3, 1), strict=True):
        memory.cells |= {(n,): 1 for n in range(written)}
    with pytest.raises(lp.InterpretError, match=r"reads B\[3\], which nothing has written"):
        perform(fn, {}, cells, "ring", lambda _: None)


@settings(max_examples=12)
@given(st.integers(-5, 9), st.integers(-40, 40), st.sampled_from(["tma_load_8x32_f32", "tma_store_8x32_f32"]),
       st.sampled_from([0, 128]))  # fmt: skip
def test_a_box_is_cut_off_where_its_array_ends(row: int, column: int, name: str, span: int) -> None:
    """What is outside is 0 where it is loaded, and is not stored; rows of 128 bytes are swizzled on the way."""
    fn = find_instruction(name)
    assert fn is not None
    assert fn.boxed is not None
    array, tile = Cells((6, 40)), Cells((256,))
    cells = [[(array if a.buffer.name == fn.boxed[0] else tile, 0) for a in fn.meaning.args]]
    # 16 bytes of a row of 128 are exchanged by the row (CUDA, driver API, CU_TENSOR_MAP_SWIZZLE_128B)
    place = {(r, c): r * 32 + ((c // 4 ^ r % 8) * 4 + c % 4 if span else c) for r in range(8) for c in range(32)}
    loads = name.startswith("tma_load")
    if loads:
        array.cells |= {at: 1 + at[0] * 40 + at[1] for at in np.ndindex(6, 40)}
    else:
        tile.cells |= {(n,): 1 + n for n in range(256)}
    perform(fn, {}, cells, "ring", lambda _: None, {fn.boxed[0]: BoxAt((row, column), (8, 32), span)})
    for (r, c), n in place.items():
        there = (row + r, column + c)
        inside = 0 <= there[0] < 6 and 0 <= there[1] < 40
        if loads:
            assert tile.cells[n,] == (array.cells[there] if inside else 0)
        else:
            assert array.cells.get(there) == (1 + n if inside else None)


@settings(max_examples=30)
@given(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3), st.sampled_from([1, 2, 4, 8, 16]))
def test_a_run_is_so_many_elements_in_whole_rows(shape: list[int], run: int) -> None:
    if run <= np.prod(shape):
        tile = elements_per_run(tuple(shape), run)
        assert np.prod(tile) == run
        assert all(t <= s for t, s in zip(tile, shape, strict=True))
        flat = [np.ravel_multi_index(at, shape) for at in np.ndindex(*tile)]
        assert flat == [*range(run)]


def test_elements_of_a_run_lie_in_the_order_that_is_given() -> None:
    n = Var(NUMBER)
    assert in_memory_order(OperandAddress((Int(0), Int(0)), 6, (n % 2, n // 2))) == [
        (0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2),
    ]  # fmt: skip
