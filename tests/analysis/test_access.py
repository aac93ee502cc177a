"""What each statement touches, when, and under which conditions."""

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dependence.access import Access, Statement, statements_of
from loopir.ir.grammar import Int, Var
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text

HEAD = (
    'def f(n: "size", m: "size", a: "inout float32[8, 8]", b: "inout float32[8]", ix: "inout int32[8]", '
    'flag: "bool[8]"):'
)


def found(*lines: str) -> list[Statement]:
    return list(statements_of(parse("\n".join([HEAD, *(f"    {line}" for line in lines)]))))


def spelled(access: Access) -> str:
    at = ", ".join("?" if x is None else text(x) for x in access.at)
    given = "".join(f" if {text(c)}" for c in access.conds)
    return f"{'write' if access.write else 'read'} {access.buffer}[{at}]{given}"


def touched(s: Statement) -> list[str]:
    return [spelled(a) for a in s.accesses]


def test_a_store_reads_its_value_and_writes_its_element() -> None:
    (s,) = found("for i in range(n):", "    a[i, i + 1] = b[i] * b[2]")
    assert (s.label, s.init, s.dims, s.extents) == ("a", False, ("i",), (Var("n"),))
    assert touched(s) == ["read b[i]", "read b[2]", "write a[i, i + 1]"]
    assert not s.maybe


def test_the_arms_of_a_select_are_read_where_they_are_taken() -> None:
    (s,) = found("for i in range(n):", "    b[i] = b[i + 1] if i < 2 and i < m else b[0]")
    assert touched(s) == ["read b[i + 1] if i < 2 if i < m", "read b[0] if not (i < 2 and i < m)", "write b[i]"]


def test_guards_hold_on_their_side() -> None:
    yes, no = found("for i in range(n):", "    if i < m:", "        b[i] = 1.0", "    else:", "        b[0] = 2.0")
    assert [text(c) for c in yes.conds] == ["i < m"]
    assert [text(c) for c in no.conds] == ["not i < m"]


def test_what_comes_from_memory_is_read_and_not_seen() -> None:
    (s,) = found(
        "for i in range(ix[0]):", "    if flag[i] and i < n:", "        b[ix[i]] = a[i, ix[b_at]]".replace("b_at", "2")
    )
    assert s.extents == (None,)
    assert [text(c) for c in s.conds] == ["i < n"]
    assert s.maybe
    assert touched(s) == ["read ix[0]", "read flag[i]", "read a[i, ?]", "read ix[2]", "read ix[i]", "write b[?]"]


def test_a_select_on_memory_may_read() -> None:
    (s,) = found("for i in range(n):", "    b[i] = b[i + 1] if flag[i] else 0.0")
    assert [(a.buffer, a.maybe) for a in s.accesses] == [("flag", False), ("b", True), ("b", False)]


def test_a_reduction_is_its_start_and_its_folds() -> None:
    start, fold = found(
        "for i in range(n):", "    for k in range(m):", "        b[i] = sum(a[i, k], over=k, init=b[7])"
    )
    assert (start.name, start.dims, touched(start)) == ("b (its init)", ("i",), ["read b[7]", "write b[i]"])
    assert (fold.name, fold.dims) == ("b", ("i", "k"))
    assert touched(fold) == ["read a[i, k]", "read b[i]", "write b[i]"]
    assert [a.fold for a in fold.accesses] == [False, True, True]
    assert start.when < fold.when


def test_a_start_outside_its_loops_keeps_what_does_not_concern_them() -> None:
    start, _ = found(
        "for k in range(m):", "    for i in range(n):", "        if i < 3 and k < 2:",
        "            b[i] = sum(a[i, k], over=k, init=0.0)",
    )  # fmt: skip
    assert start.dims == ("i",)
    assert [text(c) for c in start.conds] == ["i < 3"]


def test_starts_side_by_side_follow_one_another() -> None:
    first, _, second, _ = found(
        "for k in range(m):", "    for i in range(n):", "        b[i] = sum(a[i, k], over=k, init=0.0)",
        "    for j in range(n):", "        a[j, 7] = sum(a[j, k], over=k, init=0.0)",
    )  # fmt: skip
    assert first.when[:2] < second.when[:2]


def test_memory_of_an_iteration_is_renewed_by_the_loops_around_it() -> None:
    one, two = found("for i in range(n):", '    with alloc("float32[8]") as t:', "        for j in range(8):",
                     "            t[j] = 0.0", "        b[i] = t[0]")  # fmt: skip
    assert [a.private for a in (*one.accesses, *two.accesses)] == [("i",), ("i",), ()]


def test_shared_memory_is_one_for_the_threads_of_a_block() -> None:
    (s,) = found('for i in bind("blockIdx.x", n):', '    for t in bind("threadIdx.x", 4):',
                 '        with alloc("float32[8]", scope="shared") as w:', "            w[t] = 0.0")  # fmt: skip
    assert s.accesses[0].private == ("i",)


def test_order_is_positions_and_loops() -> None:
    one, two, three = found("for i in range(n):", "    b[i] = 0.0", "    b[i] = 1.0", "b[0] = 2.0")
    assert one.when == (1, "i", 1)
    assert two.when == (1, "i", 3)
    assert three.when == (3,)


def test_statements_are_found_once() -> None:
    func = parse(f"{HEAD}\n    b[0] = 0.0")
    assert statements_of(func) is statements_of(func)
    assert statements_of(func)[0].accesses[0].at == (Int(0),)
