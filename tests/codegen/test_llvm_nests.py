"""Whole nests on the CPU against the interpreter: reductions, gathers, arms not taken, sizes, several kernels."""

# ruff: noqa: F821, F722  (annotations of a nest)

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopir as lp
import loopir.intrinsics
from loopir.codegen.llvm.emit import emit
from loopir.ir.traverse.walk import loops

Array = np.ndarray[Any, Any]


def as_tuple(x: Any) -> tuple[Array, ...]:
    return x if isinstance(x, tuple) else (x,)


def assert_as_interpreted(s: lp.Schedule, *arrays: Array) -> None:
    """Exactly; "inout" arrays are compared, too."""
    given = [[x.copy() for x in arrays] for _ in range(2)]
    with np.errstate(all="ignore"):
        expected = as_tuple(s.build("interpret")(*given[0]))
    found = as_tuple(s.build("llvm", fma=False)(*given[1]))
    for one, other in zip((*found, *given[1]), (*expected, *given[0]), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(*(x.astype(np.float64) if "float" in x.dtype.name else x for x in (one, other)))


def whole(dtype: Any, *shape: int, seed: int = 0) -> Array:
    t = np.dtype(dtype)
    return np.random.default_rng(seed).integers(0 if t.kind in "ub" else -4, 2 if t.kind == "b" else 5, shape).astype(t)


MONOIDS = [
    *(("sum", t) for t in ("float32", "float16", "bfloat16", "int8", "uint64")), ("prod", "float64"), ("prod", "int16"),
    ("min", "float32"), ("max", "bfloat16"), ("max", "int32"), ("min", "uint8"), ("any", "bool"), ("all", "bool"),
    ("sum", "float64"), ("max", "uint64"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "t"), MONOIDS)
@pytest.mark.parametrize("over", ["j", "i"])
def test_reductions(name: str, t: str, over: str) -> None:
    """As the inner loop and as the outer one, with the other one in lanes."""
    free = "i" if over == "j" else "j"
    start = {"any": "False", "all": "True"}.get(name, "1")
    func = lp.parse(f"""
def f(n: "size", m: "size", x: "{t}[n, m]", y: "out {t}[{"n" if free == "i" else "m"}]"):
    for i in range(n):
        for j in range(m):
            y[{free}] = {name}(x[i, j], over={over}, init={start})
""")
    s = lp.Schedule(func)
    for n, m in ((5, 7), (0, 3), (3, 0)):
        x = whole(t, n, m) if name != "prod" else np.abs(whole(t, n, m))
        assert_as_interpreted(s, x)
        if (n, m) == (5, 7):
            assert_as_interpreted(s.split(free, 4).vectorize(f"{free}_i"), x)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("t", ["float32", "bfloat16", "int8", "uint64"])
def test_extremes_with_ties_and_nan(name: str, t: str) -> None:
    worst = {"float32": "inf", "bfloat16": "inf", "int8": "0", "uint64": "0"}[t]
    worst = f"-{worst}" if name == "argmax" and worst == "inf" else worst
    func = lp.parse(f"""
def f(n: "size", m: "size", x: "{t}[n, m]", v: "out {t}[n]", at: "out int64[n]"):
    for i in range(n):
        for j in range(m):
            v[i], at[i] = {name}(x[i, j], int64(j), over=j, init=({worst}, 9223372036854775807))
""")
    rows = np.random.default_rng(1).integers(0, 4, (9, 6)).astype(lp.placeholder((), t, name="x").dtype.numpy)
    if "float" in t:
        rows[2, 3:] = np.nan
        rows[5] = -np.inf
        rows[6, 0] = rows[6, 5] = np.nan
    s = lp.Schedule(func)
    assert_as_interpreted(s, rows)
    assert_as_interpreted(s.split("i", 4).vectorize("i_i"), rows)


LANES = """
def f(n: "size", k: "int32[n]", flag: "bool[n]", a: "float32[16]", y: "out float32[n]", z: "inout float32[2 * n]"):
    for i in range(n):
        {body}
"""
BODIES = {
    "gather": "y[i] = a[k[i]] * 2.0",
    "stride": "y[i] = a[(3 * i) % 16] + z[2 * i]",
    "backwards": "y[i] = z[n - 1 - i]",
    "the same for all": "y[i] = a[3] + a[n % 16]",
    "scatter": "y[i] = 0.0\n        z[2 * i + 1] = a[i % 16]",
    "an arm out of bounds": "y[i] = a[i] if i < 16 else -1.0",
    "an arm that memory guards": "y[i] = a[i - 1000] if False or flag[i] and i < 0 else z[i]",
    "a gather that is guarded": "y[i] = a[k[i] - 99] if flag[i] and k[i] > 98 else 1.0",
    "arms in arms": "y[i] = (a[i - 1] if i >= 1 else a[i]) if i < 16 else (z[i + 1] if i + 1 < 2 * n else 0.5)",
    "guards": "y[i] = 1.0\n        if flag[i]:\n            y[i] = a[k[i]]\n        if i % 3 == 1 and i < 16:\n"
              "            z[i] = a[i] + y[i]",
    "division of indices": "y[i] = a[(i // 3 + i % 5) % 16] * float32(i // 2)",
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("n", [1, 37])
def test_lanes_and_guards(name: str, n: int) -> None:
    func = lp.parse(LANES.format(body=BODIES[name]))
    arrays = [np.random.default_rng(0).integers(0, 16, n).astype(np.int32), whole(bool, n), whole("float32", 16)]
    z = whole("float32", 2 * n, seed=2)
    s = lp.Schedule(func)
    assert_as_interpreted(s, *arrays, z)
    assert_as_interpreted(s.split("i", 8).vectorize("i_i"), *arrays, z)
    if n == 37:
        assert_as_interpreted(s.split("i", 4).unroll("i_i"), *arrays, z)


def test_extents_from_memory() -> None:
    """Rows of a sparse matrix, each as long as memory says."""

    @lp.func
    def spmv(
        n: "size", m: "size", e: "size", start: "int32[n]", length: "int32[n]", column: "int32[e]",
        value: "float32[e]", x: "float32[m]", y: "out float32[n]",
    ):  # fmt: skip
        for i in range(n):
            for k in range(length[i]):
                y[i] = sum(value[start[i] + k] * x[column[start[i] + k]], over=k, init=0.0)

    s = lp.Schedule(spmv)
    start = np.array([0, 2, 2, 5], np.int32)
    length = np.array([2, 0, 3, 1], np.int32)
    column = np.array([1, 0, 2, 2, 1, 0], np.int32)
    arrays = [start, length, column, whole("float32", 6), whole("float32", 3, seed=1)]
    assert_as_interpreted(s, *arrays)
    assert_as_interpreted(s.parallel("i"), *arrays)


CHAIN = """
def f(n: "size", steps: "size", times: "int8[steps]", x: "inout float32[n]", s: "out float32[1]"):
    for t in range(steps):
        with alloc("float32[n]") as T:
            for i in range(n):
                T[i] = x[i] + 1.0
            for j in range(n - 2):
                x[j + 1] = T[j] - T[j + 1] + T[j + 2]
    with alloc("float32[3, n]") as U:
        for p in range(3):
            for q in range(n):
                U[p, q] = x[q] * float32(p)
        for k in range(n):
            s[0] = sum(U[2, k] - U[1, k], over=k, init=0.0)
"""


@pytest.mark.parametrize("n", [0, 1, 50])
@pytest.mark.parametrize("steps", [0, 3])
def test_several_kernels_and_memory_between(n: int, steps: int) -> None:
    s = lp.Schedule(lp.parse(CHAIN))
    arrays = [whole("int8", steps), whole("float32", n)]
    assert_as_interpreted(s, *arrays)
    assert_as_interpreted(s.parallel("i").parallel("j").parallel("p"), *arrays)
    tiled = s.split("i", 8).vectorize("i_i").parallel("i_o").split("q", 4).vectorize("q_i").reorder("q_o", "p")
    assert_as_interpreted(tiled, *arrays)
    assert [x.kind for x in loops(tiled.func.body)].count("vectorize") == 2


def test_fma_rounds_once_and_can_be_forbidden() -> None:
    func = lp.parse("""
def f(x: "float32[8]", y: "out float32[8]"):
    for i in range(8):
        y[i] = x[i] * x[i] - 1.0
""")
    x = np.full(8, 1 + 2.0**-12, np.float32)
    assert (lp.Schedule(func).build("llvm", fma=False)(x) == x * x - np.float32(1)).all()
    assert_as_interpreted(lp.Schedule(func), x)


CONDITIONS = ("i <= j and j < m + i", "i + 3 <= j", "P[j % 7] < 2", "j // n == 1 or j == i")
READS = (
    "A[i * 3 % n, {at}]", "A[i // n, {at}]", "A[P[i] % n, {at}]", "A[P[i], {at}]", "A[0, {at}] + float32(i // n)",
    "A[index(P[i] // Q[i]), {at}]", "(A[i % n, {at}] if P[i] < j else 0.5)",
)  # fmt: skip


@pytest.mark.parametrize("cond", CONDITIONS)
@pytest.mark.parametrize("read", READS)
def test_divisions_that_only_some_iterations_reach(cond: str, read: str) -> None:
    """LLVM's vectorizer takes such an address from the first lane, though the condition may leave that one out."""
    func = lp.parse(f"""
def f(n: "size", m: "size", A: "float32[n, m * 2 + 8]", P: "int32[7]", Q: "int32[7]", Y: "out float32[m * 2 + 1]"):
    assume(4 <= n)
    for k in range(m * 2 + 1):
        Y[k] = 0.5
    for i in range(min(m + 2, 7)):
        for j in range(m * 2 + 1):
            if {cond}:
                Y[j] = {read.format(at="j + i")}
""")
    rng = np.random.default_rng(0)
    p, q = (rng.integers(low, 4, 7).astype(np.int32) for low in (0, 1))
    assert_as_interpreted(lp.Schedule(func), whole("float32", 4, 82), p, q)


COPIES = """
def f(x: "float32[{n}, 8]", y: "inout float32[{n}, 8]"):
    for i in range({n}):
        with alloc("float32[8]", scope="local") as t:
            for a in vectorize(8):
                t[a] = x[i, a]
            for b in vectorize(4):
                if b + i < 5:
                    t[b + 2] = x[i, b] + t[b + 2]
            for r in unroll(7):
                y[i, r + 1] = y[i, r] + t[r] * x[i, 0]
            for c in vectorize(8):
                if c < i + 1:
                    y[i, c] += t[c]
"""


def test_copies_read_what_those_before_wrote() -> None:
    s = lp.Schedule(lp.parse(COPIES.format(n=6)))
    arrays = whole("float32", 6, 8), whole("float32", 6, 8, seed=1)
    expected = lp.interpret(s.func, [x.copy() for x in arrays])["y"]
    s.build("llvm", fma=False)(*arrays)
    np.testing.assert_array_equal(arrays[1], expected)


LOOPS = """
def f(x: "float32[64, 64]", y: "inout float32[64, 64]"):
    for i in range(64):
        for k in range(64):
            for j in {kind}(8):
                {body}
"""


@pytest.mark.parametrize(
    ("kind", "body", "left"),
    [
        ("vectorize", "y[i, k // 8 * 8 + j] = x[i, k // 8 * 8 + j]", False),
        ("unroll", "y[i, j] = x[k, j]", True),  # where it is stored is the same for all k
        ("vectorize", "y[k, j] = x[k, j] * x[i, 0]", True),  # a factor is
        ("serial", "y[k, j] = x[j, k]", True),
        ("unroll", "y[k, j] = x[j, k]", False),
    ],
)
def test_what_is_left_to_make_faster(kind: str, body: str, left: bool) -> None:
    func = lp.parse(LOOPS.format(kind="range" if kind == "serial" else kind, body=body))
    assert emit(lp.lower(lp.Schedule(func), "llvm")[0]).left is left


def test_a_copy_of_small_floats_keeps_every_bit() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    source = 'def f(x: "bfloat16[65536]", y: "out bfloat16[65536]"):\n    for i in range(65536):\n        y[i] = x[i]\n'
    found = lp.Schedule(lp.parse(source)).build("llvm")(x)
    assert np.array_equal(np.asarray(found).view(np.uint16), x.view(np.uint16))
