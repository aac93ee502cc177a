"""Traversal and rewriting of programs: every statement has its path, and a rewrite changes what it is told to."""

from itertools import dropwhile

import pytest
from hypothesis import given, settings, strategies as st

from loopir.ir.grammar import Alloc, Cmp, Func, If, Int, Loop, Reduce, Stmt, Store, Var
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.labels import has_cache_hint, labels_in
from loopir.ir.traverse.queries import statements_unknown
from loopir.ir.traverse.walk import (
    accessed_buffers,
    declared_names,
    enclosing_nest,
    guard_body,
    labels_of,
    leaf_paths,
    leaf_paths_in,
    leaf_paths_of,
    loop_of,
    loops,
    loops_of,
    map_body,
    name_of_stmt,
    nests_declaring,
    nests_touching,
    only_leaf,
    path_to,
    replace,
    replace_loop,
    replace_stmt,
    rewrite,
    siblings,
    statements,
    top_level_nests,
    top_level_nests_in,
)
from loopir.ir.verify.verify import verify
from loopir.testing.generate.strategies import funcs
from loopir.testing.generate.trees import anything

programs = st.one_of(funcs(), anything())


@given(programs)
@settings(max_examples=20, deadline=None)
def test_every_statement_has_its_path(func: Func) -> None:
    paths = list(leaf_paths(func.body))
    leaves = [s for s in statements(func.body) if isinstance(s, Store | Reduce)]
    assert [id(p.stmt) for p in paths] == [id(s) for s in leaves] == [id(p.stmt) for p in leaf_paths_of(func)]
    assert list(labels_of(func)) == [s.label for s in leaves]
    for p in paths:
        assert [*map(id, path_to(func, p.stmt))] == [*map(id, (*p.around, p.stmt))]
        assert [x.var for x in p.loops] == [s.var for s in p.around if isinstance(s, Loop)]
        assert sum(enclosing_nest(p) is top.nest for top in top_level_nests(func)) == 1
    assert list(loops_of(func)) == [x.var for x in loops(func.body)]
    for x in loops(func.body):
        assert loop_of(func, x.var) is x


@given(programs)
@settings(max_examples=20, deadline=None)
def test_the_only_statement_of_a_loop_and_those_that_touch_a_buffer(func: Func) -> None:
    paths = list(leaf_paths(func.body))
    for x in loops(func.body):
        inside, found = [p for p in paths if p.is_in(x)], only_leaf(func, x)
        assert (found is None) == (len(inside) != 1)
        if found is not None:
            around = dropwhile(lambda s: isinstance(s, Alloc), inside[0].around)
            assert found.stmt is inside[0].stmt
            assert [*map(id, found.around)] == [*map(id, around)]
    for name in {b for p in paths for b in accessed_buffers(p.stmt)}:
        assert list(leaf_paths(func.body, name)) == [p for p in paths if name in accessed_buffers(p.stmt)]


@given(programs)
@settings(max_examples=20, deadline=None)
def test_what_is_known_of_loops_that_stay_is_what_a_walk_finds(func: Func) -> None:
    verify(func)
    leaf_paths_of(func), loops_of(func)  # which are known then
    for x in loops(func.body):
        made = replace_loop(func, x.var, replace)  # another loop of the same, and others around it
        found, walked = leaf_paths_of(made), list(leaf_paths(made.body))
        assert [(p.path, [*map(id, (*p.around, p.stmt))]) for p in found] == [
            (p.path, [*map(id, (*p.around, p.stmt))]) for p in walked
        ]
        assert {name: id(s) for name, s in loops_of(made).items()} == {s.var: id(s) for s in loops(made.body)}
        names = {name for s in statements(made.body) if (name := name_of_stmt(s)) is not None}
        assert frozenset[str]().union(*map(declared_names, made.body)) == names
        for s in statements(made.body):
            assert path_to(made, s)[-1] is s


@pytest.mark.parametrize("count", [2, 64])
def test_what_a_step_leaves_beside_what_it_changes_is_not_walked_again(count: int) -> None:
    body = "".join(f"        for j{n} in range(4):\n            a[i, {n}, j{n}] = 1.0\n" for n in range(count))
    func = parse(f'def f(n: "size", a: "out float32[n, 64, 4]"):\n    for i in range(n):\n{body}')
    verify(func)
    made = replace_loop(func, "j1", lambda x: replace(x, extent=Int(3)))
    for asked in (declared_names, labels_in, has_cache_hint):
        unknown, known = statements_unknown(made.body[0], asked)
        assert len(unknown) == 3, "the nest, the loop that was changed, and what is in it"
        assert len(known) == count - 1


@given(programs)
@settings(max_examples=20, deadline=None)
def test_a_rewrite_that_changes_nothing_gives_the_same(func: Func) -> None:
    assert rewrite(func.body, lambda s: None) is func.body or rewrite(func.body, lambda s: None) == func.body
    assert map_body(func.body, lambda s: s) == func.body
    for s in statements(func.body):
        assert replace_stmt(func, s, s) == func
    for x in loops(func.body):
        assert replace_loop(func, x.var, lambda s: s) == func


@given(programs)
@settings(max_examples=20, deadline=None)
def test_a_statement_is_replaced_and_nothing_else(func: Func) -> None:
    leaves = [p.stmt for p in leaf_paths(func.body)]
    for old in leaves:
        assert isinstance(old, Store | Reduce)
        new = replace(old, label="another")
        after = replace_stmt(func, old, new)
        assert [p.stmt for p in leaf_paths(after.body)] == [new if s is old else s for s in leaves]
        assert [p.stmt for p in leaf_paths(replace_stmt(func, old, ()).body)] == [s for s in leaves if s is not old]


def named(s: Stmt) -> str | None:
    """The loop or the label that `s` declares."""
    return s.var if isinstance(s, Loop) else s.label if isinstance(s, Store | Reduce) else None


@given(programs, st.data())
@settings(max_examples=20, deadline=None)
def test_nests_by_what_they_declare_and_touch(func: Func, data: st.DataObject) -> None:
    names = [x for x in map(named, statements(func.body)) if x]
    every = top_level_nests(func)
    if names:
        name = data.draw(st.sampled_from(names))
        found = [n.nest for n in top_level_nests_in(func, nests_declaring(name))]
        held = [top.nest for top in every if name in map(named, statements((top.nest,)))]
        assert [*map(id, found)] == [*map(id, held)]
    for b in {b.name for p in leaf_paths(func.body) for b in p.stmt.buffers}:
        writers = [p for p in leaf_paths(func.body) if any(x.name == b for x in p.stmt.buffers)]
        met = leaf_paths_in(func, nests_touching(b))
        assert all(any(p.stmt is q.stmt for q in met) for p in writers)


def test_siblings_and_guards() -> None:
    func = parse("""
def f(a: "inout float32[4]"):
    for i in range(4):
        a[i] = 1.0
        a[i] = 2.0
        a[i] = 3.0
""")
    (loop,) = func.body
    assert isinstance(loop, Loop)
    one, two, three = loop.body
    assert siblings(loop.body, two) == ((one,), (three,))
    with_two: tuple[Stmt, ...] = (two,)
    assert guard_body(with_two, ()) is with_two
    least, most = Cmp("<=", Int(1), Var("i")), Cmp("<", Var("i"), Int(3))
    (guarded,) = guard_body(with_two, (least, most))
    assert isinstance(guarded, If)
    assert str(replace_stmt(func, two, guarded)).count("if 1 <= i and i < 3:") == 1


@pytest.mark.parametrize("name", ["j", "a", ""])
def test_a_loop_that_is_not_there_is_none(name: str) -> None:
    func = parse('def f(a: "inout float32[4]"):\n    for i in range(4):\n        a[i] = 1.0\n')
    assert loop_of(func, name) is None
