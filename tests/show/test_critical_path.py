"""The critical path of a block: what waits for one another counts one after the other, what does not, once."""

from __future__ import annotations

import pytest

import loopir as lp
from loopir.analysis.cost.gpu_traffic import launches
from loopir.machines import DEFAULT
from loopir.show.critical_path import UNROLLED, critical_path

CYCLES, STEPS = DEFAULT.cycles, 4096


def path(body: str, given: str = 'x: "float32[4096]"', threads: int = 1, **sizes: int) -> float:
    """Cycles of one block of so many threads, each of which runs `body`, of t, and has s in its registers."""
    text = (
        f'def f({given}, y: "out float32[{threads}]"):\n'
        f'    for b in bind("blockIdx.x", 1):\n        for t in bind("threadIdx.x", {threads}):\n'
        '            with alloc("float32[8]", scope="local") as s:\n'
        f"{body}"
        "                y[t] = s[0]\n"
    )
    (func,) = lp.lower(lp.Schedule(lp.parse(text)), "cuda")
    kernel, at, _ = max(launches(func.body, sizes), key=lambda x: len(lp.text(x[0])))  # the other one sets a word to 0
    return critical_path(kernel, at, {"x": CYCLES.second_cache}, CYCLES)


START = "                for k in range(8):\n                    s[k] = 1.0\n"


def test_a_recurrence_takes_the_latency_of_each_step() -> None:
    step = "                for n in range(4096):\n                    s[0] = s[0] * 0.5 + 1.0\n"
    assert path(START + step) == pytest.approx(STEPS * CYCLES.arithmetic, rel=0.01)
    special = step.replace("s[0] * 0.5 + 1.0", "exp2(s[0])")
    assert path(START + special) > STEPS * (CYCLES.special + CYCLES.arithmetic)


def test_chains_that_do_not_meet_take_no_longer_than_one() -> None:
    several = (
        "                for n in range(4096):\n                    for k in unroll(8):\n"
        "                        s[k] = s[k] * 0.5 + 1.0\n"
    )
    assert path(START + several) == pytest.approx(STEPS * CYCLES.arithmetic, rel=0.01)
    through = several.replace("s[k] * 0.5", "s[(k + 7) % 8] * 0.5")
    assert path(START + through) == pytest.approx(8 * STEPS * CYCLES.arithmetic, rel=0.01)


def test_a_row_of_a_triangle_waits_for_the_one_before() -> None:
    """In order: the sums of a row begin when those of the row before are done, though few of their terms are new."""
    rows = (
        "                for n in range(400):\n                    s[n % 2] = 0.0\n"
        "                    for k in range(n):\n                        s[n % 2] += x[k] * s[(n + 1) % 2]\n"
    )
    assert path(START + rows) >= 400 * 400 / 2 * CYCLES.arithmetic


def test_loads_are_waited_for_once_in_the_iterations_that_a_compiler_unrolls() -> None:
    """A line of the first cache is 32 elements; in these every iteration comes to another."""
    lines = "                for n in range(128):\n                    s[0] += x[32 * n]\n"
    assert path(START + lines) == pytest.approx(128 / UNROLLED * CYCLES.second_cache, rel=0.2)
    near = lines.replace("32 * n", "n")
    assert path(START + near) < path(START + lines) / 3


def test_a_load_whose_place_was_loaded_is_waited_for_each_time() -> None:
    chase = (
        '                with alloc("int32[1]", scope="local") as at:\n                    at[0] = 0\n'
        "                    for n in range(512):\n                        at[0] = i[at[0]]\n"
        "                    s[0] = float32(at[0])\n"
    )
    assert path(START + chase, 'i: "int32[4096]"') >= 512 * CYCLES.first_cache


def test_lanes_that_fold_together_in_each_step_do_so_one_after_the_other() -> None:
    func = lp.parse(
        'def f(x: "float32[1024, 32]", y: "out float32[1024]"):\n'
        '    for b in bind("blockIdx.x", 1):\n        for n in range(1024):\n'
        '            for t in bind("threadIdx.x", 32):\n'
        "                y[n] = sum(x[n, t], over=t, init=0.0)\n"
    )
    (lowered,) = lp.lower(lp.Schedule(func), "cuda")
    ((kernel, at, _),) = launches(lowered.body, {})
    each = CYCLES.memory + 5 * (CYCLES.shuffle + CYCLES.arithmetic)
    assert critical_path(kernel, at, {"x": CYCLES.memory}, CYCLES) == pytest.approx(1024 * each, rel=0.05)


def test_what_has_no_loop_has_no_path() -> None:
    assert path("                s[0] = x[t]\n") == 0.0


def test_a_report_takes_no_less_than_the_path() -> None:
    """Of a recurrence along rows of one thread each; a warp more of such rows waits beside them."""
    text = 'def f(x: "float32[{n}, 4096]", y: "out float32[{n}, 4096]"):\n    for i in range({n}):\n'
    text += "        for t in range(4096):\n"
    text += "            y[i, t] = tanh(x[i, t] + select(1 <= t, y[i, t - 1], 0.0))\n"
    few, more = (lp.Schedule(lp.parse(text.format(n=n))).bind("i", "threadIdx.x").report() for n in (32, 64))
    assert few.seconds > few.kernels[0].seconds["dependent steps"] > 4096 * CYCLES.special / few.gpu.clock
    assert more.kernels[0].seconds["dependent steps"] == few.kernels[0].seconds["dependent steps"]
