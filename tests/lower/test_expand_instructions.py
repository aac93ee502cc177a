"""expand_instructions leaves the instructions that a target has, and the loops that the others mean."""

from meaning import assert_same

import loopir as lp
from loopir.ir.grammar import Alloc, InstrRegion, Prefetch
from loopir.ir.traverse.walk import statements
from loopir.lower.common.expand_instructions import expand_instructions
from loopir.lower.target import target

NEST = """
def f(A: "float32[16]", C: "out float32[16]"):
    for b in bind("blockIdx.x", 2):
        with alloc("float32[8]", scope="shared") as T:
            for t in range(2):
                prefetch(A[b * 8 + t * 4])
                with cp_async_f32():
                    for i in range(4):
                        T[t * 4 + i] = A[b * 8 + t * 4 + i]
            for j in range(8):
                C[b * 8 + j] = T[j]
"""


def test_what_a_target_lacks_is_loops_in_local_memory() -> None:
    func = lp.parse(NEST)
    made = expand_instructions(func, target("llvm"))
    assert not any(isinstance(s, InstrRegion) for s in statements(made.body))
    assert [s.buffer.scope for s in statements(made.body) if isinstance(s, Alloc)] == ["shared"]
    assert any(isinstance(s, Prefetch) for s in statements(made.body))
    assert_same(func, made, {})


def test_what_it_has_stays_and_hints_go() -> None:
    func = lp.parse(NEST)
    made = expand_instructions(func, target("cuda"))
    regions = [s for s in statements(func.body) if isinstance(s, InstrRegion)]
    assert [s for s in statements(made.body) if isinstance(s, InstrRegion)] != []
    assert len([s for s in statements(made.body) if isinstance(s, InstrRegion)]) == len(regions)
    assert not any(isinstance(s, Prefetch) for s in statements(made.body))


def test_a_fragment_that_no_lanes_share_is_local_memory() -> None:
    func = lp.parse(NEST.replace("shared", "fragment").replace("with cp_async_f32():", "if t < 2:"))
    for name in ("cuda", "llvm"):
        made = expand_instructions(func, target(name))
        assert [s.buffer.scope for s in statements(made.body) if isinstance(s, Alloc)] == ["local"]
        assert_same(func, made, {})
