"""Labels of statements, and whether there are cache hints, as a walk over all statements finds them."""

from hypothesis import given, settings

from loopir.ir.grammar import Func, Prefetch, Reduce, Store
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.labels import has_cache_hint, labels_in, labels_of
from loopir.ir.traverse.walk import statements
from loopir.schedule import Schedule
from loopir.testing.generate.trees import anything


@given(anything())
@settings(max_examples=20, deadline=None)
def test_labels_are_those_of_all_statements(func: Func) -> None:
    for _ in range(2):  # the second time from memory
        assert labels_of(func) == {s.label for s in statements(func.body) if isinstance(s, Store | Reduce)}
        for s in statements(func.body):
            assert labels_in(s) == {x.label for x in statements((s,)) if isinstance(x, Store | Reduce)}
            assert has_cache_hint(s) == any(isinstance(x, Prefetch) for x in statements((s,)))


def test_a_hint_is_seen() -> None:
    nest = 'def f(n: "size", a: "float32[n]", b: "out float32[n]"):\n    for i in range(n):\n        b[i] = a[i]\n'
    s = Schedule(parse(nest))
    assert not any(map(has_cache_hint, s.func.body))
    assert any(map(has_cache_hint, s.prefetch("b", "a", "i", 2).func.body))
