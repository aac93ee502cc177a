"""Functions of vectors are called by the names that libraries give them, by whole vectors or halves, and are exact."""

import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.codegen.llvm.emit import emit
from loopir.codegen.llvm.vector_functions import vector_symbol, vector_symbols
from loopir.ir.ops import REGISTRY
from loopir.lower.pipeline import lower

NAMES = {x: x.replace("a", "arc", 1) for x in ("asin", "acos", "atan", "asinh", "acosh", "atanh")} | {
    x: x for x in ("log1p", "expm1", "tan", "sinh", "cosh")
}


def vectors(name: str, lanes: int, dtype: str = "float32") -> lp.Schedule:
    x = lp.placeholder((lanes,), dtype, name="x")
    return lp.Schedule(getattr(lp, name)(x)).vectorize("i")


def test_symbols_are_those_of_the_vector_function_abi() -> None:
    assert vector_symbol("atanf", 16, 4, 1) == "_ZGVeN16v_atanf"
    assert vector_symbol("atan2", 4, 8, 2) == "_ZGVdN4vv_atan2"
    assert vector_symbol("atanf", 3, 4, 1) == vector_symbol("atanf", 0, 4, 1) == ""
    assert (16, "_ZGVbN4v_atanf") in vector_symbols("atan", 1)


def test_vectors_are_halved_until_the_library_has_a_function() -> None:
    s = vectors("atan", 32)
    some = frozenset({"_ZGVdN8v_atanf", "_ZGVbN4v_atanf"})
    source = emit(lower(s.func, "llvm"), vector_functions=some).source
    assert len(re.findall(r"= call <8 x float> @_ZGVdN8v_atanf\(", source)) == 4
    assert len(re.findall(r"= call float @atanf\(", emit(lower(s.func, "llvm")).source)) == 32


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_functions_of_vectors_are_exact_to_their_bound(dtype: str, data: st.DataObject) -> None:
    name, lanes = data.draw(st.sampled_from(sorted(NAMES))), data.draw(st.sampled_from([1, 3, 8, 24, 32]))
    width = 32 if dtype == "float32" else 64
    numbers = st.floats(width=width) | st.floats(-2, 2, width=width)
    x = np.array(data.draw(st.lists(numbers, min_size=lanes, max_size=lanes)), dtype)
    got = vectors(name, lanes, dtype).build("llvm")(x)
    with np.errstate(all="ignore"):
        want = getattr(np, NAMES[name])(x.astype(np.longdouble)).astype(dtype)
    np.testing.assert_array_max_ulp(got, want, maxulp=int(REGISTRY[name].ulp) + 1)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))
