"""Element types: they are what NumPy calls so, and two of them meet as in NumPy."""

from itertools import product

import numpy as np
import pytest

from loopir.ir.dtypes import ALL_DTYPES, DType, dtype, promote

PLAIN = [t for t in ALL_DTYPES if t.name not in ("bfloat16",) and not t.name.startswith("float8")]


@pytest.mark.parametrize("t", ALL_DTYPES, ids=str)
def test_a_type_is_named_by_its_name_itself_and_numpy(t: DType) -> None:
    assert dtype(t.name) is dtype(t) is dtype(t.numpy) is t
    assert t == t.name
    assert t == t.numpy
    assert hash(t) == hash(dtype(t.name))
    assert t.bytes == np.dtype(t.numpy).itemsize
    assert all((t == other) == (t is other) for other in ALL_DTYPES)


def test_two_types_meet_as_in_numpy() -> None:
    for a, b in product(PLAIN, PLAIN):
        assert promote(a, b) == promote(b, a) == np.promote_types(a.numpy, b.numpy)


def test_a_type_meets_itself_and_any_order_is_one() -> None:
    for a, b in product(ALL_DTYPES, ALL_DTYPES):
        assert promote(a, a) is a
        assert promote(a, b) is promote(b, a)


def test_what_is_no_type_is_refused_with_those_there_are() -> None:
    for spec in ("float12", "complex64", "", "U3"):
        with pytest.raises(TypeError):
            dtype(spec)


def test_floats_that_hold_all_of_another() -> None:
    floats = [t for t in ALL_DTYPES if t.is_float]
    held = {(a.name, b.name) for a, b in product(floats, floats) if a.holds_all(b)}
    assert {(a, b) for a in ("float16", "bfloat16") for b in ("float8_e4m3fn", "float8_e5m2")} < held
    assert not held & {("float16", "bfloat16"), ("bfloat16", "float16"), ("float8_e4m3fn", "float8_e5m2")}
    for a, b in held:
        size = dtype(b).bytes
        some = np.arange(256 ** min(size, 2), dtype=f"uint{8 * size}").view(dtype(b).numpy)
        with np.errstate(invalid="ignore"):  # of some that are NaN
            back = some.astype(dtype(a).numpy).astype(some.dtype)
            assert np.array_equal(back.astype(float), some.astype(float), equal_nan=True)
