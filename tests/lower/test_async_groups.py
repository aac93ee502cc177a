"""How long an asynchronous group may be pending follows from when what it touches is written again."""

import pytest

from loopir.analysis.dependence.access import statements_of
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import leaf_paths
from loopir.lower.gpu.asynchronous.async_groups import iterations_until_write

RING = """\
def f(n: "size", A: "float32[n]", B: "out float32[n]"):
    with alloc("float32[{size}]") as ring:
        for i in range(n):
            B[i] = ring[i % {size}]
            ring[(i + {ahead}) % {size}] = A[i]
"""


@pytest.mark.parametrize(("size", "ahead"), [(1, 0), (3, 0), (3, 1), (3, 2), (4, 1), (4, 5)])
def test_a_slot_of_a_ring_is_written_again_when_its_turn_comes(size: int, ahead: int) -> None:
    func = parse(RING.format(size=size, ahead=ahead))
    by_label = {s.label: s for s in statements_of(func)}
    read, write = leaf_paths(func.body)
    assert [*iterations_until_write(func, by_label, (read, write), "i", ())] == [-ahead % size]
    assert not [*iterations_until_write(func, by_label, (write, read), "i", ())]
