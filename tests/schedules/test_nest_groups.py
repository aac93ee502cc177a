"""Partition: groups may become one exactly where no other group would have to run between them."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, strategies as st

from schedules.nest_groups import Partition, topological


@given(st.lists(st.frozensets(st.integers(0, 7), max_size=3), min_size=1, max_size=8), st.data())
def test_groups_are_separated_where_an_order_is_lost(before: list[frozenset[int]], data: st.DataObject) -> None:
    needs = [frozenset(k for k in of if k < n) for n, of in enumerate(before)]
    groups = [frozenset((n,)) for n in range(len(needs))]
    partition = Partition(needs, groups)
    while True:
        legal: list[tuple[frozenset[int], frozenset[int]]] = []
        for a, b in combinations(groups, 2):
            rest = [g for g in groups if g not in (a, b)]
            possible = topological(needs, [*rest, a | b]) is not None
            assert partition.separated(a, b) == (not possible)
            legal += [(a, b)] if possible else []
        if not legal:
            return
        a, b = data.draw(st.sampled_from(legal))
        partition.merge(a, b)
        groups = [*(g for g in groups if g not in (a, b)), a | b]
