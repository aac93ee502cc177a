"""Bank conflicts of shared memory: the words that each bank has to give, counted as a table of lanes says."""

import numpy as np
from hypothesis import given, settings, strategies as st

from loopir.analysis.cost.transactions import BANK_WORD, BANKS, WIDEST, distinct, words_per_bank
from loopir.ir.grammar import LANES

WORDS = st.lists(st.integers(0, 200), min_size=LANES, max_size=LANES)


def counted(words: list[int], width: int) -> list[list[int]]:
    part = LANES // (width // BANK_WORD)
    parts = [{*words[n : n + part]} for n in range(0, LANES, part)]
    return [[sum(w % BANKS == bank for w in wanted) for bank in range(BANKS)] for wanted in parts]


@settings(max_examples=60)
@given(WORDS, st.sampled_from((BANK_WORD, 2 * BANK_WORD, WIDEST)))
def test_each_bank_gives_each_word_once_to_a_part(words: list[int], width: int) -> None:
    assert words_per_bank(np.arange(LANES), np.array(words), width).tolist() == counted(words, width)


@given(st.integers(0, 10))
def test_neighbours_and_one_word_for_all_have_no_conflict(first: int) -> None:
    lanes = np.arange(LANES)
    assert words_per_bank(lanes, lanes + first).max() == 1
    assert words_per_bank(lanes, np.full(LANES, first)).sum() == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-50, 50)), max_size=40))
def test_distinct_pairs_are_in_order(pairs: list[tuple[int, int]]) -> None:
    rows, numbers = (np.array([p[n] for p in pairs], np.int64) for n in (0, 1))
    assert [*zip(*(x.tolist() for x in distinct(rows, numbers)))] == sorted({*pairs})
