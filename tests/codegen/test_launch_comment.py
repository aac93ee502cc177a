"""What stands above a kernel: what it launches, what a block writes, and where it holds its data."""

from __future__ import annotations

import loopir as lp
import schedules
from loopir.codegen.cuda.launch_comment import with_registers


def test_the_comment_says_the_grid_the_tile_and_the_memories() -> None:
    x = lp.placeholder((512, 1024), name="x")
    made = schedules.gpu(lp.Schedule(lp.softmax(x, axis=-1).named("y")), arch="sm_90a")
    source = lp.compile_source(made).source
    above = [line for line in source.split("\n") if line.startswith("// ")]
    assert above[0].startswith("// compute_y_kernel: 512 blocks of ")
    assert above[0].endswith("registers a thread")
    assert above[1] == "// a block writes at most 1024 elements of y"
    assert above[2].startswith("// shared memory, static: ")
    assert any(line.startswith("// a thread holds ") for line in above)


def test_comments_are_as_short_as_lines_of_code() -> None:
    a, b = (lp.placeholder((256, 256), "bfloat16", name=name) for name in "ab")
    source = lp.compile_source(schedules.auto(lp.Schedule(a @ b), "cuda", arch="sm_80"), arch="sm_80").source
    assert max(map(len, source.split("\n"))) < 160


def test_a_grid_of_sizes_is_said_by_its_formula() -> None:
    x = lp.placeholder((lp.symbol("n"),), name="x")
    s = lp.Schedule((x + 1.0).named("y"))
    source = lp.compile_source(s.split("i", 128).bind("i_o", "blockIdx.x").bind("i_i", "threadIdx.x")).source
    assert "// compute_y_kernel: (n + 127) // 128 blocks of 128 threads" in source


def test_registers_go_to_the_kernel_that_has_them() -> None:
    source = "// one: 2 blocks of 32 threads\n// one_more: 2 blocks of 32 threads\n// one: no head\n"
    said = with_registers(source, {"one": 10, "one_more": 20})
    assert said == (
        "// one: 2 blocks of 32 threads, 10 registers a thread\n"
        "// one_more: 2 blocks of 32 threads, 20 registers a thread\n// one: no head\n"
    )
