"""The oracle of these tests: two nests compute the same, exactly, over a ring."""

import numpy as np

import loopir.intrinsics  # noqa: F401
from loopir.errors import InterpretError
from loopir.ir.grammar import Func
from loopir.ir.interpret import holds, interpret
from loopir.ir.text import text
from loopir.ir.verify import evaluate


def arguments(func: Func, sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    """Inputs of the right shapes: small integers, which are indices, too."""
    rng = np.random.default_rng(seed)
    return {
        a.buffer.name: rng.integers(0, 5, [max(0, evaluate(d, sizes)) for d in a.buffer.shape]).astype(
            a.buffer.dtype.numpy
        )
        for a in func.args
        if a.access != "out"
    }


def outcome(func: Func, sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    return interpret(func, arguments(func, sizes, seed), sizes, domain="ring")


def assert_same(before: Func, after: Func, sizes: dict[str, int], seed: int = 0) -> None:
    """What `before` computes at `sizes`, if it takes them and computes anything, `after` does."""
    if not all(holds(c, sizes) for c in before.assumes):
        return
    try:
        expected = outcome(before, sizes, seed)
    except InterpretError:
        return  # an output that is never written, at this size
    found = outcome(after, sizes, seed)
    assert len(expected) == len(found)
    for one, other in zip(expected.values(), found.values(), strict=True):
        assert np.array_equal(one, other), f"at {sizes}:\n{text(before)}\nbecame\n{text(after)}"
