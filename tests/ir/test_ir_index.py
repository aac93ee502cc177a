"""The hash of an index or a condition is worked out once: analyses keep them as keys, and they are deep."""

import pytest

from loopir.ir.grammar import And, Cmp, Cond, FloorDiv, Index, Int, Mod, Var


@pytest.mark.parametrize(
    "node",
    [
        FloorDiv(Mod(Var("i"), Int(7)), Int(2)) + 1,
        Cmp("<", Var("i"), Int(3)),
        And((Cmp("<", Var("i"), Int(3)), Cmp("==", Var("j"), Int(0)))),
    ],
    ids=["index", "comparison", "conjunction"],
)
def test_a_hash_is_kept_with_its_node(node: Index | Cond) -> None:
    found = hash(node)
    assert node._hash == found  # type: ignore[union-attr]  # pyright: ignore
