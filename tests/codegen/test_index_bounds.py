"""Indices are counted in 32 bits where they fit: bounds hold for every part of every index, and hosts ask for them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings

import loopir as lp
import schedules
from loopir.codegen.cuda.emit import emit
from loopir.codegen.host import python_index
from loopir.codegen.index_bounds import index_bounds
from loopir.ir.grammar import Body, Func, If, Index, Kernel, Loop
from loopir.ir.traverse.walk import bodies, free_vars, nodes, statements
from loopir.ir.verify.verify import evaluate
from loopir.testing.generate.index_values import index_values


@given(index_values())
@settings(max_examples=100, deadline=None)
def test_no_part_of_an_index_is_beyond_the_bounds(func: Func) -> None:
    kernel = Kernel("k", func.body)
    found = index_bounds(kernel, most=0)
    assert found is not None
    indices = {n for n in nodes(kernel) if isinstance(n, Index)}
    loops = [s for s in statements(func.body) if isinstance(s, Loop)]
    for size in (0, 1, 5) if func.sizes else (0,):
        sizes = dict.fromkeys(func.sizes, size)
        most = max((evaluate(b, dict(sizes)) for b in found), default=0)
        for values in product(*(range(evaluate(s.extent, dict(sizes))) for s in loops)):
            env = sizes | dict(zip([s.var for s in loops], values, strict=True))
            assert all(abs(evaluate(n, dict(env))) <= most for n in indices)


def source(s: lp.Schedule) -> str:
    (lowered,) = lp.lower(s, "cuda")
    return emit(lowered).source


def test_what_is_counted_beyond_31_bits_is_counted_in_64() -> None:
    """Also where no array is as large: a value, and a row that a guard speaks of."""
    small = lp.compute((1000,), lambda i: lp.cast(i * 1000, "int64"), name="y")
    large = lp.compute((100000,), lambda i: lp.cast(i * 100000, "int64"), name="y")
    for t, kind in ((small, "int"), (large, "long long")):
        assert f"const {kind} i" in source(lp.Schedule(t).bind("i", "blockIdx.x"))
    x = lp.placeholder((2**31 - 1,), "int8", name="x")
    for threads, kind in ((256, "int"), (1000, "long long")):  # blocks of 256 end at 2^31, others beyond
        guarded = lp.Schedule((x + 1).named("y")).split("i", threads)
        assert f"const {kind} i_o" in source(guarded.bind("i_o", "blockIdx.x").bind("i_i", "threadIdx.x"))


PROGRAMS = {
    "chain": lambda x: x * 2.0, "columns": lambda x: x.sum(axis=0), "rows": lambda x: x.sum(axis=1),
    "all": lambda x: x.sum(), "softmax": lp.softmax, "transpose": lambda x: x.T,
}  # fmt: skip


@cache
def for_all_sizes(name: str) -> Func:
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "float32", name="x")
    (lowered,) = lp.lower(schedules.gpu(lp.Schedule(PROGRAMS[name](x).named("y"))), "cuda")
    return lowered


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_sizes_that_are_not_known_the_host_asks(name: str) -> None:
    """Of up to 2^31 elements, but for a few rows or columns beside, indices are ints; of more never."""
    lowered = for_all_sizes(name)
    kernels = emit(lowered).kernels

    def fits(n: int, m: int) -> bool:
        scope = {"lp_max": max, "lp_min": min, "n": n, "m": m}
        return all(eval(python_index(b), scope) < 2**31 for k in kernels for b in k.within)

    assert fits(8192, 8192)
    assert fits(44000, 44000)  # 9 in 10 of 2^31
    assert fits(440000, 4400)
    assert not fits(50000, 50000)
    assert not fits(2**31, 2)
    assert all("int n" in str(k.params) or "'int', 'n'" in str(k.params) or not k.within for k in kernels)
    assert "int n" in emit(lowered).source or name == "all"
    assert "long long n" in emit(lowered, long=True).source or name == "all"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_ends_of_loops_in_parts_are_within_the_bounds(name: str) -> None:
    """Random points of kernels whose last blocks are loops of their own, at the first and last iterations above all."""
    lowered = for_all_sizes(name)
    rng = random.Random(0)
    for kernel in (k for k in statements(lowered.body) if isinstance(k, Kernel)):
        found = index_bounds(kernel, most=0)
        assert found is not None
        for n, m in ((0, 3), (1, 1), (63, 65), (300, 130), (5000, 7), (1, 70000), (2311, 1025)):
            sizes = {s: {"n": n, "m": m}[s] for s in lowered.sizes}
            most = max(evaluate(b, dict(sizes)) for b in found)
            for _ in range(12):
                assert max(_met(kernel.body, dict(sizes), rng), default=0) <= most


def _met(body: Body, env: dict[str, int], rng: random.Random) -> Iterator[int]:
    """How large indices are on a way through a nest: one iteration of each loop."""
    for s in body:
        inside = bodies(s)
        seen = [s.extent] if isinstance(s, Loop) else [s.cond] if isinstance(s, If) else [] if inside else [s]
        yield from (
            abs(evaluate(x, dict(env))) for y in seen for x in nodes(y) if isinstance(x, Index) if _known(x, env)
        )
        if isinstance(s, Loop):
            if (count := evaluate(s.extent, dict(env))) <= 0:
                continue
            env = env | {s.var: rng.choice((0, count - 1, rng.randrange(count)))}
        for inner in inside:
            yield from _met(inner, env, rng)


def _known(ix: Index, env: dict[str, int]) -> bool:
    return all(v in env for v in free_vars(ix))


def test_element_by_element_there_are_no_vectors_of_memory() -> None:
    x = lp.placeholder((8192,), "float32", name="x")
    (lowered,) = lp.lower(schedules.gpu(lp.Schedule((x + 1.0).named("y"))), "cuda")
    assert emit(lowered).kernels[0].wide
    other = emit(lowered, scalar=True)
    assert not other.kernels[0].wide
    assert "reinterpret_cast" not in other.source.partition("extern")[2]
