"""Records of operations, instructions and memories: each has its name alone, and is itself where it is sent."""

import copy
import pickle
import re

import numpy as np
import pytest

import loopir as lp
import loopir.intrinsics
from loopir.ir.dtypes import ALL_DTYPES, DType
from loopir.ir.ops import (
    FAMILIES,
    INSTRUCTIONS,
    MEMORIES,
    MONOIDS,
    REGISTRY,
    Instruction,
    Intrinsic,
    Memory,
    find_instruction,
)
from loopir.ir.printer import text

KINDS = {"bool", "int", "uint", "float"}


def test_an_operation_is_known_by_its_name() -> None:
    for name, fn in REGISTRY.items():
        consistent(name, fn)


def consistent(name: str, fn: Intrinsic) -> None:
    """A record is itself where it is sent, and says nothing that cannot be."""
    assert (fn.name, repr(fn)) == (name, name)
    assert pickle.loads(pickle.dumps(fn)) is fn
    assert copy.deepcopy(fn) is fn
    assert fn.kinds
    assert fn.kinds <= KINDS
    assert fn.arity >= 1
    assert not fn.commutes or fn.arity == 2
    assert not fn.idempotent or fn.arity == 2
    for one in fn.variants:
        assert REGISTRY[one.name].arity == fn.arity
    spelt = [x for texts in (fn.cuda, fn.cuda_atomic) for x in texts.values()]
    places = {int(n) for x in spelt for n in re.findall(r"\{(\d)\}", x)}
    assert places <= {*range(max(fn.arity, 2))}, "a spelling speaks of its arguments alone"


@pytest.mark.parametrize("t", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "any", "all"])
def test_an_identity_changes_nothing(name: str, t: DType) -> None:
    """Of integers, "any" and "all" fold bit by bit."""
    monoid = MONOIDS[name]((t,))
    (combine,) = monoid.combine
    if t.kind not in combine.fn.kinds:  # pyright: ignore[reportAttributeAccessIssue]
        return
    x = np.array([0, 1, t.greatest, t.least, *((5, 6) if t.kind != "bool" else ())], t.numpy)
    source = f"""
def f(x: "{t}[{len(x)}]", y: "out {t}[{len(x)}]"):
    for i in range({len(x)}):
        for k in range(1):
            y[i] = {name}(x[i], over=k, init={text(monoid.identity[0])})
"""
    assert np.array_equal(lp.Schedule(lp.parse(source)).build("interpret")(x), x, equal_nan=t.is_float)


def test_names_are_declared_once() -> None:
    with pytest.raises(ValueError, match="the intrinsic 'add' is declared twice"):
        Intrinsic("add", 2, frozenset(("float",)), lambda a, b: a + b)
    meaning = lp.parse('def f(A: "out float32[4]"):\n    for i in range(4):\n        A[i] = 1.0')
    with pytest.raises(ValueError, match="the instruction 'add' is declared twice; give the other one another name"):
        Instruction("add", meaning)
    assert find_instruction("dp4a") is not None
    with pytest.raises(ValueError, match="the instruction 'dp4a' is declared twice"):
        Instruction("dp4a", meaning)


@pytest.mark.parametrize("name", ["global", "shared", "local", "fragment", "any"])
def test_a_memory_has_a_name_that_no_scope_has(name: str) -> None:
    with pytest.raises(ValueError, match=f"the memory {name!r} is declared twice"):
        Memory(name, 64)


def test_a_memory_is_declared_once_by_an_identifier() -> None:
    known = dict(MEMORIES)
    try:
        made = Memory("cupboard", 64)
        assert MEMORIES["cupboard"] is made
        with pytest.raises(ValueError, match="the memory 'cupboard' is declared twice"):
            Memory("cupboard", 64)
        with pytest.raises(ValueError, match="'a cupboard' is no usable name for a memory"):
            Memory("a cupboard", 64)
        assert MEMORIES.keys() == {*known, "cupboard"}
    finally:
        MEMORIES.pop("cupboard", None)


def test_one_of_a_family_is_declared_when_it_is_asked_for() -> None:
    asked: list[str] = []

    def declare(size: str) -> None:
        asked.append(size)
        if size != "0":
            lp.instruction()(
                f'def nap_{size}(A: "out float32[{size}]"):\n    for i in range({size}):\n        A[i] = 1.0'
            )

    FAMILIES.append((re.compile(r"nap_(\d+)"), declare))
    try:
        made = find_instruction("nap_3")
        assert made is not None
        assert find_instruction("nap_3") is made
        assert asked == ["3"]
        assert pickle.loads(pickle.dumps(made)) is made
        assert find_instruction("nap_0") is None
        assert find_instruction("nap_3b") is None
        sent = pickle.dumps(made)
        del INSTRUCTIONS["nap_3"]
        assert pickle.loads(sent).name == "nap_3"  # another process has not asked for it yet
    finally:
        FAMILIES.pop()
        INSTRUCTIONS.pop("nap_3", None)
