"""Whole operands at once give, bit for bit, what the meaning of an instruction gives element by element."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import loopir.intrinsics  # noqa: F401  (declares them)
from loopir.interp.array_meaning import array_meaning
from loopir.interp.interpret import interpret
from loopir.interp.value_domains import DOMAINS
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Buffer, Int, Loop
from loopir.ir.ops import INSTRUCTIONS, Instruction, find_instruction
from loopir.ir.traverse.walk import statements

for _name in ("wgmma_m64n8k16_bf16", "mma_m16n8k8_tf32"):
    find_instruction(_name)


def steps(fn: Instruction) -> int:
    loops = (s for s in statements(fn.meaning.body) if isinstance(s, Loop))
    return prod(x.extent.value for x in loops if isinstance(x.extent, Int))


SHORT = [fn for fn in INSTRUCTIONS.values() if steps(fn) <= 2048]


def shape(b: Buffer) -> tuple[int, ...]:
    return tuple(d.value for d in b.shape if isinstance(d, Int))


def drawn(rng: np.random.Generator, size: tuple[int, ...], t: DType, domain: str) -> Any:
    if t.is_float:
        return rng.integers(0, 1 << 32, size, np.uint32) if domain == "ring" else rng.normal(0, 9, size).astype(t.numpy)
    return rng.integers(-(1 << 62), 1 << 62, size).astype(t.numpy)


@pytest.mark.parametrize("domain", ["real", "ring"])
def test_whole_operands_and_their_elements_agree(domain: str) -> None:
    rng, load = np.random.default_rng(0), DOMAINS[domain]().load
    whole = 0
    for fn in SHORT:
        computed = array_meaning(fn, domain)
        if computed is None:
            continue
        whole += 1
        args = {a.buffer.name: a for a in fn.meaning.args}
        given = {n: drawn(rng, shape(a.buffer), a.buffer.dtype, domain) for n, a in args.items() if a.access != "out"}
        with np.errstate(all="ignore"):
            made = computed({n: load(x, args[n].buffer.dtype) for n, x in given.items()})
        for name, want in interpret(fn.meaning, given, domain=domain).items():
            got = DOMAINS[domain]().dump(made[name], args[name].buffer.dtype).reshape(want.shape)
            assert got.dtype == want.dtype
            assert got.tobytes() == want.tobytes(), fn.name
    assert whole > 0.8 * len(SHORT)  # not tuples, and in the ring not what is a hash there


def test_pairs_of_the_field_are_moved_and_not_added() -> None:
    products = [fn for fn in INSTRUCTIONS.values() if fn.name.startswith("mma_m16n8k16_bf16")]
    assert all(array_meaning(fn, "field") is None for fn in products)
    loads = [fn for fn in INSTRUCTIONS.values() if fn.name.startswith("ldmatrix")]
    assert all(array_meaning(fn, "field") is not None for fn in loads)
