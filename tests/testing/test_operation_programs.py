"""The programs for tests of a backend have each operation of a type, and each conversion from it, once."""

import pytest

from loopir.ir.dtypes import ALL_DTYPES, DType
from loopir.ir.grammar import Cast, Op
from loopir.ir.traverse.walk import nodes
from loopir.ir.verify.verify import verify
from loopir.testing.generate.operation_programs import conversions, operations


@pytest.mark.parametrize("t", ALL_DTYPES, ids=str)
def test_each_operation_that_takes_the_type_is_there(t: DType) -> None:
    func, ops = operations(t)
    verify(func)
    assert {f.name for f in ops} <= {n.fn.name for n in nodes(func) if isinstance(n, Op)}
    assert len([*func.outputs()]) == len(ops) > 0


@pytest.mark.parametrize("t", ALL_DTYPES, ids=str)
def test_each_other_type_is_converted_to(t: DType) -> None:
    func, types = conversions(t)
    verify(func)
    assert {*types} == {*ALL_DTYPES} - {t}
    assert {n.type for n in nodes(func) if isinstance(n, Cast)} == {*types}
