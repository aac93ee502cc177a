"""Lanes, masks, memory and traps on the CPU: what only some lanes may touch, and what must never crash."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
from loopir.codegen.llvm import emit as emitter
from loopir.ir.grammar import Func
from loopir.ir.traverse.walk import free_vars
from loopir.testing.generate.strategies import arguments, funcs, sizes
from loopir.testing.oracles.guard_bytes import Fenced
from loopir.testing.oracles.ulp import distance

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def check(source: str | Func, *args: Any, **options: Any) -> None:
    """What the CPU gives for `source` is what the interpreter gives."""
    func = lp.parse(source) if isinstance(source, str) else source
    given = {a.buffer.name: x for a, x in zip((a for a in func.args if a.access != "out"), args, strict=True)}
    same_as_interpreter(lp.Schedule(func), given, **options)


def same_as_interpreter(s: lp.Schedule, given: dict[str, Any], sizes: Any = None, **options: Any) -> None:
    want = lp.interpret(s.func, given, sizes)
    got = {k: v.copy() for k, v in given.items()}
    results = s.build("llvm", fma=False, **options)(**got)
    outs = [a.buffer.name for a in s.func.args if a.access == "out"]
    got |= dict(zip(outs, results if isinstance(results, tuple) else (results,), strict=False))
    for name, x in want.items():
        assert (distance(got[name], x) == 0).all(), f"{name} in\n{s}"


def source_of(func: Func) -> str:
    """The LLVM IR before optimisation."""
    return emitter.emit(lp.lower(lp.Schedule(func), "llvm")[0]).source


def run(source: str, *args: Any, **options: Any) -> Any:
    return lp.Schedule(lp.parse(source)).build("llvm", **options)(*args)


@SETTINGS
@given(st.data())
def test_any_loop_that_may_be_lanes_runs_as_lanes(data: st.DataObject) -> None:
    func = data.draw(funcs(dtypes=("float32", "int32", "uint8", "bool", "float16"), max_depth=3))
    told = {v for a in func.args if a.access != "out" for d in a.buffer.shape for v in free_vars(d)}
    if set(func.sizes) - told:
        return
    values = data.draw(sizes(func))
    arrays = data.draw(arguments(func, values))
    s = lp.Schedule(func)
    for name in s.loops():
        if name not in s.loops() or data.draw(st.booleans()):
            continue
        if s.why("vectorize", name) is None:
            s = s.vectorize(name)
        elif s.why("split", name, 3) is None:
            t = s.split(name, 3)
            inner = [x for x in t.loops() if x not in s.loops()]
            s = next((t.vectorize(x) for x in inner if t.why("vectorize", x) is None), t)
    same_as_interpreter(s, arrays, values)


def test_a_condition_that_reads_memory_is_read_only_where_it_decides() -> None:
    source = """
def f(n: "size", i: "int32[n]", a: "float32[n]", o: "out float32[n]", p: "out float32[n]", q: "out int32[n]"):
    for j in {kind}({extent}):
        o[j] = 0.0
        if i[j] >= 0 and a[i[j]] > 0.5:
            o[j] = 1.0
    for k in {kind}({extent}):
        p[k] = select(i[k] < 0 or a[i[k]] > 0.5, 2.0, 3.0)
    for l in {kind}({extent}):
        q[l] = select(i[l] > 0, int32(l // i[l]), -1)
"""
    far = -(2**30)
    i = np.array([0, far, 3, far, 2, 1, far, far], np.int32)
    a = np.linspace(0, 1, 8, dtype=np.float32)
    for kind, extent in (("range", "n"), ("vectorize", "8")):
        spelt = source.format(kind=kind, extent=extent)
        check(spelt if extent == "n" else spelt.replace('n: "size", ', "").replace("[n]", "[8]"), i, a)


def test_what_is_the_same_in_all_lanes_is_read_once_and_only_if_a_lane_asks() -> None:
    source = """
def f(i: "int32[4]", c: "int32[2]", a: "float32[4]", o: "out float32[4]"):
    for j in vectorize(4):
        o[j] = 0.0
        if i[j] > 0:
            if c[0] < 3:
                for k in range(c[1]):
                    o[j] = o[j] + a[c[0] + k]
"""
    a = np.arange(4, dtype=np.float32)
    check(source, np.array([0, 1, 0, 1], np.int32), np.array([1, 2], np.int32), a)
    check(source, np.zeros(4, np.int32), np.array([-(2**30), 2], np.int32), a)


def test_memory_of_a_lane_is_its_own() -> None:
    a = np.arange(40, dtype=np.float32).reshape(8, 5)
    check(
        """
def f(a: "float32[8, 5]", i: "int32[8]", o: "out float32[8]"):
    for z in range(2):
        for j in vectorize(4):
            with alloc("float32[5]") as t, alloc("float32[1]") as u:
                for k in range(5):
                    t[k] = a[z * 4 + j, k] * 2.0
                u[0] = t[i[z * 4 + j]]
                if i[z * 4 + j] > 1:
                    u[0] = u[0] + t[0]
                o[z * 4 + j] = u[0] + t[4]
""",
        a,
        np.array([0, 4, 2, 3, 1, 0, 0, 4], np.int32),
    )


def test_lanes_become_vector_instructions() -> None:
    nest = lp.parse("""
def f(n: "size", a: "float32[n]", o: "out float32[n]"):
    for i in range(n):
        o[i] = a[i] * a[i]
""")
    ir = source_of(lp.Schedule(nest).split("i", 8).vectorize("i_i").func)
    assert "fmul contract <8 x float>" in ir
    assert "llvm.masked.load.v8f32" in ir
    assert "llvm.masked.store.v8f32" in ir


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("memory", ["4, 4]", "4, 4], strided(1, 9)", "300, 300]", "n, n]"])
def test_memory_in_a_kernel_on_the_stack_on_the_heap_and_laid_out(memory: str) -> None:
    shape, _, layout = memory.partition("]")
    layout = layout.replace(", ", ", layout=", 1)
    check(
        f"""
def f(n: "size", a: "float32[4, n]", b: "out float32[4, 4]"):
    assume(n >= 4)
    for z in parallel(4):
        with alloc("float32[{shape}]"{layout}) as t:
            for i in range(4):
                t[i, 3] = a[z, i]
            for j in range(4):
                b[z, j] = t[3 - j, 3]
""",
        np.arange(16, dtype=np.float32).reshape(4, 4),
        threads=2,
    )


def test_memory_that_is_not_to_be_had_is_an_error_and_no_crash() -> None:
    source = """
def f(n: "size", a: "float32[n]", b: "out float32[n]"):
    for z in parallel(1):
        with alloc("float32[n]") as u, alloc("float32[n, n, n, n, n, n, n, n]") as t:
            u[0] = 1.0
            for i in range(n):
                t[i, 0, 0, 0, 0, 0, 0, 0] = a[i] + u[0]
            for j in range(n):
                b[j] = t[n - 1 - j, 0, 0, 0, 0, 0, 0, 0]
"""
    with pytest.raises(MemoryError, match="does not fit in memory"):
        run(source, np.zeros(100, np.float32))
    for n in (300, 65536):  # the last wraps around to 0 bytes in 64 bits
        with pytest.raises(ValueError, match=rf"f is called with n={n}, and then an index may come to (about )?2\^"):
            run(source, np.zeros(n, np.float32))


def test_a_product_and_a_sum_are_rounded_once_or_twice_as_asked() -> None:
    source = """
def f(a: "float32[3]", o: "out float32[1]"):
    for i in range(1):
        o[i] = a[0] * a[1] + a[2]
"""
    a = np.array([1 + 2.0**-12, 1 + 2.0**-12, -1 - 2.0**-11], np.float32)
    assert run(source, a, fma=False) == 0.0
    assert run(source, a, fma=True) == 2.0**-24


@pytest.mark.parametrize("left", [1, 2])
@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("int64", "int32"), ("int64", "int16"), ("uint64", "int8"), ("int32", "uint16"), ("int32", "int8"),
        ("int16", "int8"), ("float32", "bfloat16"), ("float32", "float16"), ("float64", "float8_e4m3fn"),
        ("int32", "bool"),
    ],
)  # fmt: skip
def test_elements_that_are_cut_short_are_stored_as_what_they_are(source: str, to: str, lanes: int, left: int) -> None:
    """A vector of which one lane is left: LLVM stored all bits that there were before, over what lies behind."""
    columns = 2 * lanes + left
    x = lp.placeholder((5, columns), source, name="x")
    s = lp.Schedule(lp.compute((5, columns), lambda i, j: x[i, j].astype(to), name="y"))
    kernel = s.split("j", lanes).vectorize("j_i").unroll("j_o").build("llvm", threads=1)
    array = (np.arange(5 * columns) % 50 + 1).reshape(5, columns).astype(x.dtype.numpy)
    whole = Fenced(np.zeros((5, columns), lp.placeholder((1,), to, name="t").dtype.numpy))
    kernel(array, out=(whole.array,))
    assert not whole.broken
    assert np.array_equal(whole.array, array.astype(whole.array.dtype))


@pytest.mark.parametrize("kind", ["range", "vectorize", "unroll"])
@pytest.mark.parametrize("index", ["n // j", "n % j", "n // (j - 3)", "n // (j * 2) + j"])
def test_a_divisor_that_is_0_where_nothing_asks_divides_nothing(kind: str, index: str) -> None:
    """LLVM takes a vector with a lane that is divided by 0 for one that never is made, and all it leads to with it."""
    func = lp.parse(f"""
def f(n: "size", A: "int32[n + 8]", B: "inout int32[8]"):
    for k in range(n):
        for j in {kind}(8):
            if 4 <= j:
                B[j] = B[j] + A[j] + int32({index})
            if 3 < j:
                B[j] = A[({index}) % 8] - B[j]
""")
    for n in (0, 1, 7):
        check(func, np.arange(n + 8, dtype=np.int32), np.arange(8, dtype=np.int32))


BOTH_SIDES = """
def f(A: "float32[64]", B: "float32[64]", C: "out float32[64]"):
    for io in range(4):
        for ii in vectorize(16):
            C[io * 16 + ii] = select(A[io * 16 + ii] < B[io * 16 + ii], {}, {})
"""


@pytest.mark.parametrize(("one", "other"), [
    ("A[io * 16 + ii] * B[io * 16 + ii]", "A[io * 16 + ii] - B[io * 16 + ii]"),
    ("A[io * 16 + ii] * 2.0", "select(B[io * 16 + ii] < 0.0, A[io * 16 + ii], 1.0)"),
])  # fmt: skip
def test_what_the_condition_or_both_sides_load_needs_no_mask(one: str, other: str) -> None:
    func = lp.parse(BOTH_SIDES.format(one, other))
    assert "llvm.masked.load" not in source_of(func)
    check(func, *(np.random.default_rng(n).standard_normal(64).astype(np.float32) for n in range(2)))


@pytest.mark.parametrize(("rows", "masked"), [("n", 2), ("2", 0)])
def test_elements_apart_that_the_condition_loads_need_no_mask(rows: str, masked: int) -> None:
    func = lp.parse(f"""
def f({'n: "size", ' if rows == "n" else ""}A: "float32[{rows}, 16, 3]", C: "out float32[{rows}, 16]"):
    for io in range({rows}):
        for i in vectorize(16):
            C[io, i] = select(0.0 < A[io, i, 0] + A[io, i, 1], A[io, i, 0] / (A[io, i, 0] + A[io, i, 1]), A[io, i, 2])
""")
    assert source_of(func).count("@llvm.masked.load") == masked, "a call of what one side loads, and its declaration"
    check(func, np.random.default_rng(0).standard_normal((2, 16, 3)).astype(np.float32))


CHOSEN_BY_DATA = """
def f(a: "int32[64]", b: "int32[64]", o: "out int32[64]"):
    for i in range(64):
        o[i] = select({cond}, b[{at}] + 1, 0)
"""


@pytest.mark.parametrize(("cond", "at", "branches"), [
    ("a[i] > 3", "i", False), ("a[i] > 3", "i + a[0]", True), ("i < 63", "i + 1", True), ("i < 63", "i", True),
    ("a[i] > 3 and i < 63", "i + 1", True),
])  # fmt: skip
def test_what_data_choose_of_elements_that_are_there_is_no_branch(cond: str, at: str, branches: bool) -> None:
    func = lp.parse(CHOSEN_BY_DATA.format(cond=cond, at=at))
    assert ("phi i32" in source_of(func)) is branches
    check(func, np.arange(64, dtype=np.int32) % 7 * (at != "i + a[0]"), np.arange(64, dtype=np.int32))


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_a_store_under_a_mask_where_all_lanes_have_stored_is_of_a_whole_vector(dtype: str) -> None:
    func = lp.parse(f"""
def f(x: "inout {dtype}[64]", v: "inout {dtype}[64]"):
    for io in range(4):
        for ii in vectorize(16):
            x[io * 16 + ii] = x[io * 16 + ii] + v[io * 16 + ii]
            if {dtype}(9) < x[io * 16 + ii]:
                x[io * 16 + ii] = {dtype}(20) - x[io * 16 + ii]
                v[io * 16 + ii] = {dtype}(0)
""")
    calls = [x for x in source_of(func).splitlines() if "call void @llvm.masked.store" in x]
    assert len(calls) == 1, "of v, which some lanes alone store to"
    check(func, *((np.arange(64) * n % 16).astype(dtype) for n in (1, 3)))


def test_both_sides_load_at_the_end_of_an_array() -> None:
    check("""
def f(m: "float32[32]", A: "float32[32]", C: "out float32[32]"):
    for io in range(2):
        for ii in vectorize(16):
            C[io * 16 + ii] = select(io * 16 + ii < 31, A[io * 16 + ii] + A[io * 16 + ii + 1], A[io * 16 + ii] - m[0])
""", *(np.arange(32, dtype=np.float32) + n for n in range(2)))  # fmt: skip


def test_lanes_that_a_select_leaves_out_are_not_computed_from_what_registers_hold() -> None:
    """Subnormal leftovers made such vectors many times slower; a test of data leaves no lane out for sure."""
    nest = lp.parse("""
def f(a: "float32[64, 4]", b: "float32[64]", out: "out float32[64, 8]"):
    for i in range(64):
        for j in vectorize(8):
            out[i, j] = select(j // 4 < 1, a[i, j % 4] + b[i], a[i, j % 4] * b[i])
""")
    kernel = lp.Schedule(nest).build("llvm")
    assert kernel.source.count("freeze <8 x float>") == 2
    a, b = np.random.default_rng(0).random((64, 4), np.float32), np.random.default_rng(1).random(64, np.float32)
    want = np.concatenate([a + b[:, None], a * b[:, None]], axis=1)
    assert np.array_equal(kernel(a, b), want)
    x = lp.placeholder((64,), "float32", name="x")
    relu = lp.Schedule(lp.where(x > 0.0, x * 2.0, 0.0)).split("i", 8).vectorize("i_i").build("llvm")
    assert "freeze" not in relu.source


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16", "uint8"])
@pytest.mark.parametrize("masked", [False, True])
def test_lanes_gather_words_at_places_that_memory_gives(dtype: str, masked: bool) -> None:
    guard = "            if i * 8 + j < 13:\n    " if masked else ""
    source = (
        f'def f(k: "int64[16]", x: "{dtype}[5]", y: "out {dtype}[16]"):\n'
        f"    for o in range(16):\n        y[o] = {dtype}(0)\n"
        f"    for i in range(2):\n        for j in vectorize(8):\n{guard}"
        "            y[i * 8 + j] = x[min(max(k[i * 8 + j], 0), 4)]\n"
    )
    x = np.arange(1, 6).astype(dtype)
    check(source, np.array([0, 4, -9, 99, *range(5), 3, 1, 2, 1 << 40, -(1 << 62), 7, 3]), x)
    at_once = "masked.gather" in source_of(lp.parse(source))
    assert at_once == (dtype in ("float32", "int32") or (masked and dtype == "float64"))
