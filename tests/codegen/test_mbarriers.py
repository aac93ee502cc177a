"""Named hardware barriers: each group of threads has one number of its own, and none is used twice."""

import re

import pytest
from hypothesis import given, strategies as st

import loopir as lp
from loopir.codegen.cuda.mbarriers import hardware_barriers, maps_of, turn_barrier
from loopir.ir.grammar import Barrier, Int, Kernel, Loop, Turn, Var


def kernel(threads: int, *sizes: int) -> Kernel:
    return Kernel("k", (Loop("t", Int(threads), "threadIdx.x", tuple(Barrier(n) for n in sizes)),))


def numbers(lines: list[str]) -> list[int]:
    return [int(n) for n in re.findall(r"bar\.sync (\d+),", "".join(lines))]


def test_all_threads_meet_at_the_barrier_of_the_block() -> None:
    assert hardware_barriers(0, kernel(64)) == ["__syncthreads();"]


@given(st.sets(st.sampled_from((32, 64, 128)), min_size=1), st.sampled_from((128, 256, 384)))
def test_each_group_has_a_number_of_its_own_from_1_on(sizes: set[int], threads: int) -> None:
    k = kernel(threads, *sizes)
    found = [n for size in sorted(sizes) for n in numbers(hardware_barriers(size, k))]
    assert found == [*range(1, 1 + sum(threads // size for size in sizes))]


@given(st.integers(2, 4))
def test_a_turn_of_a_known_group_is_one_barrier_and_of_another_a_choice(groups: int) -> None:
    known = [turn_barrier(Turn(Int(n), groups, True), str(n)) for n in range(groups)]
    assert len({*known}) == groups
    chosen = turn_barrier(Turn(Var("g"), groups, True), "g")
    assert all(line in chosen for line in known)


@pytest.mark.parametrize("source", ["pass", "A[0] = 1.0"])
def test_no_map_without_boxes(source: str) -> None:
    func = lp.parse(f'def f(A: "inout float32[4]"):\n    {source}\n')
    assert maps_of(Kernel("k", func.body)) == {}
