"""Layouts that are seen to keep elements apart do, at every size; the ones that people use are seen to."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.ir.dtypes import float32
from loopir.ir.grammar import Add, Buffer, FloorDiv, Index, Int, Mapped, Mod, Mul, Var, Xor
from loopir.ir.layout.layout_map import is_injective_map, layout_from_map
from loopir.ir.layout.layouts import element_span, evaluate, is_injective
from loopir.ir.parser.parse import mapping

N, M = Var("n"), Var("m")
BINARY = (Add, Mul, FloorDiv, Mod)


def indices() -> st.SearchStrategy[Index]:
    leaves = st.sampled_from([Var("i"), Var("j"), N, Int(1), Int(2), Int(3)])

    def grown(inner: st.SearchStrategy[Index]) -> st.SearchStrategy[Index]:
        divided = st.builds(
            lambda a, c, f: f(a, c), inner, st.sampled_from([Int(2), Int(3), N]), st.sampled_from([FloorDiv, Mod])
        )
        both = st.sampled_from([Add, Xor])
        sums = st.builds(lambda a, b, f: f(a, b), inner, inner, both)
        return st.one_of(sums, st.builds(Mul, inner, leaves), divided)

    return st.recursive(leaves, grown, max_leaves=5)


INDICES = indices()


@st.composite
def mappings(draw: st.DrawFn) -> tuple[Index, ...]:
    """Often something that can be undone."""
    i, j = draw(st.permutations([Var("i"), Var("j")]))
    c = draw(st.sampled_from([Int(2), Int(3), N]))
    d = Int(6)
    known: list[list[Index]] = [
        [FloorDiv(i, d), j, Mod(FloorDiv(i, Int(2)), Int(3)), Mod(i, Int(2))],
        [FloorDiv(i, d), FloorDiv(Mod(i, d), Int(3)), j, Mod(i, Int(3))],
        [j, i], [FloorDiv(i, c), j, Mod(i, c)], [i, Mod(Add(i, j), c)], [Mod(i, c), FloorDiv(i, c), j],
        [Add(i, j), j], [Mul(i, Int(2)), j], [i, Xor(i, j)],
        [i, Xor(Mod(i, Int(4)), FloorDiv(j, Int(2))), Mod(j, Int(2))],
    ]  # fmt: skip
    out = draw(st.sampled_from(known))
    if draw(st.booleans()):
        out[draw(st.integers(0, len(out) - 1))] = draw(INDICES)
    return tuple(out)


@settings(max_examples=600, deadline=None)
@given(mappings(), st.sampled_from([Int(3), Int(4), N]), st.sampled_from([Int(2), N, M]))
def test_what_packs_puts_no_two_elements_in_one_place(to: tuple[Index, ...], rows: Index, columns: Index) -> None:
    layout = layout_from_map(("i", "j"), to, (rows, columns))
    if not isinstance(layout, Mapped) or not is_injective_map(layout, (rows, columns)):
        return
    room = element_span(Buffer("B", (rows, columns), float32, layout=layout))
    for n, m in product(range(1, 6), range(5)):
        sizes = {"n": n, "m": m}
        shape = [evaluate(d, sizes) for d in (rows, columns)]
        i, j = np.indices(shape)
        cells = evaluate(layout.at, {**sizes, "i": i, "j": j}) + np.zeros(shape, int)
        assert len(np.unique(cells)) == cells.size
        assert ((cells >= 0) & (cells < evaluate(room, sizes))).all()


@pytest.mark.parametrize(
    "source",
    [
        "lambda i, j: (j // 16, i, j % 16)",
        "lambda i, j: (i // 6, j, i % 6)",
        "lambda i, j: (j // 64, i // 8, i % 8, j // 4 % 16, j % 4)",
        "lambda i, j: (j // 64, i, j % 64 // 16, j % 16)",
        "lambda i, j: (i, j // 8, (i + j) % 8)",
        "lambda i, j: (j % n, j // n, i)",
        "lambda i, j: (i + 3, j + i)",
    ],
)
def test_packings_are_seen_at_symbolic_sizes(source: str) -> None:
    dims, to = mapping(source, ["n", "m"])
    layout = layout_from_map(dims, to, (N, M))
    assert is_injective(Buffer("B", (N, M), float32, layout=layout))


@pytest.mark.parametrize(
    "source", ["lambda i, j: (i, j // 8)", "lambda i, j: i + j", "lambda i, j: (i // 2, i % 3, j)"]
)
def test_what_loses_elements_is_not(source: str) -> None:
    dims, to = mapping(source, ["n", "m"])
    assert not is_injective(Buffer("B", (N, M), float32, layout=layout_from_map(dims, to, (N, M))))
