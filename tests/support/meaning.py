"""The oracle of these tests: two nests compute the same, exactly, over a ring, or a field with the law of powers."""

from typing import Any

import numpy as np

import loopir as lp
import loopir.intrinsics
from loopir.errors import InterpretError, LoopirError, Undecided
from loopir.interp.interpret import cond_holds, interpret
from loopir.ir.grammar import Func
from loopir.ir.printer import text
from loopir.ir.verify.verify import evaluate


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


def outcome(func: Func, sizes: dict[str, int], seed: int, domain: str = "ring") -> dict[str, np.ndarray]:
    return interpret(func, arguments(func, sizes, seed), sizes, domain=domain)


def agree(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one.values(), other.values()))


def assert_same(before: Func, after: Func, sizes: dict[str, int], seed: int = 0) -> None:
    """What `before` computes at `sizes`, if it takes them and computes anything, `after` does.

    Over the ring every function is any function; a rewrite by exp(x + y) = exp(x) exp(y) is equal over the field.
    """
    if not all(cond_holds(c, sizes) for c in before.assumes):
        return
    try:
        expected = outcome(before, sizes, seed)
    except InterpretError:
        return  # an output that is never written, at this size
    same = agree(expected, outcome(after, sizes, seed))
    same = same or agree(*(outcome(x, sizes, seed, "field") for x in (before, after)))
    assert same, f"at {sizes}:\n{text(before)}\nbecame\n{text(after)}"


def same_in_the_ring(s: lp.Schedule, t: lp.Schedule, arrays: dict[str, Any], sizes: dict[str, int]) -> None:
    """Both compute the same of these arrays, exactly, over the ring."""
    want, got = (lp.interpret(x.func, arrays, sizes, domain="ring") for x in (s, t))
    for name, x in want.items():
        np.testing.assert_array_equal(got[name], x)


def on_threads(s: lp.Schedule, *arrays: Any) -> dict[str, Any]:
    """What the GPU's threads give, interpreted; it compiles for one, too."""
    assert lp.compile_source(s).cubin
    (program,) = lp.lower(s, "cuda")
    return lp.interpret(program, list(arrays))


def require_decided(refused: LoopirError) -> None:
    """Raise what the solver gave up on, instead of `refused`: it is no answer that could be compared with another."""
    if isinstance(refused.__cause__, Undecided):
        raise refused.__cause__
