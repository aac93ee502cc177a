"""What may be an instruction, and what is refused when one is declared."""

import numpy as np
import pytest
from own_instruction import outer4

import loopir as lp
from loopir.errors import VerifyError
from loopir.interp.instruction import Pointer, instruction
from loopir.interp.perform import operand_elements
from loopir.ir.grammar import Int
from loopir.ir.ops import INSTRUCTIONS, OperandAddress


def copy(name: str, shape: str = "8") -> str:
    """An instruction of that name that copies an array, as text."""
    loops = "ij"[: shape.count(",") + 1]
    nest = f"for {', '.join(loops)} in grid({shape})" if len(loops) > 1 else f"for i in range({shape})"
    return (
        f'def {name}(A: "float32[{shape}]", B: "out float32[{shape}]"):\n'
        f"    {nest}:\n        B[{', '.join(loops)}] = A[{', '.join(loops)}]"
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('def bad1(A: "out int32[4]"):\n    for i in range(4):\n        A[i] = 1\n        A[i] = 2', "one statement"),
        ('def bad2(n: "size", A: "out float32[n]"):\n    for i in range(n):\n        A[i] = 1.0', "right inside"),
        ('def bad3(A: "out float32[8]"):\n    for i in range(4):\n        A[2 * i] = 1.0', "indexed by loops"),
        ('def bad4(A: "float32[4]", B: "out float32[4]"):\n    for i in range(4):\n        B[i] = 1.0', "never used"),
        ('def bad5(A: "out float32[1]"):\n    for i in range(0):\n        A[i] = 1.0', "1 or more"),
        ('def bad6(A: "out float32[4]"):\n    for i in parallel(4):\n        A[i] = 1.0', "are serial"),
        (
            'def bad7(A: "out float32[4]"):\n    for i in range(3):\n        A[i] = 1.0',
            "over the whole of each dimension",
        ),
        ('def bad8(A: "out float32[4, 4]"):\n    for i in range(4):\n        A[i, i] = 1.0', "loops, one over"),
        (
            'def bad9(A: "float32[4]", B: "out float32[1]"):\n    for i, j in grid(1, 4):\n'
            "        B[i] = sum(A[j], over=j, init=0.0)",
            "it has no over= and no init=",
        ),
    ],
)
def test_what_no_instruction_can_mean(source: str, reason: str) -> None:
    known = set(INSTRUCTIONS)
    with pytest.raises(VerifyError, match=reason):
        lp.instruction()(source)
    assert set(INSTRUCTIONS) == known


@pytest.mark.parametrize(
    ("shape", "how", "reason"),
    [
        ("8", {"at": {"A": Pointer((0, 0), run=8)}}, "A is no operand with an element"),
        ("8", {"at": {"A": Pointer((0,), run=3)}}, "run a power of two"),
        ("8", {"at": {"C": Pointer((0,), run=8)}}, "C is no operand"),
        ("8", {"at": {"A": Pointer((0,), run=8), "B": Pointer((0,), run=4)}}, "the addresses of B do not tell where"),
        ("2, 4", {"at": {"A": Pointer((0, 0), run=4), "B": Pointer((0, 0), run=8)}}, "the addresses of A do not tell"),
    ],
)
def test_addresses_tell_where_all_of_an_operand_is(shape: str, how: dict[str, dict[str, Pointer]], reason: str) -> None:
    known = set(INSTRUCTIONS)
    with pytest.raises(VerifyError, match=reason):
        instruction(cuda="copy({A}, {B});", **how)(copy("far_copy", shape))  # type: ignore[arg-type]
    assert set(INSTRUCTIONS) == known, "what is refused is not declared, and its name is free"


def test_an_address_is_that_of_an_element_which_may_depend_on_the_lane() -> None:
    assert Pointer((0, 1), run=4).aim() == OperandAddress((Int(0), Int(1)), 4)
    try:
        fn = instruction(
            level="warp",
            cuda="copy({A}, {B});",
            at={"A": Pointer(lambda lane: (lane % 8, lane // 8 * 4), run=4), "B": Pointer((0, 0), run=128)},
        )(copy("warp_copy", "8, 16"))
        a, b = fn.meaning.args
        found = [at for lane in range(32) for at, _ in operand_elements(fn, a, lane)]
        assert sorted(found) == list(np.ndindex(8, 16))
        assert [at for at, _ in operand_elements(fn, b, 7)] == list(np.ndindex(8, 16))
    finally:
        INSTRUCTIONS.pop("warp_copy", None)


def test_an_instruction_is_declared_once() -> None:
    assert INSTRUCTIONS["outer4"] is outer4
    with pytest.raises(ValueError, match="declared twice"):
        lp.instruction()('def outer4(A: "out float32[4]"):\n    for i in range(4):\n        A[i] = 1.0')
