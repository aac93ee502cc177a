"""Chains of very few rows by threads: right in the interpreter, also masked, of pages, and of float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_chains_in_parts import data, decoding, in_parts, off, wanted

import loopir as lp
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Func


def by_threads(s: lp.Schedule, part: int = 32) -> Func:
    return in_parts(s, part=part, by_threads=True)


@pytest.mark.parametrize(("group", "rows", "keys", "depth"), [(2, 1, 64, 16), (1, 2, 45, 24)])
def test_vectors_of_rows(group: int, rows: int, keys: int, depth: int) -> None:
    """Heads that share keys; a part that is shorter; sides of three threads."""
    some = data(2, group, rows, keys, depth)
    assert off(by_threads(decoding(2, group, rows, keys, depth)), some, wanted(*some)) < 0.02


def test_floats_of_32_bits() -> None:
    some = data(1, 1, 1, 64, 8, np.float32)
    assert off(by_threads(decoding(1, 1, 1, 64, 8, dtype="float32")), some, wanted(*some)) < 1e-5


def test_parts_that_a_mask_leaves_out() -> None:
    """Of the second head, whose length ends in the first part, the second part has no score."""
    some, lengths = data(2, 1, 1, 64, 8), np.array([45, 7], np.int32)
    func = by_threads(decoding(2, 1, 1, 64, 8, masked=True))
    got = interpret(func, [*some, lengths])["out"].astype(float)
    assert float(np.abs(got - wanted(*some, lengths=lengths)).max()) < 0.02


def test_pages_that_a_table_lists() -> None:
    q, k, v = data(2, 2, 1, 64, 8)
    table = np.array([2, 0, 3, 1], np.int32)
    pages = [x[0].reshape(4, 16, 8)[np.argsort(table)].reshape(4, 16, 1, 8).astype(ml_dtypes.bfloat16) for x in (k, v)]
    func = by_threads(decoding(2, 2, 1, 64, 8, page=16))
    got = interpret(func, [q, *pages, table])["out"].astype(float)
    assert float(np.abs(got - wanted(q, k, v)).max()) < 0.02
