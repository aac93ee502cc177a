"""Stencils tiled in time compute what they did, at sizes that tiles divide, at others, and at symbolic ones."""

from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules

TAPS = "0.2 * (a[i, j + 1] + a[i + 2, j + 1] + a[i + 1, j] + a[i + 1, j + 2] + a[i + 1, j + 1])"
IN_PLACE = f"""
def in_place(T: "size", n: "size", a: "inout float32[n + 2, n + 2]"):
    for t in range(T):
        for i in range(n):
            for j in range(n):
                a[i + 1, j + 1] = {TAPS}
"""
TWO_ARRAYS = f"""
def two_arrays(T: "size", n: "size", a: "inout float32[n + 2, n + 2]", b: "inout float32[n + 2, n + 2]"):
    for t in range(T):
        for i in range(n):
            for j in range(n):
                b[i + 1, j + 1] = {TAPS}
        for y in range(n):
            for x in range(n):
                a[y + 1, x + 1] = b[y + 1, x + 1]
"""
BACK_AND_FORTH = TWO_ARRAYS.replace(
    "a[y + 1, x + 1] = b[y + 1, x + 1]", "a[y + 1, x + 1] = 0.5 * (b[y, x + 1] + b[y + 2, x + 1])"
)
SOURCES = {"in place": IN_PLACE, "two arrays": TWO_ARRAYS, "back and forth": BACK_AND_FORTH}


def constant(source: str, T: int, n: int) -> str:
    """The same program at fixed sizes."""
    source = source.replace('T: "size", n: "size", ', "").replace("n + 2", str(n + 2))
    return source.replace("range(T)", f"range({T})").replace("range(n)", f"range({n})")


def swept(source: str, a: np.ndarray, b: np.ndarray, T: int) -> tuple[np.ndarray, np.ndarray]:
    """The sweeps, by NumPy."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    for _ in range(T):
        if source == IN_PLACE:
            for i in range(1, a.shape[0] - 1):
                for j in range(1, a.shape[1] - 1):
                    a[i, j] = 0.2 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1] + a[i, j])
            continue
        b[1:-1, 1:-1] = 0.2 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[1:-1, 1:-1])
        a[1:-1, 1:-1] = b[1:-1, 1:-1] if source == TWO_ARRAYS else 0.5 * (b[:-2, 1:-1] + b[2:, 1:-1])
    return a, b


@pytest.mark.parametrize("name", SOURCES)
def test_tiles_along_a_diagonal_are_blocks_of_a_gpu(name: str) -> None:
    s = lp.Schedule(lp.parse(SOURCES[name]))
    made = schedules.time_tiled_gpu(s, sweeps=2, rows=4, threads=8)
    assert {"skew", "tile", "wavefront"} <= {x.name for x in made.trace}
    assert made.loop("t_o").kind == "blockIdx.x"
    assert ("threadIdx.x" in lp.text(made.func)) == (name != "in place")  # there a row's columns follow one another
    assert lp.compile_source(made, arch="sm_90a").cubin
    for T, n in ((0, 3), (1, 1), (4, 8), (3, 9)):
        rng = np.random.default_rng(n)
        arrays = {a.buffer.name: rng.integers(0, 9, (n + 2, n + 2)).astype(np.float32) for a in s.func.args}
        want, got = (
            lp.interpret(x.func, {k: v.copy() for k, v in arrays.items()}, {"T": T, "n": n}, domain="ring")
            for x in (s, made)
        )
        assert all(np.array_equal(got[k], want[k]) for k in want)


@pytest.mark.parametrize("name", SOURCES)
def test_a_stencil_is_tiled_in_time(name: str) -> None:
    s = lp.Schedule(lp.parse(SOURCES[name]))
    assert s.why("tile", "t", "i", 4, 8) is not None
    tiled = schedules.time_tiled(s, sweeps=4, rows=8)
    steps = [x.name for x in tiled.trace]
    assert steps == ["fuse_loops", "skew", "tile", "partition", "partition"][name == "in place" :]
    inner = [loop for loop in tiled.loops() if loop in ("t_o", "i_o", "t_i", "i_i")]
    assert inner == ["t_o", "i_o", "t_i", "i_i"]


def check(name: str, kernel: Any, T: int, n: int, sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(T)
    a, b = (rng.random((n + 2, n + 2), dtype=np.float32) for _ in range(2))
    arrays = [a.copy()] if name == "in place" else [a.copy(), b.copy()]
    kernel(*arrays, **sizes)
    for got, expected in zip(arrays, swept(SOURCES[name], a, b, T), strict=False):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("target", ["interpret", "llvm"])
@pytest.mark.parametrize("name", SOURCES)
def test_what_it_computes_stays_at_symbolic_sizes(name: str, target: str) -> None:
    kernel = schedules.time_tiled(lp.Schedule(lp.parse(SOURCES[name])), sweeps=2, rows=4).build(target)
    for T, n in ((4, 8), (5, 7), (1, 13), (3, 1), (0, 4)):
        check(name, kernel, T, n, {"T": T, "n": n})


@pytest.mark.parametrize(("target", "T", "n"), [("interpret", 4, 8), ("interpret", 3, 1), ("llvm", 5, 7)])
@pytest.mark.parametrize("name", SOURCES)
def test_what_it_computes_stays_at_fixed_sizes(name: str, target: str, T: int, n: int) -> None:
    s = lp.Schedule(lp.parse(constant(SOURCES[name], T, n)))
    check(name, schedules.time_tiled(s, sweeps=2, rows=4).build(target), T, n, {})


def test_a_nest_without_a_time_loop_stays_as_it_is() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", a: "inout float32[n]"):
    for i in range(n):
        a[i] = a[n - 1 - i] * 2.0
""")
    )
    assert schedules.time_tiled(s) is s
    mirrored = lp.Schedule(
        lp.parse("""
def f(T: "size", n: "size", a: "inout float32[n]"):
    for t in range(T):
        for i in range(n):
            a[i] = a[n - 1 - i] * 2.0
""")
    )
    assert schedules.time_tiled(mirrored) is mirrored
