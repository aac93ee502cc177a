"""Accesses that are not proved are tested in compiled code: nothing outside an array is touched."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
import loopir.intrinsics
import schedules
from loopir.ir.grammar import Func, ValueToIndex
from loopir.ir.traverse.walk import nodes
from loopir.lower.common.insert_bounds_checks import without_reset
from loopir.lower.pipeline import lower
from loopir.testing.generate.strategies import funcs

Array = np.ndarray[Any, Any]
ROOM = 64
"""Elements before and after an array that nothing may touch."""


def fenced(x: Array) -> tuple[Array, Array]:
    """A copy of `x` in the middle of memory of its own, and that memory."""
    whole = np.full(x.size + 2 * ROOM, 77, x.dtype)
    inner = whole[ROOM : ROOM + x.size].reshape(x.shape)
    inner[...] = x
    return inner, whole


def outcome(kernel: Any, arrays: dict[str, Array]) -> Any:
    """What a run wrote, "outside" if it raised; the fences around all arrays hold."""
    outs = [a.name for a in kernel.signature.outputs]
    held = {n: fenced(x) for n, x in arrays.items()}
    try:
        kernel(**{n: x for n, (x, _) in held.items() if n not in outs}, out=tuple(held[n][0] for n in outs))
    except IndexError:
        result = "outside"
    else:
        result = {n: x.tolist() for n, (x, _) in held.items()}
    for _, whole in held.values():
        assert (whole[:ROOM] == 77).all()
        assert (whole[-ROOM:] == 77).all()
    return result


GATHER = """
def f(n: "size", m: "size", A: "{t}[n, 3]", p: "inout {ix}[m]", B: "out {t}[m, 3]"):
    for z in range(m):
        for y in range(3):
            B[z, y] = 5
    for i in range(m):
        for j in range(3):
            {body}
"""
BODIES = {
    "a gather": "B[i, j] = A[p[i], j]",
    "a gather by both": "B[i, j] = A[p[i], p[i] - 1]",
    "a scatter": "B[p[i], j] = A[i % n, j] if n > 0 else 7",
    "a fold": "B[p[i], j] = sum(A[0, j] if n > 0 else 1)",
    "arithmetic": "B[i, j] = A[p[i] * 2 - j, j]",
    "a gather of a gather": "B[i, j] = A[p[p[i]], j]",
    "an arm": "B[i, j] = A[p[i], j] if i % 2 == 0 else 1",
    "a guard by hand": "if index(p[i]) >= 0 and index(p[i]) < n:\n                B[i, j] = A[p[i], j]",
    "a guard that reads": "if index(p[p[i]]) > 1:\n                B[i, j] = 6",
    "a guard undone": "if index(p[i]) >= 0 and index(p[i]) < n:\n                p[i] = 3\n                "
                      "B[i, j] = A[p[i], j]",
    "no memory": "B[i + 1, j] = 4",
    "below": "B[i, j] = A[i - 1, j]",
}  # fmt: skip


@cache
def kernels(body: str, ix: str) -> dict[str, Any]:
    """The interpreter's, and those of the schedules that are legal."""
    s = lp.Schedule(lp.parse(GATHER.format(body=BODIES[body], t="int16", ix=ix)))
    built = {"interpret": s.build("interpret"), "plain": s.build("llvm")}
    if s.why("vectorize", "j") is None:
        built["inner lanes"] = s.vectorize("j").build("llvm")
    if s.why("parallel", "i") is None:
        built["threads"] = s.parallel("i").build("llvm", threads=2)
        built["lanes"] = s.split("i", 4).vectorize("i_i").build("llvm")
    return built


@pytest.mark.parametrize("body", BODIES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_program_raises_exactly_where_the_interpreter_does(body: str, data: st.DataObject) -> None:
    ix = data.draw(st.sampled_from(["int32", "int64"]))
    n, m = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 6))
    entry = st.one_of(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.integers(-9, 100))
    p = np.array(data.draw(st.lists(entry, min_size=m, max_size=m)), ix)
    arrays = {"A": np.arange(3 * n, dtype=np.int16).reshape(n, 3), "p": p, "B": np.zeros((m, 3), np.int16)}
    want = outcome(kernels(body, ix)["interpret"], arrays)
    for name, kernel in kernels(body, ix).items():
        assert outcome(kernel, arrays) == want, name


RAGGED = """
def f(n: "size", m: "size", first: "int64[m]", length: "int64[m]", A: "float64[n]", B: "out float64[m]"):
    for i in range(m):
        for j in range(length[i]):
            B[i] = sum(A[first[i] + j], over=j, init=0.0)
"""


def test_a_length_from_memory_ends() -> None:
    """Also one of 2^62, as every index beyond the array is seen to be wrong."""
    s = lp.Schedule(lp.parse(RAGGED))
    a = np.arange(10.0)
    first, length = np.array([0, 3, 9, 20]), np.array([3, 7, 0, -5])
    for way in (s, s.parallel("i")):
        kernel = way.build("llvm")
        np.testing.assert_array_equal(kernel(first, length, a), [3, a[3:].sum(), 0, 0])
        for where, bad in ((1, 8), (3, 1), (0, 2**62)):
            wrong = length.copy()
            wrong[where] = bad
            with pytest.raises(IndexError, match=r"B reads A\[first\[i\] \+ j\] outside dimension 0"):
                kernel(first, wrong, a)


def test_the_message_says_who_what_and_where() -> None:
    s = lp.Schedule(lp.parse(GATHER.format(body=BODIES["a gather"], t="float32", ix="int32")))
    kernel = s.build("llvm")
    with pytest.raises(lp.BoundsError) as error:
        kernel(np.zeros((4, 3), np.float32), np.array([1, 3, -2], np.int32))
    assert str(error.value) == (
        "f: statement B_1 reads A[p[i], j] outside dimension 0, at index -2; indices run from 0 to 3. Nothing was "
        "touched there, but the results are not complete; built with checks=True, or for "
        '"interpret", the program tells the iteration'
    )
    with pytest.raises(IndexError, match="at index 1; no index is allowed, as the size is 0"):
        kernel(np.zeros((0, 3), np.float32), np.array([1], np.int32))
    kernel(np.zeros((4, 3), np.float32), np.array([1, 3, 2], np.int32))


def test_gathers_of_the_tensor_language_count_from_the_end_and_clamp_and_an_empty_dimension_is_an_error() -> None:
    """As in NumPy, where a gather of nothing from nothing is nothing."""
    n, m = lp.symbol("n", min=0), lp.symbol("m", min=0)
    x, ix = lp.placeholder((n,), "float32", name="x"), lp.placeholder((m,), "int64", name="ix")
    kernel = lp.Schedule(x[ix]).build("llvm")
    a = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(kernel(a, np.array([2, 9, -3, -9])), [2, 3, 1, 0])
    assert kernel(a[:0], np.array([], np.int64)).shape == (0,)
    with pytest.raises(IndexError, match="the size is 0"):
        kernel(a[:0], np.array([1]))
    known = lp.placeholder((lp.symbol("k"),), "float32", name="x")
    assert not words_of(lp.Schedule(known[ix]).func, "llvm")


def words_of(func: Func, target: str) -> tuple[Any, ...]:
    return lower(func, target).params[len(func.params) :]


@pytest.mark.parametrize("tiles", ["n // 16 * n + n // 8", "n * (n + 2) // 16", "n // 16 * n + n // 16 * 2"])
def test_tiles_of_a_multiple_are_inside_however_they_are_counted(tiles: str) -> None:
    func = lp.parse(f"""
        def f(n: "size", T: "out float32[n, n + 2]"):
            if n % 16 == 0 and 1 <= n:
                for p in range({tiles}):
                    for q in range(16):
                        T[(p * 16 + q) // (n + 2), (p * 16 + q) % (n + 2)] = 1.0
    """)
    assert not words_of(func, "llvm")


def test_a_factor_of_a_count_is_no_divisor_to_be_tested() -> None:
    """Loops of n and n - 1 iterations, fused: where there is one, both are positive."""
    func = lp.parse("""
        def f(n: "size", X: "inout float32[1, 1]"):
            for x in range(n * n - n):
                if x % (n - 1) - x // (n - 1) + n - 1 < 0:
                    X[0, 0] = 1.0
            for y in range(n * n + n):
                if y // (n + 1) < 3 and y % n < 5:
                    X[0, 0] = 2.0
    """)
    assert not words_of(func, "llvm")
    unsure = lp.parse("""
        def f(n: "size", m: "size", X: "inout float32[1, 1]"):
            for x in range((n - 3) * (m - 3)):
                if x // (n - 3) < 2:
                    X[0, 0] = 1.0
    """)
    assert words_of(unsure, "llvm")


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(funcs())
def test_programs_whose_accesses_are_inside_have_no_tests(target: str, func: Func) -> None:
    """However they are scheduled; but for those whose bounds or elements come from memory. What a thread of a GPU
    would allocate with a symbolic size is not lowered."""
    if any(isinstance(n, ValueToIndex) for n in nodes(func)):
        return
    s = schedules.cpu(lp.Schedule(func), lanes=4) if target == "llvm" else schedules.gpu(lp.Schedule(func), threads=4)
    for program in (func, s.func):
        try:
            words = words_of(program, target)
        except lp.LowerError as error:
            if "is allocated in a kernel, so its size has to be a constant" not in str(error):
                raise
        else:
            assert not words


def test_the_gpu_compiles_tests_and_indices_from_memory_are_wide() -> None:
    s = lp.Schedule(lp.parse(GATHER.format(body=BODIES["arithmetic"], t="float32", ix="int64")))
    s = s.bind("z", "blockIdx.x").bind("i", "blockIdx.x").bind("j", "threadIdx.x")
    module = lp.compile_source(s)
    assert module.cubin
    assert "long long* __restrict__ checks" in module.source
    assert "long long i" in module.source


VAST = [2**62 + 1, 2**62, 2**63 - 1, 3 << 61, 2**40, -(2**62), -(2**63)]


@pytest.mark.parametrize("t", ["int64", "uint64"])
@pytest.mark.parametrize("index", ["p[i] * 2", "p[i] * 2 + i + 1", "p[i] * n", "p[i] // 2 * 4", "p[i] + p[i]", "p[i]"])
def test_a_number_too_large_to_compute_with_is_outside(t: str, index: str) -> None:
    """64 bits would bring it inside again: 2 * (2^63 - 1) is -2 there."""
    s = lp.Schedule(
        lp.parse(f"""
def f(n: "size", m: "size", A: "float32[n]", p: "{t}[m]", B: "out float32[m]"):
    for i in range(m):
        B[i] = A[{index}]
""")
    )
    kernels = [s.build("llvm"), s.split("i", 4).vectorize("i_i").build("llvm")]
    a = np.arange(16, dtype=np.float32)
    for kernel in kernels:
        assert kernel(a, np.array([0, 0], t)).tolist() == s.build("interpret")(a, np.array([0, 0], t)).tolist()
        for bad in VAST if t == "int64" else [v for v in VAST if v > 0] + [2**64 - 1, 2**63]:
            arrays = {"A": a, "p": np.array([0, bad], t), "B": np.zeros(2, np.float32)}
            assert outcome(kernel, arrays) == "outside", bad


@pytest.mark.parametrize("t", ["int64", "uint64"])
def test_a_clamp_or_a_remainder_of_any_number_needs_no_test(t: str) -> None:
    n, m = lp.symbol("n"), lp.symbol("m")
    x, p = lp.placeholder((n,), "float32", name="x"), lp.placeholder((m,), t, name="p")
    a = np.arange(5, dtype=np.float32)
    p_values = np.array([0, 3, 9, 2**63 - 1, *([-1, -(2**63)] if t == "int64" else [2**63, 2**64 - 1])], t)
    clamped = lp.Schedule(x[p])
    assert not words_of(clamped.func, "llvm")
    want = a[[min(max(int(v) + 5 * int(v < 0), 0), 4) for v in p_values]]
    np.testing.assert_array_equal(clamped.build("llvm")(a, p_values), want)
    np.testing.assert_array_equal(clamped.build("interpret")(a, p_values), want)
    hashed = lp.Schedule(
        lp.parse(f"""
def f(n: "size", m: "size", A: "float32[n]", p: "{t}[m]", B: "out float32[m]"):
    assume(n >= 1)
    for i in range(m):
        B[i] = A[p[i] % n]
""")
    )
    want = a[[int(v) % 5 for v in p_values]]
    np.testing.assert_array_equal(hashed.build("interpret")(a, p_values), want)
    assert not words_of(hashed.func, "llvm")
    np.testing.assert_array_equal(hashed.build("llvm")(a, p_values), want)


@pytest.mark.parametrize(
    ("body", "p", "n", "fails"),
    [
        ("B[i] = A[i % n]", [1], 0, "statement B divides by n, which is 0; a divisor is at least 1"),
        ("B[i] = A[i % n]", [1], 3, None),
        ("B[i] = A[i % p[i]] if index(p[i]) <= n else 0.0", [3, 9, 1], 3, None),
        ("B[i] = A[i % p[i]] if index(p[i]) <= n else 0.0", [3, 9, 0], 3, r"divides by p\[i\], which is 0"),
        ("B[i] = A[i % p[i]] if index(p[i]) <= n else 0.0", [3, -4, 1], 3, r"divides by p\[i\], which is -4"),
        ("B[i] = float32(5 // (n - 2))", [1], 2, "divides by n - 2, which is 0"),
        ("for j in range(5 // (n - 2)):\n            B[i] = 1.0", [1], 1, "divides by n - 2, which is -1"),
        (
            "if i % (n - 2) == 0:\n            B[i] = 1.0\n        else:\n            B[i] = 0.0",
            [1],
            2,
            "divides by n - 2",
        ),
    ],
)
def test_a_divisor_is_positive(body: str, p: list[int], n: int, fails: str | None) -> None:
    s = lp.Schedule(
        lp.parse(f"""
def f(n: "size", m: "size", A: "float32[n]", p: "int32[m]", B: "out float32[m]"):
    for i in range(m):
        {body}
""")
    )
    arrays = np.arange(n, dtype=np.float32), np.array(p, np.int32)
    for way in (s, s.parallel("i")) if "for" not in body else (s,):
        if fails is None:
            np.testing.assert_array_equal(way.build("llvm")(*arrays), s.build("interpret")(*arrays))
            continue
        with pytest.raises(IndexError, match=fails):
            way.build("llvm")(*arrays)
        with pytest.raises(lp.BoundsError, match=r"divides by -?\d, and a divisor is at least 1"):
            s.build("interpret")(*arrays)


def test_the_host_divides_by_what_is_positive() -> None:
    """In the extents of loops that launch kernels, and in shapes."""
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", A: "float32[n]", B: "inout float32[8 // n]"):
    for t in range(8 // (n - 3)):
        for i in parallel(8 // n):
            B[i] = B[i] + 1.0
""")
    )
    kernel = s.build("llvm")
    b = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match="divides by n, which is 0; a divisor is at least 1"):
        kernel(np.zeros(0, np.float32), b)
    with pytest.raises(ValueError, match="divides by n - 3, which is -1"):
        kernel(np.zeros(2, np.float32), np.zeros(4, np.float32))
    kernel(np.zeros(4, np.float32), b)
    assert (b == 8).all()


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("target", ["cuda", "llvm"])
def test_sums_of_what_may_be_empty_have_no_tests(axis: int | None, target: str) -> None:
    """Fused loops divide by a size that may be 0, but not in an iteration; a loop of that many parts writes as many."""
    x = lp.placeholder((lp.symbol("n", min=0), lp.symbol("m", min=0)), "float32", name="x")
    s = lp.Schedule(x.sum(axis=axis).named("y"))
    spread = schedules.gpu(s)
    for made in (spread, s):
        assert not words_of(made.func, target)
    on_cpu, on_threads = schedules.cpu(s).build("llvm"), spread.build("interpret")
    for n, m in ((0, 3), (3, 0), (0, 0), (2, 5)):
        a = np.arange(n * m, dtype=np.float32).reshape(n, m)
        np.testing.assert_array_equal(on_cpu(a), a.sum(axis=axis))
        np.testing.assert_array_equal(on_threads(a), a.sum(axis=axis))


def test_a_divisor_that_a_guard_counts_to_is_positive_only_if_it_or_the_rest_is_not_negative() -> None:
    for divisor, guard, tests in (
        ("n", "i < m *", 0), ("(n - 5)", "i < m *", 0), ("(n - 5)", "i < (m - 3) *", 1), ("n", "1 <= m *", 0),
        ("n", "0 <= m *", 1), ("(n - 5)", "1 <= m *", 0), ("(n - 5)", "0 <= m *", 1), ("(n - 5)", "1 <= (m - 3) *", 1),
    ):  # fmt: skip
        s = lp.parse(f"""
def f(n: "size", m: "size", A: "float32[m]", B: "out float32[m]"):
    for i in range(m):
        if {guard} {divisor}:
            B[i] = A[i % {divisor}] if i % {divisor} < m else 0.0
        else:
            B[i] = 0.0
""")
        assert len(words_of(s, "llvm")) == tests


@pytest.mark.parametrize("target", ["cuda", "llvm"])
def test_no_kernel_fills_the_words_where_the_caller_does(target: str) -> None:
    """The interpreter runs the kernel that fills them; what is built leaves it out, and only that."""
    nest = lp.parse(GATHER.format(body=BODIES["a scatter"], t="int16", ix="int64"))
    whole = lower(nest, target)
    cut = without_reset(whole, len(nest.args))
    assert whole.body[1:] == cut.body
    assert len(lp.interpret(whole, [np.zeros((4, 3), np.int16), np.array([3], np.int64)])["checks"]) == 1
    assert without_reset(cut, len(nest.args)) == cut
    zeros = lp.parse('def f(x: "out int64[3]"):\n    for i in range(3):\n        x[i] = 0')
    assert without_reset(lower(zeros, target), 1) == lower(zeros, target)
