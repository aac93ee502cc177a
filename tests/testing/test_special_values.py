"""Random schedules of random programs on odd numbers: NaN, infinities, -0.0, the ends of integers, floats of 8 bits.

What the interpreter makes of the scheduled nest, the CPU's kernel makes of it, too; and where all is integers, which
wrap in whatever order they are folded, so does the nest before, and the one lowered for a GPU. Zeros of both signs
count as equal: which of them is the greater, NumPy leaves open.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
from loopir.errors import InterpretError, LowerError, TargetError
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Var
from loopir.lower.pipeline import lower
from loopir.testing.generate.steps import schedules
from loopir.testing.generate.strategies import arguments, funcs, sizes
from loopir.testing.oracles.guard_bytes import Fenced
from loopir.testing.oracles.oracles import mapped

Array = np.ndarray[Any, Any]
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "bool")
FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def odd(t: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """An array of the numbers of a type at which rules end."""
    if t.kind == "float":
        pool = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.5, 3e38, 1e-45, 240.0, 448.0, 6e-8])
        with np.errstate(all="ignore"):
            return rng.choice(pool, shape).astype(np.float32).astype(t.numpy)
    if t.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    ends = np.iinfo(t.numpy)
    pool = np.array([ends.min, ends.max, 0, 1, 3, ends.max // 2, ends.min // 2, ends.max - 1], t.numpy)
    return rng.choice(pool, shape)


def same(a: Array, b: Array) -> bool:
    if a.dtype.kind in "iub":
        return np.array_equal(a, b)
    return np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True)


@st.composite
def scheduled(draw: st.DrawFn, types: tuple[str, ...]) -> tuple[lp.Func, lp.Schedule, dict[str, int], list[Array]]:
    func = draw(funcs(dtypes=draw(st.lists(st.sampled_from(types), min_size=1, max_size=2, unique=True)), memory=False))
    at, rng = draw(sizes(func)), np.random.default_rng(draw(st.integers(0, 99)))
    kinds = {a.buffer.name: a.buffer.dtype for a in func.args}
    arrays = [odd(kinds[k], v.shape, rng) for k, v in draw(arguments(func, at)).items()]
    return func, draw(schedules(func)), at, arrays


def interpreted(func: lp.Func, arrays: list[Array], at: dict[str, int]) -> list[Array] | None:
    """Its outputs, None if it is no program at these sizes."""
    try:
        with np.errstate(all="ignore"):
            return list(lp.interpret(func, [x.copy() for x in arrays], at).values())
    except InterpretError:
        return None


@pytest.mark.parametrize("types", [INTEGERS, FLOATS], ids=["integers", "floats"])
@SETTINGS
@given(st.data())
def test_the_cpu_gives_what_the_interpreter_gives(types: tuple[str, ...], data: st.DataObject) -> None:
    func, s, at, arrays = data.draw(scheduled(types))
    inputs = [a.buffer for a in s.func.args if a.access != "out"]
    told = {d.name for b in inputs for d in b.shape if isinstance(d, Var)}
    wanted = interpreted(s.func, arrays, at) if interpreted(func, arrays, at) is not None else None
    if wanted is None or set(func.sizes) - told:
        return
    try:
        kernel = s.build("llvm", fma=False, threads=2)
    except (LowerError, TargetError):
        return
    by_name = dict(zip((b.name for b in s.func.outputs()), wanted, strict=True))
    given_arrays = {b.name: Fenced(x) for b, x in zip(inputs, arrays, strict=True)}
    new = {a.buffer.name: Fenced(np.zeros_like(by_name[a.buffer.name])) for a in s.func.args if a.access == "out"}
    kernel(**{name: x.array for name, x in given_arrays.items()}, out=tuple(x.array for x in new.values()))
    for name, x in {**given_arrays, **new}.items():
        assert not x.broken, f"beside {name} {x.broken} of\n{lp.text(func)}\n{s.script()}"
        assert name not in by_name or same(x.array, by_name[name]), f"{name} of\n{lp.text(func)}\n{s.script()}"


@SETTINGS
@given(scheduled(INTEGERS))
def test_integers_wrap_in_any_order(case: Any) -> None:
    func, s, at, arrays = case
    wanted = interpreted(func, arrays, at)
    if wanted is None:
        return
    nests = [s.func]
    with suppress(LowerError, TargetError):
        nests.append(lower(mapped(s.func), "cuda"))
    for nest in nests:
        found = interpreted(nest, arrays, at)
        assert found is not None
        assert all(map(same, found, wanted)), f"{lp.text(func)}\n{s.script()}"
