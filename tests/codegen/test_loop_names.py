"""Loops with long names get short ones, which nothing else in the kernel has."""

from __future__ import annotations

import loopir as lp
from loopir.codegen.cuda.loop_names import LONGEST, short_loop_names
from loopir.codegen.params import kernels_of
from loopir.ir.grammar import Loop
from loopir.ir.traverse.walk import statements


def _kernel(s: lp.Schedule):
    (lowered,) = lp.lower(s, "cuda")
    (kernel,) = kernels_of(lowered)
    return kernel


def test_blocks_and_threads_are_called_so_and_others_by_what_they_are_made_of() -> None:
    block = lp.placeholder((64, 64), name="block")
    s = lp.Schedule((block + 1.0).named("y"))
    i, j = s.loops("y")
    s = s.split(i, 8, names=("outer_rows", "inner_rows")).split(j, 8, names=("outer_columns", "inner_columns"))
    s = s.reorder("outer_rows", "outer_columns", "inner_rows", "inner_columns")
    s = s.bind("outer_rows", "blockIdx.x").bind("outer_columns", "threadIdx.x")
    kernel = _kernel(s)
    found = short_loop_names(kernel)
    loops = {x.var for x in statements(kernel.body) if isinstance(x, Loop)}
    assert set(found) == {x for x in loops if len(x) > LONGEST}
    assert found["outer_columns"] == "thread"
    assert found["outer_rows"] not in ("block", "y")  # an array has that name
    assert len({*found.values(), *(loops - set(found))}) == len(loops)
    for name in found.values():
        assert f" {name} = " in lp.compile_source(s).source


def test_warps_are_called_so_beside_lanes() -> None:
    x = lp.placeholder((64, 128), name="x")
    s = lp.Schedule((x + 1.0).named("y"))
    s = (
        s.split(s.loops("y")[1], 32, names=("part_of_a_row", "lane"))
        .bind("part_of_a_row", "warp.x")
        .bind("lane", "lane")
    )
    assert short_loop_names(_kernel(s)) == {"part_of_a_row": "warp"}
