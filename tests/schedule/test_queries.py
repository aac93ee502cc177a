"""What a schedule function sees of a nest: steps in memory by loop, proved by trying them."""

from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.grammar import Int, Load
from loopir.ir.layout.layouts import evaluate, strides_of
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import leaf_paths, nodes

NEST = """
def f(n: "size", m: "size", A: "float32[n, m]", I: "int64[m]", V: "float32[m]", B: "out float32[m, n]", S: "out float32[n]"):
    for i in range(n):
        for j in range(m):
            B[j, i] = A[i, m - 1 - j] + V[j // 2]
    for r in range(n):
        for k_o in range((m + 3) // 4):
            for k_i in range(4):
                if k_o * 4 + k_i < m:
                    S[r] = sum(A[r, k_o * 4 + k_i] * V[I[k_o * 4 + k_i]], over=(k_o, k_i), init=0.0)
"""  # noqa: E501


def test_steps_in_memory_by_loop() -> None:
    s = lp.Schedule(lp.parse(NEST))
    a, v, b = s.accesses("B")
    assert (a.text, a.write, v.text, b.text, b.write) == ("A[i, m - 1 - j]", False, "V[j // 2]", "B[j, i]", True)
    assert {k: text(x) for k, x in a.strides.items()} == {"i": "m", "j": "-1"}
    assert {k: text(x) for k, x in b.strides.items()} == {"i": "1", "j": "n"}
    assert v.strides == {"i": Int(0), "j": None}
    assert b.contiguous("i")
    assert not b.contiguous("j")
    assert v.invariant("i")
    assert not v.invariant("j")
    x, gather, _, out = s.accesses("S")
    assert x.contiguous("k_i")
    assert {k: text(x) for k, x in x.strides.items()} == {"r": "m", "k_o": "4", "k_i": "1"}
    assert gather.strides == {"r": Int(0), "k_o": None, "k_i": None}
    assert out.write
    assert out.invariant("k_o")


def test_what_is_folded_over() -> None:
    s = lp.Schedule(lp.parse(NEST))
    assert s.reduced("S") == ("k_o", "k_i")
    assert s.reduced("B") == ()


def test_cost_and_intensity() -> None:
    cost = lp.Schedule(lp.parse(NEST)).cost
    assert str(cost.by_statement["B"]) == "m*n"
    assert cost.intensity.subs({"n": 64, "m": 64}) is not None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_step_is_what_an_iteration_moves(data: st.DataObject) -> None:
    """Whatever is claimed, moving the loop by one moves the offset by the stride, everywhere."""
    c = data.draw(st.lists(st.integers(-3, 3), min_size=6, max_size=6))
    at = f"i * {c[0]} + j * {c[1]} + (i + {abs(c[2])}) // 2 * {c[3]} + {c[4]}, j * {c[5]} + i % 3"
    f = parse(f'def f(A: "float32[99, 7]", B: "out float32[9, 9]"):\n  for i in range(9):\n    for j in range(9):\n'
              f'      B[i, j] = A[{at}]\n')  # fmt: skip
    touch = lp.Schedule(f).accesses("B")[0]
    load = next(n for p in leaf_paths(f.body) for n in nodes(p.stmt) if isinstance(n, Load))

    def offset(i: int, j: int) -> int:
        strides = strides_of(load.buffer)
        return sum(evaluate(x, {"i": i, "j": j}) * evaluate(s, {}) for x, s in zip(load.at, strides, strict=True))

    for loop, (di, dj) in {"i": (1, 0), "j": (0, 1)}.items():
        stride = touch.strides[loop]
        moved = {offset(i + di, j + dj) - offset(i, j) for i in range(5) for j in range(5)}
        if stride is not None:
            assert moved == {evaluate(stride, {})}


def test_loops_by_place_and_form() -> None:
    s = lp.Schedule(lp.parse(NEST))
    assert [s.loop(x).var for x in ("S[0]", "S[-1]", "S[1]", "S.*_i", "*_o", "B.j")] == [
        "r", "k_i", "k_o", "k_i", "k_o", "j",
    ]  # fmt: skip
    assert s.split("B[-1]", 8).last.loops == ("j_o", "j_i")
    assert s.split("S.*_o", 2).script() == 's = s.split("S.*_o", 2)\n'
    for name, told in {
        "S.k_*": "'S.k_*' can mean k_o and k_i",
        "S[3]": "'S[3]' is no loop: there are 3 around stage 'S', r, k_o and k_i",
        "*_x": "there is no loop of the form '*_x'; the loops there are i, j, r, k_o and k_i",
        "B.k*": "there is no loop of the form 'k*' around stage 'B'; the loops there are i and j",
        "Q[0]": "there is no stage 'Q'",
    }.items():
        refusal = s.why("split", name, 4)
        assert refusal is not None
        assert told in str(refusal)


def test_loops_by_what_they_carry() -> None:
    s = lp.Schedule(lp.parse(NEST))
    assert s.loops("S", carried=True) == ("k_o", "k_i")
    assert s.loops("S", carried=False) == ("r",)
    assert s.loops(like="k*") == ("k_o", "k_i")
    assert s.loops(f"{s.stages[0]}.k*") == s.loops(s.stages[0], like="k*")
    assert s.parallel("i").loops(kind="parallel") == ("i",)
    assert s.reorder(*s.loops("B")[::-1]).loops("B", carried=False) == ("j", "i")


def test_the_most_iterations_of_a_loop_are_those_of_the_longest_run() -> None:
    s = lp.Schedule(lp.parse(
        'def f(n: "size", x: "float32[n + 16]", y: "inout float32[16]"):\n    for i in range(16):\n'
        "        for j in range(i):\n            y[j] = x[i]\n    for k in range(16):\n"
        "        for l in range(min(n, 3 * k)):\n            y[k] = x[l]"))  # fmt: skip
    first, second = s.stages
    assert [s.longest(first, "i"), s.longest(first, "j"), s.longest(second, "l")] == [16, 15, None]
