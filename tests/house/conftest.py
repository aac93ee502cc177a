"""The rules of one test file share the trees that they read; what is kept longer would slow down all other tests."""

from collections.abc import Iterator

import pytest
from exceptions_list import tree_of


@pytest.fixture(scope="module", autouse=True)
def _forget_trees() -> Iterator[None]:
    yield
    tree_of.cache_clear()
