"""One instance that touches an element, and when: what it says holds of every instance that there is."""

from collections.abc import Iterator

from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.analysis.dataflow.concrete_instances import (
    Done,
    iterations_touching,
    precedes,
    time_of,
    touches_between,
)
from loopir.analysis.dependence.access import Statement, statements_of
from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import Cond
from loopir.ir.verify.verify import evaluate
from loopir.testing import funcs

Env = dict[str, int]


def instances(s: Statement, sizes: Env, conds: tuple[Cond, ...] = ()) -> Iterator[Env]:
    """Every iteration in which `s` runs and `conds` hold."""
    envs = [sizes]
    for v, extent in zip(s.dims, s.extents, strict=True):
        assert extent is not None
        envs = [{**env, v: n} for env in envs for n in range(evaluate(extent, env))]
    yield from (env for env in envs if all(cond_holds(c, env) for c in (*s.conds, *conds)))


def visible_accesses(func: lp.Func) -> list[Done]:
    """The accesses of which indices and conditions tell all."""
    every = ((s, a) for s in statements_of(func) if not s.maybe for a in s.accesses)
    return [(s, a) for s, a in every if not a.maybe and None not in a.at and a.at]


@settings(max_examples=25)
@given(funcs(), st.integers(0, 3), st.data())
def test_what_is_said_of_an_element_holds_of_every_instance(func: lp.Func, size: int, data: st.DataObject) -> None:
    sizes = dict.fromkeys(func.sizes, size)
    for done in visible_accesses(func)[:4]:
        s, a = done
        try:
            touched = [(env, tuple(evaluate(ix, env) for ix in a.at if ix)) for env in instances(s, sizes, a.conds)]
            element = data.draw(st.sampled_from([element for _, element in touched] or [(0,) * len(a.at)]))
            env = iterations_touching(done, element, sizes)
        except ZeroDivisionError:
            continue
        mine = [found for found, at in touched if at == element]
        assert env is not None or not mine
        assert all(found.items() >= (env or {}).items() for found in mine)
        first, last = (data.draw(st.lists(st.integers(0, 4), min_size=2, max_size=4)) for _ in range(2))
        between = [t for t in (time_of(done, found) for found in mine) if precedes(first, t) and precedes(t, last)]
        said = touches_between(done, element, first, last, sizes)
        assert said is None or said == bool(between)


def test_a_time_that_is_not_known_decides_nothing_after_it() -> None:
    assert precedes((0, 1, None), (0, 2, 5)) is True
    assert precedes((0, None, 1), (0, 2, 0)) is None
    assert precedes((0, 2, 1), (0, 2, 1)) is False


def test_one_index_tells_a_loop_and_by_it_the_next() -> None:
    func = lp.parse("""
        def f(n: "size", a: "out float32[4 * n, 2 * n]"):
            for i in range(n):
                for j in range(n):
                    a[2 * i + j, i * 2 + 1] = 1.0
    """)
    ((s, write),) = [(s, a) for s in statements_of(func) for a in s.accesses if a.write]
    assert iterations_touching((s, write), (7, 5), {"n": 9}) == {"n": 9, "i": 2, "j": 3}
    assert iterations_touching((s, write), (7, 4), {"n": 9}) is None  # no half of an iteration
    assert iterations_touching((s, write), (7, 5), {"n": 2}) is None  # i = 2 is none of two
    assert iterations_touching((s, write), (None, 5), {"n": 9}) == {"n": 9, "i": 2}
