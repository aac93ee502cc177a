"""outline_kernels puts every statement into a kernel, in order, and what a program computes stays the same."""

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

from loopir.ir.grammar import Alloc, Func, If, Kernel, Loop, Stmt
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import bodies, statements
from loopir.lower.common.outline_kernels import outline_kernels
from loopir.lower.target import target
from loopir.testing.generate.strategies import funcs, sizes


def on_the_host(func: Func) -> list[Stmt]:
    """The statements around the kernels."""
    found: list[Stmt] = []
    pending = list(func.body)
    while pending:
        s = pending.pop()
        found.append(s)
        if not isinstance(s, Kernel):
            pending += [x for body in bodies(s) for x in body]
    return found


@given(st.data(), st.sampled_from(["cuda", "llvm"]))
@settings(max_examples=20, deadline=None)
def test_random_programs_mean_the_same(data: st.DataObject, name: str) -> None:
    func = data.draw(funcs())
    made = outline_kernels(func, target(name))
    assert all(isinstance(s, Kernel | Loop | If | Alloc) for s in on_the_host(made))
    names = [s.name for s in statements(made.body) if isinstance(s, Kernel)]
    assert len(set(names)) == len(names)
    assert not any(
        isinstance(s, Kernel) for k in statements(made.body) if isinstance(k, Kernel) for s in statements(k.body)
    )
    assert_same(func, made, data.draw(sizes(func, 4)))


@pytest.mark.parametrize(("kinds", "host", "kernels"), [
    (("serial", "parallel"), ["t"], 1), (("parallel", "serial"), [], 1), (("serial", "serial"), [], 1),
    (("threadIdx.x", "parallel"), ["t"], 1),  # there are no threads of a block on a CPU
])  # fmt: skip
def test_serial_loops_around_concurrent_ones_stay_on_the_host(
    kinds: tuple[str, str], host: list[str], kernels: int
) -> None:
    heads = {"serial": "range(4)", "parallel": "parallel(4)", "threadIdx.x": 'bind("threadIdx.x", 4)'}
    func = parse(f"""
def f(a: "inout float32[4, 4]"):
    for t in {heads[kinds[0]]}:
        for i in {heads[kinds[1]]}:
            a[t, i] = a[t, i] + 1.0
""")
    made = outline_kernels(func, target("llvm"))
    assert [s.var for s in on_the_host(made) if isinstance(s, Loop)] == host
    assert sum(isinstance(s, Kernel) for s in statements(made.body)) == kernels
    assert_same(func, made, {})


def test_a_range_that_memory_bounds_is_no_range_of_the_host() -> None:
    func = parse("""
def f(n: "int32[1]", a: "inout float32[4]"):
    for t in range(min(n[0], 2)):
        for i in parallel(4):
            a[i] = a[i] + 1.0
""")
    made = outline_kernels(func, target("llvm"))
    assert not any(isinstance(s, Loop) for s in on_the_host(made))
    assert_same(func, made, {})


def test_stores_around_a_nest_of_one_block_join_its_launch() -> None:
    func = parse("""
def f(a: "float32[32]", s: "inout float32[1]"):
    s[0] = 0.0
    for i in bind("threadIdx.x", 32):
        if i == 0:
            s[0] = s[0] + a[i]
    s[0] = s[0] * 2.0
""")
    for name, count in (("cuda", 1), ("llvm", 3)):
        made = outline_kernels(func, target(name))
        assert sum(isinstance(s, Kernel) for s in statements(made.body)) == count
