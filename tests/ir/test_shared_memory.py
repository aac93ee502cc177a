"""Shared memory of a kernel: buffers that are there together do not overlap, and those of two branches may."""

from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from loopir.errors import LowerError
from loopir.ir.dtypes import float16, float32, int8
from loopir.ir.grammar import Alloc, Barrier, Body, Buffer, Cmp, If, Int, Kernel, Loop, Var
from loopir.ir.layout.shared_memory import ALIGNMENT, bytes_of, elements_of, shared_layout

BUFFERS = st.lists(st.tuples(st.integers(1, 70), st.sampled_from((int8, float16, float32))), min_size=1, max_size=5)


def made(sizes: list[tuple[int, object]], prefix: str) -> list[Buffer]:
    return [Buffer(f"{prefix}{n}", (Int(size),), t, "shared") for n, (size, t) in enumerate(sizes)]  # type: ignore[arg-type]


def around(buffers: list[Buffer]) -> Body:
    body: Body = (Barrier(),)
    for b in reversed(buffers):
        body = (Alloc(b, body),)
    return body


@given(BUFFERS)
def test_buffers_that_are_there_together_are_apart_and_aligned(sizes: list[tuple[int, object]]) -> None:
    buffers = made(sizes, "S")
    offsets, total = shared_layout(Kernel("k", around(buffers)))
    assert all(offsets[b.name] % ALIGNMENT == 0 for b in buffers)
    assert total == max(offsets[b.name] + bytes_of(b) for b in buffers)
    for a, b in combinations(buffers, 2):
        first, second = sorted((a, b), key=lambda x: offsets[x.name])
        assert offsets[first.name] + bytes_of(first) <= offsets[second.name]


@given(BUFFERS, BUFFERS, st.booleans())
def test_branches_that_the_block_decides_begin_at_the_same_byte(one, other, of_block: bool) -> None:
    a, b = made(one, "A"), made(other, "B")
    test = If(Cmp("<", Var("x" if of_block else "t"), Int(1)), around(a), around(b))
    nest = Loop("x", Int(2), "blockIdx.x", (Loop("t", Int(32), "threadIdx.x", (test,)),))
    offsets, total = shared_layout(Kernel("k", (nest,)))
    ends = [max(offsets[x.name] + bytes_of(x) for x in side) for side in (a, b)]
    assert total == max(ends)
    assert (offsets["A0"] == offsets["B0"]) == of_block


def test_a_symbolic_size_is_refused() -> None:
    with pytest.raises(LowerError, match="its size has to be a constant"):
        elements_of(Buffer("S", (Var("n"),), float32, "shared"))
