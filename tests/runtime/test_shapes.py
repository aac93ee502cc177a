"""Sizes are found from any shapes that are linear in them: by the runtime and the interpreter alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.shapes import Given, Linear, sizes_of


def given_array(extents: tuple[int, ...], *dims: tuple[dict[str, int], int]) -> Given:
    return Given("a", [Linear({k: c for k, c in terms.items() if c}, const, "...") for terms, const in dims], extents)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_is_found_is_what_it_was(data: st.DataObject) -> None:
    """Whatever is said of a size is true, and one equation for each of several independent forms is enough."""
    names = data.draw(st.sampled_from(["n", "nm", "nmk"]))
    sizes = {k: data.draw(st.integers(0, 9)) for k in names}
    count = st.integers(-2, 3)
    dims = data.draw(st.lists(st.tuples(st.fixed_dictionaries(dict.fromkeys(names, count)), count), max_size=4))
    extents = [sum(c * sizes[k] for k, c in terms.items()) + const for terms, const in dims]
    found = sizes_of([given_array(tuple(max(0, x) for x in extents), *dims)], {})
    assert {k: found[k] for k in found} == {k: sizes[k] for k in found}
    whole = [[terms[k] for k in names] for (terms, _), x in zip(dims, extents, strict=True) if x > 0]
    if whole and np.linalg.matrix_rank(np.array(whole)) == len(names):
        assert found == sizes


NEST = """
def f(n: "size", m: "size", A: "float32[{a}]", B: "float32[{b}]", C: "out float32[n, m]"):
    for i in range(n):
        for j in range(m):
            C[i, j] = A[0] + B[0]
"""


@pytest.mark.parametrize(
    ("a", "b", "extents", "want"),
    [
        ("n + 1", "2 * m", (4, 6), (3, 3)),
        ("n - 2", "16 - m", (1, 5), (3, 11)),
        ("n + m", "n + m * 2", (5, 7), (3, 2)),
        ("m", "n + m + 1", (2, 5), (2, 2)),
        ("3 * n + 2", "n * 1 + m", (2, 1), (0, 1)),
    ],
)
def test_kernels_find_their_sizes(a: str, b: str, extents: tuple[int, int], want: tuple[int, int]) -> None:
    s = lp.Schedule(lp.parse(NEST.format(a=a, b=b)))
    arrays = [np.ones(n, np.float32) for n in extents]
    for target in ("llvm", "interpret"):
        assert s.build(target)(*arrays).shape == want
    assert lp.interpret(s.func, arrays)["C"].shape == want


@pytest.mark.parametrize(
    ("a", "b", "extents", "message"),
    [
        ("2 * n", "m", (3, 1), r"A has shape \(3,\), and no n makes 2 \* n 3"),
        ("n + 1", "m", (0, 1), r"A has shape \(0,\), and no n makes n \+ 1 0"),
        ("n", "n + 2 * m", (3, 6), r"B has shape \(6,\), and no m makes n \+ 2 \* m 6 \(at n=3\)"),
        ("n - 2", "m", (0, 1), "tells (the size )?n"),
        ("n + m", "n + m", (3, 3), "tells (the size )?n"),
        ("n * m", "m", (3, 3), "tells (the size )?n"),
        ("n + m", "n + m", (3, 4), "tells (the size )?n"),
        ("n // 2", "m", (3, 3), "tells (the size )?n"),
    ],
)
def test_shapes_that_no_sizes_make_or_several(a: str, b: str, extents: tuple[int, int], message: str) -> None:
    s = lp.Schedule(lp.parse(NEST.format(a=a, b=b)))
    arrays = [np.ones(n, np.float32) for n in extents]
    with pytest.raises(ValueError, match=message):
        s.build("interpret")(*arrays)
    with pytest.raises(ValueError, match=message):
        lp.interpret(s.func, arrays)
