"""Operators on lists of tensors are what they are by others, one for each tensor."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
from loopir.frontend.torch import foreach  # noqa: E402

BY_NAME = {"scalar": 1.5, "exponent": 1.5, "weight": 0.25, "self": 2.0, "value": 3.0, "alpha": 3, "ord": 2}
TABLE = foreach.decompositions()


def given(argument: Any) -> Any:
    match str(argument.type):
        case "List[Tensor]":
            return [torch.rand(3) + 0.1, torch.rand(2, 2) + 0.1]
        case "Tensor":
            return torch.tensor(1.5)
        case t:
            return [0.5, 2.0] if t.startswith("List[") else BY_NAME[argument.name]


@pytest.mark.parametrize("op", TABLE, ids=str)
def test_each_tensor_is_as_by_the_operator_on_lists(op: Any) -> None:
    torch.manual_seed(0)
    some = [a for a in op._schema.arguments if a.name != "dtype"]
    args = [given(a) for a in some if not a.kwarg_only]
    named = {a.name: given(a) for a in some if a.kwarg_only}
    for x, y in zip(TABLE[op](*args, **named), op(*args, **named), strict=True):
        torch.testing.assert_close(x, y)


def test_those_that_optimizers_use_are_there() -> None:
    names = {str(op).split(".")[1] for op in TABLE}
    assert {"_foreach_add", "_foreach_mul", "_foreach_addcdiv", "_foreach_lerp", "_foreach_pow"} <= names
