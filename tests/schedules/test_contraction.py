"""Contractions are known by their structure; in tiles of threads they compile without spills."""

import pytest
from contractions import program

import loopir as lp
import schedules
from schedules.common.contraction import contraction


def test_contractions_are_known_by_their_structure() -> None:
    found = contraction(program(8, 8, 8, turned="B"), "C")
    assert found is not None
    assert (found.row, found.column, found.reduced, found.left.buffer, found.right.along) == ("i", "j", "k", "A", True)
    assert contraction(program(8, 8, 8).split("i", 2), "C") is None


@pytest.mark.parametrize("turned", ["", "A", "B"])
def test_it_compiles_for_a_gpu_without_spills(turned: str) -> None:
    compiled = lp.compile_source(schedules.matmul_gpu(program(256, 256, 256, turned=turned), "C"))
    (resources,) = compiled.resources.values()
    assert resources.spill_stores == 0
    assert "lp_u4" in compiled.source.partition("__global__")[2]


def test_what_is_no_contraction_is_refused() -> None:
    x = lp.placeholder((8, 8), "float32", name="X")
    s = lp.Schedule(lp.compute((8, 8), lambda i, j: x[i, j] * 2.0, name="Y"))
    with pytest.raises(lp.ScheduleError, match="Y is no contraction of two operands over one loop"):
        schedules.matmul_cpu(s, "Y")
