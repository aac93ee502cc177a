"""Arrays that are not contiguous: any view is taken as NumPy takes it, written ones too, with one warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.runtime.strided import Extent, share_memory

Array = np.ndarray[Any, Any]
VIEWS: dict[str, Callable[[Array], Array]] = {
    "columns": lambda x: x[:, 2:7],
    "every other": lambda x: x[:, ::2],
    "backwards": lambda x: x[::-1, ::-1],
    "transposed": lambda x: x.T,
    "one row for all": lambda x: np.broadcast_to(x[0], x.shape),
    "of columns": np.asfortranarray,
}


@pytest.fixture(scope="module")
def kernels() -> dict[str, lp.Kernel]:
    n, m = lp.symbol("n", min=0), lp.symbol("m", min=0)
    x = lp.placeholder((n, m), "float32", name="X")
    program = lp.Schedule(lp.compute((n, m), lambda i, j: x[i, j] * 2.0 + 1.0, name="Y"))
    return {target: program.build(target) for target in ("interpret", "llvm")}


@pytest.mark.parametrize("target", ["interpret", "llvm"])
@pytest.mark.parametrize("name", VIEWS)
def test_any_view_is_taken(kernels: dict[str, lp.Kernel], target: str, name: str) -> None:
    x = VIEWS[name](np.arange(80, dtype=np.float32).reshape(8, 10))
    with pytest.warns(RuntimeWarning, match=r"X of compute_Y is not contiguous.*np.ascontiguousarray\(X\)"):
        np.testing.assert_array_equal(kernels[target](x), x * 2 + 1)


@pytest.mark.parametrize("name", ["columns", "every other", "backwards", "transposed"])
def test_what_is_written_into_a_view_is_where_the_caller_looks_for_it(kernels: dict[str, lp.Kernel], name: str) -> None:
    given = np.arange(80, dtype=np.float32).reshape(8, 10)
    into = VIEWS[name](whole := np.zeros((8, 10), np.float32))
    x = np.ascontiguousarray(VIEWS[name](given))
    with pytest.warns(RuntimeWarning, match="copied and back"):
        got = kernels["llvm"](x, out=(into,))
    assert got is into
    np.testing.assert_array_equal(into, x * 2 + 1)
    assert np.count_nonzero(whole) == into.size  # and nothing beside it


def test_a_view_that_is_updated_in_place() -> None:
    k = lp.Schedule(lp.parse('def f(n: "size", X: "inout float32[n]"):\n    for i in range(n):\n        X[i] += 1.0'))
    x = np.zeros(9, np.float32)
    with pytest.warns(RuntimeWarning):
        k.build("llvm")(x[::3])
    assert x.tolist() == [1, 0, 0] * 3


def test_one_warning_for_each_place_that_calls(kernels: dict[str, lp.Kernel]) -> None:
    x = np.ones((4, 6), np.float32)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for width in (2, 3, 4):
            kernels["llvm"](x[:, :width])
    assert [str(w.message).partition(",")[0] for w in told] == ["X of compute_Y is not contiguous"]
    assert told[0].filename == __file__


@pytest.mark.filterwarnings("ignore:.*not contiguous")
def test_copies_stand_apart_from_what_is_read(kernels: dict[str, lp.Kernel]) -> None:
    """A result goes into the array that it is made of, as in NumPy; two results do not go into the same elements."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    want = x * 2 + 1
    kernels["llvm"](x, out=(x[::-1],))
    np.testing.assert_array_equal(x[::-1], want)
    n = lp.symbol("n")
    a = lp.placeholder((n, 2), "float32", name="A")
    both = lp.Schedule([(a + 1.0).named("P"), (a * 3.0).named("Q")]).build("llvm")
    given, into = np.ones((3, 2), np.float32), np.zeros((3, 4), np.float32)
    both(given, out=(into[:, :2], into[:, 2:]))
    assert into.tolist() == [[2, 2, 3, 3]] * 3
    with pytest.raises(ValueError, match=r"P, which .* writes, overlaps Q"):
        both(given, out=(into[:, :2], into[:, 1:3]))
    shared = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (3, 2), (4, 4))
    with pytest.raises(ValueError, match="is not contiguous"):
        both(given, out=(shared, np.zeros((3, 2), np.float32)))


@pytest.mark.filterwarnings("ignore:.*not contiguous")
def test_tensors_of_torch_and_buffers(kernels: dict[str, lp.Kernel]) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    assert torch.equal(kernels["llvm"](x.T), x.T * 2 + 1)
    into = torch.zeros(6, 8)
    kernels["llvm"](x.T, out=(into[:, ::2],))
    assert torch.equal(into[:, ::2], x.T * 2 + 1)
    freed = torch.ones(4, 6)[:, ::2]
    freed.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"freed or resized|no memory"):
        kernels["llvm"](freed)
    view = memoryview(np.arange(12, dtype=np.float32).reshape(4, 3))[::2]
    np.testing.assert_array_equal(kernels["llvm"](view), np.asarray(view) * 2 + 1)


def test_a_copy_that_memory_has_no_room_for_is_refused() -> None:
    n, m = lp.symbol("n"), lp.symbol("m")
    total = lp.Schedule(lp.sum(lp.placeholder((n, m), "float32", name="X"))).build("interpret")
    with pytest.raises(ValueError, match="memory has no room for the 4611686018427387904 bytes of a copy"):
        total(np.broadcast_to(np.float32(1.0), (1 << 30, 1 << 30)))


@settings(max_examples=60)
@given(st.data())
def test_memory_is_shared_where_two_views_have_a_byte_in_common(data: st.DataObject) -> None:
    memory = np.zeros(60, np.int16)
    extents: list[tuple[Extent, set[int]]] = []
    for _ in range(2):
        shape = tuple(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=2)))
        steps = tuple(data.draw(st.integers(-9, 9)) * 2 for _ in shape)
        start = memory.ctypes.data + 2 * data.draw(st.integers(20, 40))
        found = Extent(start, shape, steps, 2)
        at = [start + sum(n * s for n, s in zip(i, steps, strict=True)) for i in np.ndindex(*shape)]
        assert not found.elements_apart or len({*at}) == len(at)
        extents.append((found, {*at}))
    (x, mine), (y, others) = extents
    assert share_memory(x, y) == (not mine.isdisjoint(others))
