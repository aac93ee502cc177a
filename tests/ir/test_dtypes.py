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
