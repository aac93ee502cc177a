"""Built with checks, a program tells the first nan and the first subscript outside, with statement and iteration."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
import schedules
from loopir.lower.common.record_faults import fault_sites, in_text_order
from loopir.testing.generate.strategies import arguments, funcs, sizes

x = lp.placeholder((8, 8), "float32", name="x")
C = lp.compute((8, 8), lambda i, j: lp.sqrt(x[i, j]) + 1.0, name="C")
SCHEDULED = lp.Schedule(C).split("j", 4).vectorize("j_i").parallel("i")


@pytest.mark.parametrize("target", ["llvm", "interpret"])
def test_the_first_nan_is_told_with_its_statement_and_iteration(target: str) -> None:
    a = np.ones((8, 8), np.float32)
    kernel = SCHEDULED.build(target, checks=True)
    assert (kernel(a) == 2).all()
    assert (kernel(a) == 2).all()
    a[3, 6] = a[5, 1] = -1
    with pytest.raises(lp.NanError, match=r"compute_C: statement C stores nan in C\[.*\] \(at i=3, j_o=1, j_i=2\)"):
        kernel(a)
    a[...] = 4
    assert (kernel(a) == 3).all()


def test_without_checks_nan_is_a_value() -> None:
    assert np.isnan(SCHEDULED.build("llvm")(np.full((8, 8), -1, np.float32))).all()


def test_a_fold_tells_in_which_iteration_it_became_nan() -> None:
    k = lp.reduce_axis(8, name="k")
    s = lp.Schedule(lp.compute((8,), lambda i: lp.sum(x[i, k] * 2.0, axis=k), name="S"))
    s = schedules.auto(s, "llvm")
    a = np.ones((8, 8), np.float32)
    a[2, 5] = np.inf
    a[2, 6] = -np.inf
    with pytest.raises(lp.NanError, match=r"statement \w+ stores nan in \w+\[.*\] \(at i=2, "):
        s.build("llvm", checks=True)(a)


GATHER = """
def f(n: "size", m: "size", A: "float32[n]", p: "int32[m]", B: "out float32[m]"):
    for i in parallel(m):
        B[i] = A[p[i]]
"""


@pytest.mark.parametrize("target", ["llvm", "interpret"])
def test_the_first_subscript_outside_is_told_with_its_iteration(target: str) -> None:
    kernel = lp.Schedule(lp.parse(GATHER)).build(target, checks=True)
    a = np.arange(4, dtype=np.float32)
    assert kernel(a, np.array([3, 0, 1], np.int32)).tolist() == [3, 0, 1]
    with pytest.raises(lp.BoundsError, match=r"\((at )?i=1\)") as error:
        kernel(a, np.array([3, 4, -2], np.int32))
    if target == "llvm":
        assert str(error.value) == (
            "f: statement B reads A[p[i]] outside dimension 0 (at i=1), at index 4; indices run from 0 to 3. Nothing "
            "was touched there, but the results are not complete"
        )


def test_checks_of_a_program_with_instructions_and_threads() -> None:
    a, b = (lp.placeholder((32, 64), "int8", name=n) for n in "ab")
    s = schedules.auto(lp.Schedule(lp.cast(a, "int32") @ lp.cast(b.T, "int32")), "llvm")
    one, other = (np.random.default_rng(k).integers(-9, 9, (32, 64), np.int8) for k in (0, 1))
    assert (s.build("llvm", checks=True)(one, other) == one.astype(np.int32) @ other.T.astype(np.int32)).all()


same = partial(np.array_equal, equal_nan=True)


def outcome(s: lp.Schedule, arrays: dict[str, Any], at: dict[str, int], **options: bool) -> Any:
    """What a call gives and leaves in the arrays that it changes, or the class of its error."""
    inputs = {n: v.copy() for n, v in arrays.items()}
    kernel = s.build("llvm", **options)
    wanted = {a.buffer.name for a in s.func.args if a.access != "out"} | set(s.func.sizes)
    try:
        given = kernel(**{n: v for n, v in (inputs | at).items() if n in wanted})
    except (lp.NanError, lp.BoundsError) as error:
        return type(error)
    made = () if given is None else given if isinstance(given, tuple) else (given,)
    return [*made, *inputs.values()]


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_checks_change_no_result(data: Any) -> None:
    """What raises nothing gives what the kernel gives without checks; a nan that is raised is one."""
    func = data.draw(funcs())
    at = data.draw(sizes(func))
    arrays = data.draw(arguments(func, at))
    one, other = outcome(lp.Schedule(func), arrays, at), outcome(lp.Schedule(func), arrays, at, checks=True)
    if other is not lp.NanError:
        assert (one is other) if isinstance(one, type) else all(map(same, one, other))


def test_a_copy_is_no_site_of_nan() -> None:
    func = lp.parse('def f(a: "float32[4]", b: "out float32[4]"):\n    for i in range(4):\n        b[i] = a[i]\n')
    assert fault_sites(in_text_order(func)) == ()
    assert lp.Schedule(func).build("llvm", checks=True)(np.full(4, np.nan, np.float32)).shape == (4,)
