"""The report of tests of subscripts: the first that failed is raised, with its index and size, and else nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loopir.errors import BoundsError, NanError
from loopir.runtime.bounds_report import Checked, Located


class Runtime:
    @contextmanager
    def lent(self, words: np.ndarray) -> Iterator[np.ndarray]:
        yield words


def writing(*found: tuple[int, ...]):
    """A host function that writes these rows."""

    def host(runtime: Runtime, words: np.ndarray) -> None:
        words[...] = np.array(found, np.int64).reshape(words.shape)

    return host


@given(st.lists(st.booleans(), min_size=1, max_size=5), st.integers(-9, 9), st.integers(1, 9))
def test_the_first_failed_test_is_raised(failed: list[bool], index: int, size: int) -> None:
    rows = [(int(f), index, size) for f in failed]
    checked = Checked(writing(*rows), "f", [f"test {n}" for n in range(len(failed))])
    if not any(failed):
        checked(Runtime())
    else:
        with pytest.raises(BoundsError, match=rf"f: test {failed.index(True)}, at index {index}; .* 0 to {size - 1}"):
            checked(Runtime())


@pytest.mark.parametrize(("size", "words"), [(0, "no index is allowed"), (-1, "a divisor is at least 1")])
def test_empty_dimensions_and_divisors_have_words_of_their_own(size: int, words: str) -> None:
    with pytest.raises(BoundsError, match=words):
        Checked(writing((1, 0, size)), "f", ["A"])(Runtime())


SITES = [("A is read", ("i", "j")), ("B is nan", ("i",))]


def test_a_fault_is_said_with_its_iteration() -> None:
    with pytest.raises(BoundsError, match=r"f: A is read \(at i=2, j=3\), at index 7; indices run from 0 to 4"):
        Located(writing((1, 7, 5, 2, 3)), "f", SITES, {2}, 5)(Runtime())
    with pytest.raises(NanError, match=r"f: B is nan \(at i=4\)"):
        Located(writing((2, 0, 0, 4, 0)), "f", SITES, {2}, 5)(Runtime())
    Located(writing((0, 0, 0, 0, 0)), "f", SITES, {2}, 5)(Runtime())
