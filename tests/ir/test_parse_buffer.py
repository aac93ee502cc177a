"""Declarations of buffers: each prints as what it was declared by, and others are refused with the form they take."""

import pytest
from hypothesis import given, strategies as st

from loopir.errors import ParseError
from loopir.ir.dtypes import ALL_DTYPES
from loopir.ir.grammar import SCOPES, Alloc
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text

DIMS = st.lists(st.sampled_from(("4", "n", "n + 1", "2 * n")), max_size=3)
NEST = 'def f(n: "size", A: "inout {}"):\n    pass\n'


@given(st.sampled_from([*map(str, ALL_DTYPES)]), DIMS)
def test_an_argument_has_the_type_and_shape_it_is_declared_by(dtype: str, dims: list[str]) -> None:
    func = parse(NEST.format(f"{dtype}[{', '.join(dims)}]"))
    (arg,) = func.args
    assert str(arg.buffer.dtype) == dtype
    assert len(arg.buffer.shape) == len(dims)
    assert parse(text(func)) == func


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("layout", ["", ", layout=strided(5, 1)", ", layout=mapped(lambda i, j: j * 4 + i)"])
def test_memory_has_its_scope_and_layout(scope: str, layout: str) -> None:
    func = parse(f'def f(n: "size"):\n    with alloc("int8[4, 5]", scope="{scope}"{layout}) as T:\n        pass\n')
    (alloc,) = func.body
    assert isinstance(alloc, Alloc)
    assert alloc.buffer.scope == scope
    assert (alloc.buffer.layout is not None) == bool(layout)
    assert parse(text(func)) == func


@pytest.mark.parametrize("spec", ["real[4]", "float32[4", "float32[4] strided", "4", "complex64[4]", ""])
def test_what_declares_no_array_is_refused_with_the_types(spec: str) -> None:
    with pytest.raises(ParseError):
        parse(NEST.format(spec))
