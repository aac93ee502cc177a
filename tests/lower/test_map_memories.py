"""map_memories puts buffers of declared memories into the scopes that back them, where they have room."""

from collections.abc import Iterator

import pytest
from meaning import assert_same

from loopir.errors import TargetError
from loopir.ir.grammar import Alloc
from loopir.ir.ops import MEMORIES, Memory
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import statements
from loopir.lower.common.map_memories import map_memories
from loopir.lower.target import target

ROOM = 64


@pytest.fixture(autouse=True)
def scratch() -> Iterator[None]:
    before = dict(MEMORIES)
    Memory("scratch_of_a_test", capacity=ROOM)
    yield
    MEMORIES.clear()
    MEMORIES.update(before)


def nest(one: str, other: str, inside: bool) -> str:
    """Two buffers, one inside the other or one after the other."""
    first = f'with alloc("float32[{one}]", scope="scratch_of_a_test") as S:'
    second = f'with alloc("float32[{other}]", scope="scratch_of_a_test") as T:'
    deep = "    " if inside else ""
    return f"""
def f(n: "size", a: "inout float32[16]"):
    for b in range(16):
        {first}
            S[0] = a[b]
            a[b] = S[0] + 1.0
        {deep}{second}
        {deep}    T[0] = a[b] * 2.0
        {deep}    a[b] = T[0]
"""


@pytest.mark.parametrize(("one", "other", "inside", "fits"), [
    ("8", "8", True, True), ("8", "9", True, False), ("16", "16", False, True), ("17", "1", False, False),
])  # fmt: skip
def test_what_is_there_at_once_has_room(one: str, other: str, inside: bool, fits: bool) -> None:
    func = parse(nest(one, other, inside))
    if not fits:
        with pytest.raises(TargetError, match=f"at once, and it holds {ROOM}"):
            map_memories(func, target("llvm"))
        return
    made = map_memories(func, target("llvm"))
    like = MEMORIES["scratch_of_a_test"].like
    assert {s.buffer.scope for s in statements(made.body) if isinstance(s, Alloc)} == {like}
    assert_same(func, made, {"n": 1})


def test_a_size_that_is_no_constant_is_refused_and_other_memory_left_alone() -> None:
    with pytest.raises(TargetError, match="S is in scratch_of_a_test, so its size has to be a constant"):
        map_memories(parse(nest("n", "1", True)), target("llvm"))
    plain = parse(nest("8", "8", True).replace("scratch_of_a_test", "local"))
    assert map_memories(plain, target("llvm")) is plain
