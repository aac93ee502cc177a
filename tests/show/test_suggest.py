"""What is suggested is legal, runs when pasted, and is the better the more a person would like it."""

import pytest

import loopir as lp
import schedules
from loopir.schedule.core.find import all_buffers
from loopir.show.estimate import CPU, GPU, estimate


def product(n: object = 1024) -> lp.Schedule:
    A, B = (lp.placeholder((n, n), "float32", name=x) for x in "AB")
    return lp.Schedule(lp.relu(A @ B))


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("n", [1024, "n"])
def test_calls_can_be_pasted_and_do_what_they_say(n: object, target: str) -> None:
    s = product(lp.symbol(n) if isinstance(n, str) else n)
    found = s.suggest(6, target)
    assert found
    speeds = [x.speedup for x in found]
    assert speeds == sorted(speeds, reverse=True)
    assert all(x > 1 for x in speeds)
    for suggestion in found:
        assert eval(suggestion.call, {"s": s}) == suggestion.schedule
        assert str(suggestion).startswith(suggestion.call)


def test_the_next_steps_lead_to_lanes_and_cores() -> None:
    s = product()
    for _ in range(4):
        found = s.suggest(1)
        if not found:
            break
        s = found[0].schedule
    kinds = {s.loop(x).kind for x in s.loops(s.stages[0])}
    assert {"vectorize", "parallel"} <= kinds


def test_estimates_tell_what_people_know() -> None:
    s = product()
    rows, columns, inner = s.loops(s.stages[0])
    base = estimate(s.func, {}, CPU).seconds
    assert estimate(s.parallel(rows).func, {}, CPU).seconds < base
    assert estimate(s.tile(rows, columns, 64, 64).func, {}, CPU).bytes < estimate(s.func, {}, CPU).bytes
    strided = s.reorder(columns, inner, rows)  # along columns of the result, and of an operand
    assert estimate(strided.func, {}, CPU).seconds >= base


def test_a_target_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="llvm or cuda"):
        product().suggest(target="tpu")


def test_where_nothing_helps_it_says_so() -> None:
    s = lp.Schedule(lp.parse("def f(a: 'inout float32[4]'):\n    a[0] = a[1]\n"))
    assert not s.suggest()
    assert "no move" in str(s.suggest())


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
