"""Estimates of a nest: bytes, flops and what people know of them."""

import loopir as lp
import schedules
from loopir.schedule.core.find import all_buffers
from loopir.show.estimate import CPU, GPU, estimate


def product(n: object = 1024) -> lp.Schedule:
    A, B = (lp.placeholder((n, n), "float32", name=x) for x in "AB")
    return lp.Schedule(lp.relu(A @ B))


def test_estimates_tell_what_people_know() -> None:
    s = product()
    rows, columns, inner = s.loops(s.stages[0])
    base = estimate(s.func, {}, CPU).seconds
    assert estimate(s.parallel(rows).func, {}, CPU).seconds < base
    assert estimate(s.tile(rows, columns, 64, 64).func, {}, CPU).bytes < estimate(s.func, {}, CPU).bytes
    strided = s.reorder(columns, inner, rows)  # along columns of the result, and of an operand
    assert estimate(strided.func, {}, CPU).seconds >= base


def test_what_lies_in_shared_memory_and_registers_is_not_counted_as_memory() -> None:
    """A tiled product on a GPU: each operand from memory once, as the L2 cache holds both, the result once."""
    s = schedules.epilogue(schedules.matmul_gpu(product(), "matmul"), "matmul")
    assert any(b.scope == "shared" for b in all_buffers(s.func))
    found = estimate(s.func, {}, GPU)
    assert found.bytes == 3 * 4 * 1024 * 1024
    assert found.seconds < 10 * s.report().seconds


def test_a_loop_that_an_access_does_not_name_does_not_move_it() -> None:
    """Under a layout that is no sum of strides, too, where other loops move it by steps that are not told."""
    s = schedules.epilogue(schedules.matmul_gpu(product(), "matmul"), "matmul")
    mapped = next(b.name for b in all_buffers(s.func) if b.layout is not None)
    (write,) = [t for stage in s.stages for t in s.accesses(stage) if t.buffer == mapped and t.write]
    outer = s.loops(mapped)[0]
    assert write.invariant(outer)
    assert not write.contiguous(outer)
