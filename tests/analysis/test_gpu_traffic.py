"""What is counted of a lowered kernel: exact where every warp does the same, near where guards and triangles cut in."""

from __future__ import annotations

from typing import Any

import pytest

import loopir as lp
import schedules
from loopir.analysis.cost.gpu_traffic import SECTOR, KernelWork, launches, work
from loopir.ir.parser.parse import parse
from schedules.common.fusion import inlined
from schedules.cuda.matmul_mma import matmul_mma
from schedules.cuda.tiled_products import producers_of_right, stored_operands

N = 1 << 16


def counted(s: lp.Schedule, **sizes: int) -> list[KernelWork]:
    (func,) = lp.lower(s, "cuda")
    return [work(kernel, given) for kernel, given, _ in launches(func.body, sizes)]


def line(body: str, threads: int = 128, size: str = "n") -> lp.Schedule:
    """`body` of i, for x, y and z, a thread an iteration."""
    func = parse(
        f'def f(n: "size", x: "float32[2 * n]", z: "float32[8]", y: "out float32[2 * n]"):\n'
        f"    for i in range({size}):\n        {body}\n"
    )
    return lp.Schedule(func).split("i", threads).bind("i_o", "blockIdx.x").bind("i_i", "threadIdx.x")


def test_neighbours_take_what_they_ask_for() -> None:
    (w,) = counted(line("y[i] = x[i] * float32(2.0) + float32(1.0)"), n=N)
    assert (w.blocks, w.threads) == (N // 128, 128)
    assert w.plain == 2 * N
    assert w.issued == 2 * N  # a product and its sum are one, and the guard of a lane another
    for moved in w.of("global"):
        assert moved.read + moved.written == moved.taken == 4 * N


@pytest.mark.parametrize("step", [2, 4, 8])
def test_strides_take_whole_sectors(step: int) -> None:
    (w,) = counted(line(f"y[i] = x[i * {step} % (2 * n)]"), n=N)
    assert w.moved["x"].taken == step * w.moved["x"].read
    assert w.moved["y"].taken == w.moved["y"].written


@pytest.mark.parametrize("step", [1, 2, 4, 8])
def test_stores_between_others_write_sectors_in_part(step: int) -> None:
    """Each store by itself, as none waits for the next of the same thread."""
    func = parse(
        f'def f(x: "float32[{N}]", y: "out float32[{step * N}]"):\n'
        f'    for b in bind("blockIdx.x", {N // 128}):\n'
        '        for t in bind("threadIdx.x", 128):\n'
        f"            y[(b * 128 + t) * {step}] = x[b * 128 + t]\n"
    )
    (w,) = counted(lp.Schedule(func))
    assert w.torn == (0 if step == 1 else N * 4 * step // SECTOR)
    func = parse(
        f'def f(x: "float32[{N}]", y: "out float32[{N}]"):\n'
        f'    for b in bind("blockIdx.x", {N // 1024}):\n'
        '        for t in bind("threadIdx.x", 128):\n'
        "            for e in unroll(8):\n"
        "                y[b * 1024 + t * 8 + e] = x[b * 1024 + t * 8 + e]\n"
    )
    (apart,) = counted(lp.Schedule(func))
    assert apart.torn == N
    assert apart.moved["y"].taken == apart.moved["y"].written


@pytest.mark.parametrize(("step", "cycles"), [(1, 1), (25, 7), (32, 32)])
def test_lanes_apart_take_the_first_cache_as_long_as_its_lines_and_banks_do(step: int, cycles: int) -> None:
    """Of 25 lines it finds four in a cycle; of 32 that lie in one bank it gives one."""
    func = parse(
        f'def f(x: "float32[{N * step}]", y: "out float32[{N}]"):\n'
        f'    for b in bind("blockIdx.x", {N // 128}):\n'
        '        for t in bind("threadIdx.x", 128):\n'
        f"            y[b * 128 + t] = x[(b * 128 + t) * {step}]\n"
    )
    (w,) = counted(lp.Schedule(func))
    assert w.lines_waited == N // 32 * cycles
    assert w.lines == N // 32 * (cycles + 1)


def test_a_branch_is_left_around_what_is_much_to_compute() -> None:
    """A guarded quotient takes more than a quotient and a guard; a guarded shift does not."""

    def issued(body: str) -> float:
        (w,) = counted(line(body), n=N)
        return w.issued

    for by, more in ((8, 0), (7, 5)):
        guarded, simple = (issued(f"if i < {N - 5}:\n            y[i] = x[{i}]") for i in (f"i // {by}", "i"))
        assert guarded - simple - issued(f"y[i] = x[i // {by}]") + issued("y[i] = x[i]") == pytest.approx(more * N)


def test_narrow_elements_of_a_tile_are_waited_for_vector_by_vector() -> None:
    def waits(dtype: str) -> float:
        func = parse(
            f'def f(x: "{dtype}[128, 4096]", z: "{dtype}[128, 4096]", y: "out {dtype}[128, 4096]"):\n'
            '    for b in bind("blockIdx.x", 128):\n'
            f'        with alloc("{dtype}[2, 1024]", scope="shared") as t:\n'
            "            for k in range(4):\n"
            '                for i in bind("threadIdx.x", 128):\n'
            "                    for e in unroll(8):\n"
            "                        t[0, i * 8 + e] = x[b, k * 1024 + i * 8 + e]\n"
            "                    for e2 in unroll(8):\n"
            "                        t[1, i * 8 + e2] = z[b, k * 1024 + i * 8 + e2]\n"
            '                for j in bind("threadIdx.x", 128):\n'
            "                    for e3 in unroll(8):\n"
            "                        y[b, k * 1024 + j * 8 + e3] = t[0, 1016 - j * 8 + e3] + t[1, j * 8 + e3]\n"
        )
        (w,) = counted(lp.Schedule(func))
        return sum(read / (w.blocks * w.threads * ahead) for read, ahead in w.loads.values())

    assert waits("float32") == 4
    assert waits("float16") == 2 * waits("float32")


def test_what_unrolled_loops_do_not_change_is_loaded_once() -> None:
    source = """
def f(x: "float32[4096, 64]", z: "bfloat16[4096]", y: "out float32[4096, 64]"):
    for b in bind("blockIdx.x", 32):
        for t in bind("threadIdx.x", 128):
            for k in {loop}:
                y[b * 128 + t, k] = x[b * 128 + t, k] * float32(z[b * 128 + t])
"""
    read = [counted(lp.Schedule(lp.parse(source.format(loop=x))))[0].moved for x in ("range(64)", "unroll(64)")]
    assert [m["z"].read for m in read] == [4096 * 2 * 64, 4096 * 2]
    assert all(m["x"].read == 4096 * 64 * 4 for m in read)


def test_one_element_for_all_takes_one_sector_a_warp() -> None:
    (w,) = counted(line("y[i] = z[3]"), n=N)
    assert w.moved["z"].taken == N // 32 * SECTOR


def test_guards_are_met_as_often_as_they_hold() -> None:
    (w,) = counted(line("if i % 64 < 32:\n            y[i] = x[i]"), n=N)
    assert 0.35 * N < w.moved["y"].written / 4 < 0.65 * N


def test_an_unrolled_loop_without_iterations_moves_nothing() -> None:
    a = lp.placeholder((2, 0), "float32", name="a")
    s = schedules.auto(lp.Schedule(lp.sum(a, axis=1)), "cuda", arch="sm_90a")
    assert lp.predict(s, "cuda", arch="sm_90a").seconds < 1e-4
    (w,) = counted(line("for k in unroll(0):\n            y[i] = x[i + k]"), n=N)
    assert w.moved["y"].written == 0


def test_of_arrays_put_together_each_part_is_read_once() -> None:
    """Whatever is done with them then."""
    value = "select(i < n // 2, x[i], x[i + n])"
    for s in (line(f"y[i] = {value}"), line(f"y[i] = {value} * float32(2.0)")):
        (w,) = counted(s, n=N)
        assert w.moved["x"].read == pytest.approx(4 * N, rel=0.01)


def test_places_that_memory_tells_are_counted() -> None:
    x, ids = lp.placeholder((3, 8, 4), "float32", name="x"), lp.placeholder((7,), "int32", name="ids")
    y = lp.max(lp.take(x, ids, axis=2), axis=(1, 2))
    s = schedules.auto(lp.Schedule(y), "cuda", arch="sm_90a")
    assert lp.predict(s, "cuda", arch="sm_90a").seconds < 1e-4


def test_triangles_are_half_of_squares() -> None:
    func = parse(
        'def f(x: "float32[64, 64]", y: "out float32[4096]"):\n'
        "    for i in range(4096):\n"
        "        for k in range(i % 64):\n"
        "            y[i] = sum(x[k, i % 64], over=k, init=0.0)\n"
    )
    s = lp.Schedule(func).split("i", 32).bind("i_o", "blockIdx.x").bind("i_i", "threadIdx.x")
    (w,) = counted(s)
    assert 0.8 < w.moved["x"].read / 4 / (4096 * 31.5) < 1.2


def test_banks_that_are_met_twice_take_twice() -> None:
    def tile(width: int) -> KernelWork:
        func = parse(
            'def f(x: "float32[32, 32]", y: "out float32[32, 32]"):\n'
            f'    with alloc("float32[32, {width}]", scope="shared") as t:\n'
            '        for i in bind("threadIdx.y", 32):\n'
            '            for j in bind("threadIdx.x", 32):\n'
            "                t[i, j] = x[i, j]\n"
            '        for i2 in bind("threadIdx.y", 32):\n'
            '            for j2 in bind("threadIdx.x", 32):\n'
            "                y[i2, j2] = t[j2, i2]\n"
        )
        (w,) = counted(lp.Schedule(func))
        return w

    assert tile(33).moved["t"].read_taken == 32 * 128
    assert tile(32).moved["t"].read_taken == 32 * 32 * 128


def test_launches_of_the_host_are_counted() -> None:
    func = parse(
        'def f(t: "size", x: "inout float32[64]"):\n'
        "    for s in range(t):\n"
        '        for i in bind("threadIdx.x", 64):\n'
        "            x[i] = x[i] * float32(0.5)\n"
    )
    (lowered,) = lp.lower(lp.Schedule(func), "cuda")
    assert [times for *_, times in launches(lowered.body, {"t": 7})] == [7]


def test_what_a_loop_does_not_change_is_computed_before_it() -> None:
    def issued(value: str) -> float:
        func = parse(f"""
def f(x: "float32[4096, 64]", z: "float32[4096]", y: "out float32[4096, 64]"):
    for i in bind("threadIdx.x", 256):
        for j in range(64):
            y[i, j] = {value}
""")
        (w,) = counted(lp.Schedule(func))
        return w.issued / 256

    assert issued("x[i, j] + sqrt(z[i])") - issued("x[i, j] + z[i]") < 64
    assert issued("x[i, j] + sqrt(x[i, j])") - issued("x[i, j] + z[i]") >= 64


def test_products_of_warpgroups_move_boxes_and_are_counted_once() -> None:
    A, B = (lp.placeholder((1024, 1024), "bfloat16", name=x) for x in "AB")
    over = lp.reduce_axis(1024, name="k")
    terms = lambda i, j: lp.cast(A[i, over], "float32") * lp.cast(B[over, j], "float32")  # noqa: E731
    C = lp.compute((1024, 1024), lambda i, j: lp.sum(terms(i, j), axis=over), name="C").astype("bfloat16")
    s = schedules.auto(lp.Schedule(C), "cuda", arch="sm_90a")
    (w,) = counted(s)
    assert w.matrix == 0
    assert w.matrix_wide == pytest.approx(2 * 1024**3, rel=0.01)
    for name in "AB":
        assert w.moved[name].read >= 1024 * 1024 * 2
        assert w.moved[name].read <= 1024 * 1024 * 2 * 32


def test_loads_are_waited_for_beside_copies_that_are_not() -> None:
    """What a thread loads, converts and stores to shared memory is not as far ahead as what is copied beside it."""
    a, b = lp.placeholder((16, 2048), "bfloat16", name="a"), lp.placeholder((2048, 2048), "int8", name="b")
    program = lp.Schedule((a @ b.astype("bfloat16").T).astype("bfloat16"))
    (stage,) = (x for x in program.stages if program.reduced(x))
    tile: dict[str, Any] = {"block": (16, 32), "warps": (1, 2), "depth": 256, "stages": 4, "whole": False}
    with lp.scheduling_for(lp.machine("sm_90a")):
        program = stored_operands(inlined(program), stage)
        s = matmul_mma(program, stage, **tile, within=producers_of_right(program, stage), staged=False)
        (w,) = counted(s)
        assert w.copied == w.moved["a"].read_taken
        assert all(ahead <= 64 for _, ahead in w.loads.values())
        ways = s.report("sm_90a").kernels[0].seconds["latency"] / lp.machine().latency
        assert ways > 2048 / tile["depth"]  # no round begins before what it loads is there


def test_each_sum_of_products_is_an_instruction_however_alike_the_products_are() -> None:
    func = parse("""
def f(x: "float32[256]", y: "out float32[256, 8]"):
    for i in bind("threadIdx.x", 256):
        for k in unroll(8):
            y[i, k] = 0.0
        for j in unroll(4):
            for k in unroll(8):
                y[i, k] = sum(x[i] * x[i], over=j)
""")
    (w,) = counted(lp.Schedule(func))
    assert w.issued == 256 * 32


def test_vectors_of_shared_memory_take_a_pass_for_every_eight_lanes() -> None:
    """Lanes that want the same vector share it within a part of the warp only."""
    source = """
def f(A: "float32[128]", B: "out float32[32]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[128]", scope="shared") as s:
            for i in bind("threadIdx.x", 32):
                for v in vectorize(4):
                    s[i * 4 + v] = A[i * 4 + v]
            for t in bind("threadIdx.x", 32):
                with alloc("float32[4]", scope="local") as r:
                    for v in vectorize(4):
                        r[v] = s[t % {same} * 4 + v]
                    B[t] = r[0] + r[1] + r[2] + r[3]
"""
    for same in (1, 8, 32):
        (w,) = counted(lp.Schedule(lp.parse(source.format(same=same))))
        (shared,) = w.of("shared")
        assert shared.read_taken == 4 * 128, same
        assert w.shared_loads == 32


def test_elements_between_those_that_are_read_are_not_loaded() -> None:
    source = """
def f(A: "float32[256]", B: "out float32[32]"):
    for b in bind("blockIdx.x", 1):
        for t in bind("threadIdx.x", 32):
            with alloc("float32[9]", scope="local") as r:
                for x in unroll(9):
                    r[x] = A[t + x]
                B[t] = r[0] + r[8]
"""
    (w,) = counted(lp.Schedule(lp.parse(source)))
    assert w.moved["A"].read == pytest.approx(2 * 32 * 4)


@pytest.mark.parametrize(("rows", "reads"), [(1, 3), (4, 6)])
def test_rows_of_neighbouring_windows_are_loaded_once(rows: int, reads: int) -> None:
    """In vectors, too, each of which is copied to registers by a statement of its own; 64 rows in all."""
    source = """
def f(A: "float32[66, 256]", B: "out float32[64, 256]"):
    for b in bind("blockIdx.x", {blocks}):
        for t in bind("threadIdx.x", 64):
            for i in unroll({rows}):
                for v in vectorize(4):
                    B[b * {rows} + i, t * 4 + v] = (A[b * {rows} + i, t * 4 + v] + A[b * {rows} + i + 1, t * 4 + v]
                            + A[b * {rows} + i + 2, t * 4 + v])
"""
    (w,) = counted(lp.Schedule(lp.parse(source.format(rows=rows, blocks=64 // rows))))
    row = 256 * 4
    assert w.moved["A"].read == 64 // rows * reads * row
    assert w.moved["A"].read_taken == 64 // rows * reads * row


@pytest.mark.parametrize("scope", ["A", "r"])
def test_places_that_values_tell_are_counted_in_unrolled_loops(scope: str) -> None:
    """Of memory, and of a thread's own elements: no number of an index made of a value is known."""
    source = """
def f(A: "float32[256]", B: "out float32[256]"):
    for b in bind("blockIdx.x", 1):
        for t in bind("threadIdx.x", 32):
            with alloc("float32[256]", scope="local") as r:
                for i in unroll(256):
                    r[i] = A[i]
                for i in unroll(8):
                    B[t * 8 + i] = {scope}[min(max(opaque(int32(floor(float32(int32(i)) * 0.5))), 0), 255)] * 2.0
"""
    (w,) = counted(lp.Schedule(lp.parse(source.format(scope=scope))))
    assert w.moved["B"].written == 256 * 4
