"""Copies that run ahead: the same result at every length, buffers in turn, and no race in the lowered form."""

import numpy as np
import pytest
from meaning import assert_same

import loopir as lp
from loopir.interp.interpret import interpret

NEST = """
def f(n: "size", A: "float32[n, 16]", B: "float32[n, 16]", C: "out float32[16]"):
    for b in bind("blockIdx.x", 1):
        for ko in range(n):
            with alloc("float32[16]", scope="shared") as As, alloc("float32[16]", scope="shared"{layout}) as Bs:
                for x in bind("threadIdx.x", 16):
                    As[x] = A[ko, x]
                for y in bind("threadIdx.x", 16):
                    Bs[y] = B[ko, y]
                for i in bind("threadIdx.x", 16):
                    C[i] = sum(As[i] * Bs[15 - i], over=ko, init=0.0)
"""


def nest(layout: str = "") -> lp.Schedule:
    return lp.Schedule(lp.parse(NEST.format(layout=layout)))


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("layout", ["", ", layout=strided(3)", ", layout=mapped(lambda x: 15 - x)"])
def test_the_result_is_the_same_at_every_length(stages: int, layout: str) -> None:
    s = nest(layout)
    t = s.pipeline("ko", stages=stages)
    assert lp.parse(str(t)) == t.func
    for n in range(stages + 3):
        assert_same(s.func, t.func, {"n": n})


@pytest.mark.parametrize("stages", [2, 3])
def test_the_lowered_form_has_no_race(stages: int) -> None:
    (lowered,) = lp.lower(nest().pipeline("ko", stages=stages), "cuda")
    rng = np.random.default_rng(0)
    for n in (1, 2, 5):
        a, b = rng.integers(0, 9, (2, n, 16))
        found = interpret(lowered, [a, b], domain="ring", seed=n)["C"]
        assert np.array_equal(found, (a * b[:, ::-1]).sum(axis=0))


def test_only_what_each_iteration_has_anew_runs_ahead() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", A: "float32[n, 8]", C: "out float32[n, 8]"):
    with alloc("float32[8]") as T:
        for i in range(n):
            for x in range(8):
                T[x] = A[i, x]
            for y in range(8):
                C[i, y] = T[y]
""")
    )
    assert "fills memory that each iteration has anew" in str(s.why("pipeline", "i", stages=2))


def test_a_buffer_that_the_rest_writes_is_not_filled_ahead() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", A: "float32[n, 8]", C: "out float32[n, 8]"):
    for i in range(n):
        with alloc("float32[8]", scope="shared") as T:
            for x in range(8):
                T[x] = A[i, x]
            for y in range(8):
                T[y] = T[y] * 2.0
                C[i, y] = T[y]
""")
    )
    assert "the rest of 'i' writes T, which the copies fill" in str(s.why("pipeline", "i", stages=2))


def test_a_bound_that_the_loop_writes_is_refused() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(m: "inout int32[1]", A: "float32[8, 8]", C: "inout float32[8, 8]"):
    for i in range(m[0]):
        with alloc("float32[8]") as T:
            for x in range(8):
                T[x] = A[i, x]
            for y in range(8):
                C[i, y] = T[y]
        m[0] = 3
""")
    )
    assert "which the loop writes" in str(s.why("pipeline", "i", stages=2))


AMONG = """
def f(n: "size", A: "float32[n, 48]", B: "float32[n, 8]", C: "out float32[12, 8]"):
    for b in bind("blockIdx.x", 1):
        for ko in range(n):
            with alloc("float32[48]", scope="shared") as As, alloc("float32[8]", scope="shared") as Bs:
                for t in range({tiles}):
                    for x in bind("threadIdx.x", {threads}):
                        As[t * {threads} + x] = A[ko, t * {threads} + x]
                for y in range(8):
                    Bs[y] = B[ko, y]
                for i in bind("threadIdx.x", 12):
                    for ki in range(4):
                        for j in range(8):
                            C[i, j] = sum(As[ki * 12 + i] * Bs[7 - j], over=(ko, ki), init=0.0)
"""


@pytest.mark.parametrize("stages", [2, 3])
def test_copies_may_be_made_among_the_iterations_of_a_loop(stages: int) -> None:
    s = lp.Schedule(lp.parse(AMONG.format(tiles=4, threads=12)))
    t = s.pipeline("ko", stages=stages, among="ki")
    (lowered,) = lp.lower(t, "cuda")
    rng = np.random.default_rng(0)
    for n in range(stages + 3):
        assert_same(s.func, t.func, {"n": n})
        args = {"A": rng.integers(0, 9, (n, 48)), "B": rng.integers(0, 9, (n, 8))}
        want = interpret(s.func, args, {"n": n}, domain="ring")["C"]
        assert np.array_equal(interpret(lowered, args, {"n": n}, domain="ring", seed=n)["C"], want)


def test_copies_are_not_made_in_a_loop_that_runs_again_and_again() -> None:
    s = lp.Schedule(lp.parse(AMONG.format(tiles=4, threads=12)))
    assert "no loop of constant length" in str(s.why("pipeline", "ko", stages=2, among="j"))


def test_other_threads_do_not_copy_among_them() -> None:
    s = lp.Schedule(lp.parse(AMONG.format(tiles=3, threads=16)))
    assert "are not of one length" in str(s.why("pipeline", "ko", stages=2, among="ki"))


ROWS = """
def f(n: "size", L: "int32[n]", A: "inout float32[n + {d}, 8]"):
    for i in range(n):
        with alloc("float32[8]", scope="shared") as T:
            for x in range(8):
                T[x] = A[i, x]
            for y in range(8):
                A[i + {d}, y] = T[7 - y]
"""


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_copies_may_read_what_iterations_write_that_they_do_not_run_before(stages: int) -> None:
    s = lp.Schedule(lp.parse(ROWS.format(d=3)))
    if stages == 4:
        with pytest.raises(
            lp.ScheduleError, match=r"A at \(i=0, y=0\) writes A\[3, 0\], which T at \(i=3, x=0\) reads"
        ):
            s.pipeline("i", stages=stages)
        s = s.pipeline("i", stages=stages, ahead=2)
    else:
        s = s.pipeline("i", stages=stages)
    for n in (0, 1, 5, 8):
        assert_same(lp.parse(ROWS.format(d=3)), s.func, {"n": n})


def test_what_decides_whether_there_is_a_copy_is_read_ahead_too() -> None:
    s = lp.Schedule(
        lp.parse(
            """
def f(n: "size", L: "inout int32[n + 1]", A: "float32[n]", B: "inout float32[n]"):
    for i in range(n):
        with alloc("float32[1]") as T:
            for x in range(L[i] % 2):
                T[x] = A[i]
            B[i] = 1.0
            L[i + 1] = 1
"""
        )
    )
    with pytest.raises(lp.ScheduleError, match="the copies read L, which the rest of 'i' writes"):
        s.pipeline("i", stages=2)


@pytest.mark.parametrize("scope", ["global", "local", "shared"])
def test_an_iteration_may_write_its_own_copy_where_none_copies_by_itself(scope: str) -> None:
    s = lp.Schedule(
        lp.parse(f"""
def f(n: "size", A: "float32[n, 4]", C: "out float32[n, 4]"):
    for i in range(n):
        with alloc("float32[4]", scope="{scope}") as T:
            for x in range(4):
                T[x] = A[i, x]
            for y in range(4):
                T[y] = T[y] * 2.0 + T[0]
            for z in range(4):
                C[i, z] = T[3 - z]
""")
    )
    error = s.why("pipeline", "i", stages=3)
    assert (error is not None) == (scope == "shared"), error
    for n in range(6) if error is None else ():
        for ahead in (1, 2):
            assert_same(s.func, s.pipeline("i", stages=3, ahead=ahead).func, {"n": n})
