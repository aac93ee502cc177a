"""The interpreter reports what it must: seeded faults are told with the statement and the iteration."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
import loopir.intrinsics
from loopir.interp.interpret import trace
from loopir.interp.value_domains import Real
from loopir.ir.dtypes import ALL_DTYPES, DType
from loopir.ir.ops import REGISTRY

SHARED = """
def f(A: "float32[2, 4]", D: "out float32[2, 4]"):
    with kernel("k0"):
        for b in bind("blockIdx.x", 2):
            with alloc("float32[4]", scope="shared") as S:
                for t in bind("threadIdx.x", 4):
                    S[t] = A[b, t]
                    barrier()
                    D[b, t] = S[3 - t]
"""
A = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.mark.parametrize("seed", range(5))
def test_threads_meet_at_barriers_in_any_order(seed: int) -> None:
    assert (lp.interpret(lp.parse(SHARED), [A], seed=seed)["D"] == A[:, ::-1]).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("                    barrier()\n", "", "a race|nothing has written"),
        ("S[3 - t]", "S[4 - t]", r"S\[4\], which is out of bounds: the shape is \(4\)"),
        ("S[t] = A[b, t]", "S[0] = A[b, t]", r"S\[0\] .* a race"),
        ("D[b, t] = S[3 - t]", "D[0, t] = S[3 - t]", "in different blocks: a race"),
    ],
)
def test_faults_of_threads_are_told(old: str, new: str, message: str, seed: int) -> None:
    with pytest.raises(lp.InterpretError, match=message):
        lp.interpret(lp.parse(SHARED.replace(old, new)), [A], seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_a_barrier_that_some_threads_do_not_reach_is_told(seed: int) -> None:
    source = SHARED.replace("barrier()", "if t < 2:\n                        barrier()").replace("S[3 - t]", "S[t]")
    with pytest.raises(lp.InterpretError, match="does not reach: it diverges"):
        lp.interpret(lp.parse(source), [A], seed=seed)


def nest(body: str) -> lp.Func:
    return lp.parse(f'def f(n: "size", a: "float32[n]", b: "out float32[n]"):\n{body}')


def test_functions_of_zero_are_whole_numbers_in_the_ring_where_they_are() -> None:
    """What pads with zeros shows that a fold stays what it is by them."""
    text = """
def f(a: "float32[2]", s: "out float32[2]", e: "out float32[2]", h: "out float32[2]"):
    for i in range(2):
        s[i] = abs(a[i]) + sqrt(a[i]) + tanh(a[i])
        e[i] = exp(a[i]) + cos(a[i])
        h[i] = atan2(a[i], 3.0)
"""
    found = lp.interpret(lp.parse(text), [np.array([0, 5], np.uint32)], domain="ring")
    assert (found["s"][0], found["e"][0]) == (0, 2)
    assert not {0, 2, 3, 5} & {int(found["s"][1]), int(found["e"][1]), *map(int, found["h"])}


def test_a_sum_is_exact_in_the_ring_in_any_order() -> None:
    text = """
def f(a: "float32[3, 5]", s: "out float32[5]"):
    for i in range(3):
        for j in range(5):
            s[j] = sum(exp(a[i, j]) / 3.0, over=i, init=0.0)
"""
    s = lp.Schedule(lp.parse(text))
    a = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    want = lp.interpret(s.func, [a], domain="ring")["s"]
    assert (lp.interpret(s.reorder("j", "i").func, [a], domain="ring")["s"] == want).all()
    dropped = lp.parse(text.replace("range(3)", "range(2)"))
    assert (lp.interpret(dropped, [a], domain="ring")["s"] != want).all()


def test_a_trace_names_the_last_writers() -> None:
    func = lp.parse('def f(a: "inout float32[5]"):\n    for i in range(4):\n        a[i + 1] = a[i] + 1.0\n')
    found = trace(func, [np.zeros(5, np.float32)])
    assert found.reads["a", (0,)] == [None]
    assert found.reads["a", (2,)] == [("a", (1,))]


def test_a_reduction_over_nothing_is_its_initial_value() -> None:
    func = lp.parse(
        'def f(n: "size", a: "float32[n]", s: "out float32[1]"):\n'
        "    for k in range(n):\n        s[0] = sum(a[k], over=k, init=7.0)\n"
    )
    assert lp.interpret(func, [np.zeros(0, np.float32)])["s"] == 7


def test_arguments_that_do_not_fit_are_refused() -> None:
    func = nest("    for i in range(n):\n        b[i] = a[i]\n")
    with pytest.raises(ValueError, match="a has 1 dimensions, and the array has 2"):
        lp.interpret(func, [np.zeros((2, 2), np.float32)])
    with pytest.raises(ValueError, match="takes 1 arrays"):
        lp.interpret(func, [])


def deep(depth: int, innermost: list[str], around: list[str]) -> str:
    """A nest of `depth` loops of one iteration in `around`, the last of two, with `innermost` in it."""
    rows = [*around, *(f"for i{n} in range({1 + (n == depth - 1)}):" for n in range(depth))]
    lines = ["    " * (n + 1) + row for n, row in enumerate(rows)]
    lines += ["    " * (len(rows) + 1) + row for row in innermost]
    return "\n".join(['def f(A: "float32[2, 4]", D: "out float32[2, 4]"):', *lines])


@pytest.mark.parametrize("depth", [10, 17, 18, 30, 60])
def test_nests_may_be_deeper_than_python_has_them(depth: int) -> None:
    last = f"i{depth - 1}"
    func = lp.parse(deep(depth, [f"for j in range(4):\n{'    ' * (depth + 2)}D[{last}, j] = A[{last}, 3 - j]"], []))
    assert (lp.interpret(func, [A])["D"] == A[:, ::-1]).all()
    index = tuple([0] * (depth - 1) + [1, 2])
    assert index in [at for _, at in trace(func, [A]).reads]
    wrong = lp.parse(lp.text(func).replace("3 - j", "j + 1"))
    with pytest.raises(lp.InterpretError, match=rf"at \(i0=0, i1=0,.* {last}=0, j=3\) touches A\[0, 4\]"):
        lp.interpret(wrong, [A])


@pytest.mark.parametrize("depth", [10, 14, 15, 30])
def test_kernels_may_be_deeper_than_python_has_nests(depth: int) -> None:
    last, shared = f"i{depth - 1}", 'with alloc("float32[4]", scope="shared") as S:'
    around = ['with kernel("k0"):', shared, 'for t in bind("threadIdx.x", 4):']
    body = [f"S[t] = A[{last}, t]", "barrier()", f"D[{last}, t] = S[3 - t]", "barrier()"]
    assert (lp.interpret(lp.parse(deep(depth, body, around)), [A], seed=depth)["D"] == A[:, ::-1]).all()
    with pytest.raises(lp.InterpretError, match=r"a race|nothing has written"):
        lp.interpret(lp.parse(deep(depth, [body[0], *body[2:]], around)), [A], seed=depth)


@pytest.mark.parametrize("t", ALL_DTYPES, ids=str)
def test_numbers_are_what_numpys_functions_make_of_them(t: DType) -> None:
    """Operators and constructors, which are the short way, bit by bit: wrapping, infinities, NaN, subnormals."""
    real, rng = Real(), np.random.default_rng(0)
    raw = rng.integers(0, 2 if t.kind == "bool" else 256, 24 * t.bytes).astype(np.uint8)
    some = [*raw.view(t.numpy), *(x.astype(t.numpy) for x in np.float64([0, 1, np.inf, np.nan, 1e-42]) if t.is_float)]
    with np.errstate(all="ignore"):
        for fn in REGISTRY.values():
            if t.kind in fn.kinds and (spelt := real.spelling(fn, t)):
                short = eval(f"lambda a, b: {spelt.format('a', 'b')}")
                for a, b in ((a, b) for a in some for b in some):
                    found, want = short(a, b), np.asarray(fn.meaning(a, b))[()]
                    assert type(found) is type(want), fn
                    assert found.tobytes() == want.tobytes() or (found != found and want != want), (fn, a, b)
        for to in ALL_DTYPES:
            cast = real.cast(t, to)
            for a in some if not (t.is_float and to.is_integer) else ():
                want = np.asarray(a).astype(to.numpy)[()] if to.kind != "bool" else np.bool_(a != 0)
                assert type(cast(a)) is type(want), to
                assert cast(a).tobytes() == want.tobytes(), (to, a)
