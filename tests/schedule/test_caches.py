"""Memory as a choice: scopes that would split one memory in two are refused, whichever step comes last."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from meaning import assert_same

import loopir.intrinsics  # noqa: F401
from loopir.errors import ScheduleError
from loopir.interp.interpret import interpret
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.schedule.core.trace import Step
from loopir.testing.generate.strategies import arguments, funcs, sizes


def every_step(s: Schedule) -> Iterator[Step]:
    """Every copy that could be asked for: each stage, each buffer, each loop."""
    for stage in s.stages:
        for at in (None, *s.loops(stage)):
            yield Step("cache_write", (stage, "local"), (("at", at),))
            for b in s.buffers:
                yield Step("cache_read", (stage, b, "local"), (("at", at),))
    for some in (s.stages, *pairwise(s.stages)):
        for at in (None, *s.loops(some[0])):
            yield from (Step("cache_read", (some, b, "local"), (("at", at),)) for b in s.buffers)
    for b in s.buffers:
        yield Step("set_scope", (b, "local"))
        for loop in s.loops():
            yield Step("double_buffer", (b, loop))
            yield Step("privatize", (b, loop))
        for other in s.buffers:
            yield Step("reuse", (b, other))
    for stage in s.stages:
        yield Step("pad", (stage,))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_copies_keep_the_meaning_of_random_programs(data: st.DataObject) -> None:
    func = data.draw(funcs())
    values = data.draw(sizes(func))
    arrays = data.draw(arguments(func, values))
    want = interpret(func, arrays, values, domain="ring")
    s = Schedule(func)
    for _ in range(data.draw(st.integers(1, 3))):
        step = data.draw(st.sampled_from([*every_step(s)] or [Step("set_scope", ("none", "local"))]))
        with suppress(ScheduleError):
            s = s.apply(step)
    got = interpret(s.func, arrays, values, domain="ring")
    for name, x in want.items():
        assert np.array_equal(got[name], x), f"{values}\n{func}\nbecame\n{s}\nby {s.trace}"
    assert parse(str(s)) == s.func


def test_one_copy_for_stages_of_which_the_first_stands_outside_the_allocation_is_refused() -> None:
    s = Schedule(
        parse("""
def f(B: "float32[]", Y: "out float32[]"):
    Y[()]: "first" = B[()]
    with alloc("float32[]") as T:
        T[()] = B[()]
        Y[()]: "second" = T[()]
""")
    )
    for stages in (("first", "second"), ("first", "T", "second")):
        with pytest.raises(ScheduleError, match="stand in the allocation of T"):
            s.cache_read(stages, "T", "local")


MATMUL = """
def matmul(n: "size", m: "size", A: "float32[n, 5]", B: "float32[5, m]", C: "out float32[n, m]"):
    for i in range(n):
        for j in range(m):
            for k in range(5):
                C[i, j] = sum(A[i, k] * B[k, j], over=k, init=0.0)
"""


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_padded_tiles_keep_the_meaning_at_every_size(data: st.DataObject) -> None:
    base = Schedule(parse(MATMUL))
    s = base
    for loop in "ijk":
        s = s.split(loop, data.draw(st.integers(2, 4)))
    s = s.reorder("i_o", "j_o", "k_o", "i_i", "j_i", "k_i").cache_write(
        "C", "local", at=data.draw(st.sampled_from(["i_o", "j_o"]))
    )
    for b in data.draw(st.permutations("AB")):
        s = s.cache_read("C_local", b, "local", at=data.draw(st.sampled_from([None, "i_o", "j_o", "k_o"])))
    taken = 0
    for _ in range(2):
        loops = data.draw(st.lists(st.sampled_from(["i_i", "j_i", "k_i"]), unique=True))
        with suppress(ScheduleError):
            s = s.pad("C_local", *loops, value=data.draw(st.sampled_from([0.0, 0.0, 1.0])))
            taken += 1
    for n, m in ((0, 3), (1, 1), (4, 3), (5, 7)):
        assert_same(base.func, s.func, {"n": n, "m": m})


ROWS = """
def rows(n: "size", m: "size", A: "inout float32[n, m]", B: "out float32[n, m]", C: "out float32[n]"):
    for i in range(n):
        with alloc("float32[1]") as S:
            for k in range(m):
                S[0] = sum(A[i, k], over=k, init=0.0)
            if i < 3:
                for j in range(m - 1):
                    B[i, j] = A[i, j + 1] + S[0]
            C[i] = A[i, m - 1]
"""


def test_what_is_written_after_it_was_read_or_beside_it_is_copied() -> None:
    for old, new in (("C[i] = A[i, m - 1]", "A[i, 0] = S[0]"), ("if i < 3:", "A[i, 0] = S[0]\n            if i < 3:")):
        nest = parse(ROWS.replace(old, new))
        assert_same(nest, Schedule(nest).cache_read(("S", "B"), "A", "local").func, {"n": 5, "m": 4})


@pytest.mark.parametrize("at", [None, "i"])
def test_one_copy_for_several_stages(at: str | None) -> None:
    base = Schedule(parse(ROWS))
    s = base.cache_read(("S", "B", "C"), "A", "local", at=at)
    assert sum(" = A[" in line for line in str(s).splitlines()) == 1, "the row is read once, by the copy"
    assert_same(base.func, s.func, {"n": 5, "m": 4})
    assert_same(base.func, s.func, {"n": 2, "m": 1})


def test_what_is_written_between_the_readers_is_not_copied() -> None:
    nest = parse(ROWS.replace("C[i] = A[i, m - 1]", "if i + 1 < n:\n                A[i + 1, 0] = S[0]"))
    with pytest.raises(ScheduleError, match="A, which the copy would hold, is written by A in the same nest"):
        Schedule(nest).cache_read(("S", "B"), "A", "local")
    s = Schedule(nest).cache_read(("S", "B"), "A", "local", at="i")
    assert_same(nest, s.func, {"n": 5, "m": 4})
    nest = parse(ROWS.replace("if i < 3:", "A[i, 1] = S[0]\n            if i < 3:"))
    with pytest.raises(ScheduleError, match="A, which the copy would hold, is written by A in the same nest"):
        Schedule(nest).cache_read(("S", "B"), "A", "local", at="i")
    s = Schedule(nest).cache_read(("B", "C"), "A", "local", at="i")
    assert_same(nest, s.func, {"n": 5, "m": 4})


def padded(fold: str, value: str) -> Schedule:
    """A reduction over a copy, with guards that padding is to take away."""
    s = Schedule(
        parse(f"""
def f(n: "size", A: "float32[n]", S: "out float32[1]"):
    for k in range(n):
        S[0] = {fold}({value}, over=k, init=0.0)
""")
    )
    return s.split("k", 4).cache_read("S", "A", "local", at="k_o")


def test_a_maximum_is_padded_with_less_than_anything() -> None:
    s = padded("max", "A[k]")
    with pytest.raises(ScheduleError, match=r"fold 0.0 where .* does not hold, and the identity of max is -inf"):
        s.pad("S")
    assert_same(s.func, s.pad("S", value=float("-inf")).func, {"n": 6})


def test_what_a_function_makes_of_the_value_counts() -> None:
    s = padded("sum", "exp(A[k])")
    with pytest.raises(ScheduleError, match=r"fold 1.0 where"):
        s.pad("S")
    assert "select" in str(s.pad("S", value=float("-inf")))


def test_what_is_computed_too_much_is_not_seen() -> None:
    s = Schedule(parse(MATMUL)).split("i", 4).cache_read("C", "A", "local", at="i_o").cache_read("C", "B", "global")
    with pytest.raises(ScheduleError, match=r"C writes C\[i_o \* 4 \+ i_i, j\], which is not known to be inside C"):
        s.pad("C", "i_i")


def test_padding_writes_nothing_that_the_caller_sees() -> None:
    s = Schedule(
        parse("""
def f(n: "size", A: "float32[n]", X: "inout float32[1]"):
    for i in range(n):
        if i < 0:
            X[0] = A[i]
""")
    )
    with pytest.raises(ScheduleError, match=r"where i < 0 does not hold, X would write X, which the caller sees"):
        s.pad("X")


CHAIN = """
def f(n: "size", A: "float32[n]", B: "out float32[n]"):
    with alloc("float32[n]") as T, alloc("float32[n]") as U, alloc("float32[n]") as V:
        for i in range(n):
            T[i] = A[i] * 2.0
        for j in range(n):
            U[j] = T[n - 1 - j] + 1.0
        for k in range(n):
            V[k] = U[k] * 3.0
        for h in range(n):
            B[h] = V[n - 1 - h]
"""


def test_memory_that_is_no_longer_needed_is_used_again() -> None:
    s = Schedule(parse(CHAIN))
    once = s.reuse("V", "T")
    assert_same(s.func, once.func, {"n": 5})
    with pytest.raises(ScheduleError, match=r"writes U\[0\] where [TU]\[0\] would lie"):
        s.reuse("U", "T")
    assert_same(s.func, s.reuse("V", "U").func, {"n": 5})  # element by element: each is read before it is written


def test_memory_beside_is_joined() -> None:
    s = Schedule(
        parse("""
def f(A: "float32[8]", B: "out float32[8]", C: "out float32[8]"):
    with alloc("float32[8]") as T:
        for i in range(8):
            T[i] = A[i] * 2.0
        for j in range(8):
            B[j] = T[7 - j]
    with alloc("float32[6]") as U:
        for k in range(6):
            U[k] = A[k] * 3.0
        for h in range(8):
            C[h] = U[h % 6]
""")
    )
    assert str(s.reuse("U", "T")).count("alloc") == 1
    assert_same(s.func, s.reuse("U", "T").func, {})
    with pytest.raises(ScheduleError, match=r"T\[8\] does not fit into U\[6\]"):
        s.reuse("T", "U")


def test_a_private_intermediate_makes_a_loop_parallel() -> None:
    s = Schedule(
        parse("""
def f(A: "float32[8, 8]", B: "out float32[8]"):
    with alloc("float32[8]") as T:
        for i in range(8):
            for k in range(8):
                T[k] = A[i, k] * 2.0
            for j in range(8):
                B[i] = sum(T[j] * T[7 - j], over=j, init=0.0)
""")
    )
    assert s.why("parallel", "i") is not None
    assert s.privatize("T", "i").why("parallel", "i") is None


def test_what_other_threads_fold_into_is_not_cached() -> None:
    s = Schedule(
        parse("""
def f(A: "float32[8]", S: "inout float32[1]"):
    for i in parallel(8):
        S[0] = sum(A[i], atomic=True)
""")
    )
    with pytest.raises(ScheduleError, match="S is atomic"):
        s.cache_write("S", "local", at="i")


def test_what_concurrent_iterations_fold_is_not_cached_in_each() -> None:
    s = Schedule(
        parse("""
def f(A: "float32[4, 8]", S: "inout float32[4]"):
    for i in bind("blockIdx.x", 4):
        for k in range(8):
            S[i] = sum(A[i, k], over=k)
""")
    )
    s = s.bind("k", "threadIdx.x")
    with pytest.raises(ScheduleError, match="S folds over 'k', whose iterations run at once"):
        s.cache_write("S", "local", at="k")


def test_memory_around_is_not_beside() -> None:
    s = Schedule(
        parse("""
def f(A: "float32[8]", B: "out float32[8]"):
    with alloc("float32[8]") as T:
        for t in range(2):
            with alloc("float32[8]") as U:
                for i in range(8):
                    U[i] = A[i]
                for j in range(8):
                    T[j] = U[7 - j]
            for k in range(8):
                B[k] = T[k]
""")
    )
    with pytest.raises(ScheduleError, match="U is allocated neither around T nor before it"):
        s.reuse("T", "U")


def test_pad_drops_a_guard_that_always_holds_whatever_is_stored() -> None:
    s = Schedule(
        parse(
            """
def f(A: "float32[8]", B: "out float32[8]"):
    for i in range(2):
        for j in range(4):
            if i * 4 + j < 8:
                B[i * 4 + j] = A[(i * 4 + j) % 8]
"""
        )
    )
    made = s.pad("B")
    assert "if" not in str(made)
    assert_same(s.func, made.func, {})


def test_a_copy_that_converts_may_hold_elements_that_nothing_has_written() -> None:
    """Between the elements that are read lie others: a copy of them as they are is legal, and so is this."""
    s = Schedule(
        parse("""
def f(A: "float32[4]", B: "out float16[4]"):
    with alloc("float32[8]") as T:
        for i in range(4):
            T[i * 2] = A[i]
        for j in range(4):
            B[j] = float16(T[j * 2])
""")
    )
    for made in (s.cache_read("B", "T", "global", dtype="float16"), s.cache_read("B", "T", "global")):
        assert_same(s.func, made.func, {})
