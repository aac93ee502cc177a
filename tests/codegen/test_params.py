"""The parameters of a kernel are its free names, each once, integers before buffers."""

from hypothesis import given, settings, strategies as st

from loopir.codegen.params import kernels_of, params_of
from loopir.ir.grammar import Alloc, Buffer, Kernel, Loop, Var
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import nodes, statements
from loopir.lower.pipeline import lower
from loopir.testing.generate.strategies import funcs


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_what_is_free_in_random_kernels(data: st.DataObject) -> None:
    lowered = lower(data.draw(funcs()), "llvm")
    assert [k.name for k in kernels_of(lowered)] == [s.name for s in statements(lowered.body) if isinstance(s, Kernel)]
    for kernel in kernels_of(lowered):
        p = params_of(kernel)
        own = {s.var for s in statements(kernel.body) if isinstance(s, Loop)}
        made = {s.buffer.name for s in statements(kernel.body) if isinstance(s, Alloc)}
        assert len(set(p.names)) == len(p.names)
        assert {n.name for n in nodes(kernel) if isinstance(n, Var)} - own <= set(p.integers)
        assert own.isdisjoint(p.integers)
        assert {b.name for b in p.buffers} == {n.name for n in nodes(kernel) if isinstance(n, Buffer)} - made
        assert p.handed <= p.written


def kernel_of(body: str) -> Kernel:
    head = 'def f(n: "size", m: "size", a: "float32[n]", b: "inout float32[n]"):\n'
    func = parse(f'{head}    with kernel("k"):\n{body}')
    (kernel,) = kernels_of(func)
    return kernel


MEET = """
        for t in bind("threadIdx.x", 32):
            b[t] = a[t]
            barrier()
            b[31 - t] = {}
"""


def test_memory_that_threads_hand_on_at_a_barrier() -> None:
    p = params_of(kernel_of(MEET.format("b[t] * 2.0")))
    assert set(p.names) == {"a", "b"}
    assert p.written == {"b"}
    assert p.handed == {"b"}
    assert params_of(kernel_of(MEET.replace("            barrier()\n", "").format("1.0"))).handed == set()
