"""What a person may call things: whatever is made of these names, and whatever a target's language calls so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import loopir as lp
import schedules
from loopir.errors import ExprError
from loopir.ir.traverse.walk import fresh_name
from loopir.ir.verify.scope import is_usable

NEST = """
def {fn}({n}: "size", {a}: "float32[{n}, 20]", {b}: "out float32[{n}]", {c}: "out float32[{n}]"):
    for {i} in range({n}):
        for {j} in range(20):
            {b}[{i}] = sum({a}[{i}, {j}], over={j}, init=0.0)
    for {k} in range({n}):
        {c}[{k}] = exp({a}[{k}, 0]) % 3.0
"""
NAMES = {
    "of loops": "lp _n a b c _ _i j",
    "of C++": "alignof wchar_t constexpr thread_local noexcept decltype nullptr reinterpret_cast",
    "of words, longer": "int float float_ int_ int__ exp exp_ abs_",
    "of functions": "expf fmodf floorf exp fmod linux NULL atomicAdd",
    "of LLVM": "begin end entry start given pool body define",
    "of what steps make": "A ax0 i_o i_i A_global b_local k_o_i x",
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_any_name_is_right_on_every_target(names: str) -> None:
    s = lp.Schedule(lp.parse(NEST.format(**dict(zip(("fn", *"nabcijk"), names.split(), strict=True)))))
    arrays = (np.arange(9 * 20, dtype=np.float32) % 5).reshape(9, 20)
    wanted = s.build("interpret")(arrays)
    found = schedules.auto(s, "llvm").build("llvm", threads=2)(arrays)
    assert np.array_equal(found[0], wanted[0])
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)
    t = schedules.auto(s, "cuda")
    assert lp.parse(lp.text(t.func)) == t.func
    assert lp.compile_source(t).source


def test_a_name_that_is_made_is_one_that_may_be() -> None:
    assert [fresh_name(x, {"_o"}) for x in ("__o", "___", "lp_kernel", "i")] == ["_o_1", "_", "_lp_kernel", "i"]


@given(st.from_regex(r"_{0,3}(lp_?)?[xyz]?_{0,2}", fullmatch=True).filter(bool), st.integers(1, 4))
def test_however_often_a_name_is_made_it_may_be(hint: str, times: int) -> None:
    taken: set[str] = set()
    for _ in range(times):
        taken.add(made := fresh_name(hint, taken))
        assert is_usable(made)
    assert len(taken) == times


def test_a_second_loop_called_underscore_is_made() -> None:
    s = lp.Schedule(lp.parse("""
def f(n: "size", B: "out float32[n, 2]"):
    for i in range(n):
        for _ in range(2):
            B[i, _] = 0.0
"""))  # fmt: skip
    assert s.specialize("_", "i == 1").loops() == ("i", "_", "_1")


@pytest.mark.parametrize("name", ["lp_rt", "__x", "for", "nan"])
def test_a_name_that_may_not_be_is_refused_where_it_is_given(name: str) -> None:
    for make in (lp.symbol, lambda name: lp.placeholder((1,), "int8", name=name)):
        with pytest.raises(ExprError, match="is no usable name: an ASCII identifier"):
            make(name)
