"""Every program that a scheduling language is asked for first: as it was, at sizes that fit, at others, at symbols.

What the schedules for both targets mean is compared over a ring, exactly; on the CPU compiled code is run, too, for the
GPU it is compiled; `tests/gpu` runs it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from named_programs import PROGRAMS, Named

import loopir as lp

KINDS = ("fits", "odd", "symbols")


def given(named: Named, kind: str) -> tuple[lp.Schedule, list[dict[str, int]]]:
    """The program, and sizes to run it at; by name, which a program of fixed sizes does not need."""
    fits, odd = (dict(zip(named.sizes, x, strict=True)) for x in (named.fits, named.odd))
    if kind == "symbols":
        return named.schedule(), [fits, odd]
    sizes = fits if kind == "fits" else odd
    return named.schedule(*sizes.values()), [sizes]


def exact(func: Any, arrays: dict[str, Any], sizes: dict[str, int]) -> list[Any]:
    wanted = {x: sizes[x] for x in func.sizes}
    return list(lp.interpret(func, {k: v.copy() for k, v in arrays.items()}, wanted, domain="ring").values())


@cache
def meant(name: str, values: tuple[int, ...]) -> list[Any]:
    """What the program means over the ring, before it is scheduled, at these sizes: the same for every target, and
    whether the sizes are given as numbers or by name."""
    return exact(*at_sizes(name, values))


@cache
def computed(name: str, values: tuple[int, ...]) -> dict[str, Any]:
    """What the program computes at these sizes."""
    func, arrays, _ = at_sizes(name, values)
    return lp.interpret(func, {k: v.copy() for k, v in arrays.items()})


def at_sizes(name: str, values: tuple[int, ...]) -> tuple[lp.Func, dict[str, Any], dict[str, int]]:
    """The program with these numbers for its sizes, its inputs, and its sizes by name."""
    named, sizes = PROGRAMS[name], dict(zip(PROGRAMS[name].sizes, values, strict=True))
    s = named.schedule(*values)
    return s.func, named.arrays(s, sizes), sizes


def same(one: list[Any], other: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_a_cpu(name: str, kind: str) -> None:
    named = PROGRAMS[name]
    s, cases = given(named, kind)
    made = named.cpu(s)
    kernel = made.build("llvm", threads=2)
    for sizes in cases:
        arrays = named.arrays(s, sizes)
        if sizes == cases[-1] and kind != "fits":
            assert same(meant(name, (*sizes.values(),)), exact(made.func, arrays, sizes))
        wanted = {x: sizes[x] for x in s.func.sizes}
        want = computed(name, (*sizes.values(),))
        mine = {k: v.copy() for k, v in arrays.items()}
        got = kernel(*mine.values(), **wanted)
        results = mine if got is None else dict(zip(want, got if isinstance(got, tuple) else (got,), strict=True))
        for key, value in want.items():
            np.testing.assert_allclose(
                results[key].astype(np.float64), value.astype(np.float64), rtol=named.tolerance, atol=named.tolerance
            )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_threads_of_a_gpu(name: str, kind: str) -> None:
    named = PROGRAMS[name]
    s, cases = given(named, kind)
    made = named.gpu(s)
    if kind != "odd":
        assert lp.compile_source(made, arch="sm_90a").cubin
    for sizes in cases[-1:] if kind != "fits" else ():
        arrays = named.arrays(s, sizes)
        assert same(meant(name, (*sizes.values(),)), exact(made.func, arrays, sizes))
