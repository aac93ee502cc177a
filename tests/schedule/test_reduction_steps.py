"""rfactor and decompose_reduction on awkward nests: guards, kept loops, tuples, ragged loops; refusals by message."""

import re
from itertools import product

import pytest
from meaning import assert_same

import loopir as lp
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import leaf_paths, loops
from loopir.schedule import Schedule
from loopir.testing.oracles.brute_force import first_violation, small_sizes

AWKWARD = {
    "kept loop inside": """
def f(n: "size", A: "float32[n, 5]", C: "out float32[5]"):
    for k in range(n):
        for j in range(5):
            C[j] = sum(A[k, j], over=k, init=3.0)
""",
    "two loops onto one element": """
def f(n: "size", A: "float32[n, 3, 3]", C: "out float32[5]"):
    for x in range(5):
        C[x]: "C_0" = 1.0
    for k in range(n):
        for i in range(3):
            for j in range(3):
                C[i + j]: "C" = sum(A[k, i, j], over=k)
""",
    "a loop that tells nothing apart": """
def f(n: "size", A: "float32[n, 4]", C: "out float32[2]"):
    for k in range(n):
        for z in range(2):
            for m in range(2):
                C[z] = sum(A[k, z * 2 + m] * 3.0, over=k, init=0.0)
""",
    "triangle": """
def f(n: "size", A: "float32[n, n]", C: "out float32[n]"):
    for i in range(n):
        for k in range(i + 1):
            C[i] = sum(A[i, k], over=k, init=0.0)
""",
    "guards of every sort": """
def f(n: "size", m: "size", A: "float32[n, 12]", C: "out float32[n]"):
    for i in range(n):
        for a in range(4):
            if a < m:
                for b in range(3):
                    if a * 3 + b < 11 and i >= 0:
                        C[i] = sum(A[i, a * 3 + b], over=(a, b), init=2.0)
""",
    "argmax": """
def f(n: "size", A: "float32[3, n]", V: "out float32[3]", I: "out int64[3]"):
    for i in range(3):
        for k in range(n):
            V[i], I[i] = argmax(A[i, k], int64(k), over=k, init=(-inf, 9))
""",
    "an init from memory": """
def f(n: "size", A: "float32[3, n]", b: "float32[3]", C: "out float32[3]"):
    for i in range(3):
        for k in range(n):
            C[i] = max(A[i, k], over=k, init=b[i] + 1.0)
""",
    "an element from memory": """
def f(n: "size", A: "float32[n]", ix: "int32[4]", C: "inout float32[9]"):
    for k in range(n):
        for j in range(4):
            C[ix[j]] = sum(A[k], over=k)
""",
    "values that pass through memory": """
def f(n: "size", A: "float32[n]", C: "out float32[1]"):
    with alloc("float32[1]") as t:
        for k in range(n):
            t[0] = A[k] * 2.0
            C[0] = sum(t[0], over=k, init=0.0)
""",
    "its own element before": """
def f(n: "size", A: "float32[n]", C: "inout float32[5]"):
    for j in range(4):
        for k in range(n):
            C[j + 1] = sum(A[k] * C[j], over=k)
""",
}  # fmt: skip


def assert_meaning(s: Schedule, after: Schedule) -> None:
    for n in (0, 1, 4, 5):
        for m in (0, 3) if "m" in s.func.sizes else (0,):
            assert_same(s.func, after.func, {"n": n, "m": m} if "m" in s.func.sizes else {"n": n})
    assert parse(str(after)) == after.func


@pytest.mark.parametrize("name", sorted(AWKWARD))
def test_every_reduced_loop_can_be_factored_also_when_split(name: str) -> None:
    s = Schedule(parse(AWKWARD[name]))
    stage = "V" if name == "argmax" else "C"
    (place,) = [p for p in leaf_paths(s.func.body) if p.stmt.label == stage]
    for loop in place.stmt.over:
        assert_meaning(s, s.rfactor(stage, loop))
        for factor, tail in product((1, 2, 3), ("guard", "peel")):
            if s.why("split", loop, factor, tail=tail) is not None:
                continue
            t = s.split(loop, factor, tail=tail)
            for part in [x for x in t.loops(stage) if x not in s.loops()]:
                refused = t.why("rfactor", stage, part)
                if refused is not None:
                    # the bound of a part depends on the other loop, or another part folds between
                    assert re.search("depends on|(C|V)_1 at", str(refused)), refused
                    continue
                u = t.rfactor(stage, part)
                assert_meaning(s, u)
                again = next(x for x in u.loops(stage) if x.startswith(part))
                assert_meaning(s, u.rfactor(stage, again))
                if u.why("decompose_reduction", stage) is None:
                    assert_meaning(s, u.decompose_reduction(stage))


def lp_places(s: Schedule):
    from loopir.ir.traverse.walk import leaf_paths

    return leaf_paths(s.func.body)


def test_split_k_makes_independent_loops() -> None:
    A, B = lp.placeholder((8, 64), "float32", name="A"), lp.placeholder((64, 8), "float32", name="B")
    k = lp.reduce_axis(64, name="k")
    C = lp.compute((8, 8), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = lp.Schedule(C).split("k", 16).reorder("k_o", "i", "j", "k_i").rfactor("C", "k_o").parallel("k_o")
    s = s.reorder("i_1", "j_1", "k_o_1").parallel("i_1")
    assert list(s.buffers) == ["A", "B", "C", "C_rf"]
    assert_same(lp.Schedule(C).func, s.func, {})
    assert [x.kind for x in loops(s.func.body)].count("parallel") == 2


REFUSED = [
    (
        """
def f(n: "size", A: "float32[n]", C: "inout float32[1]"):
    for k in range(n):
        C[0] = sum(A[k] * C[0], over=k)
""",
        ("rfactor", "C", "k"),
        r"C would be folded after its loops\n  C at \(k=0\) writes C\[0\], which .* at \(k=1\) reads later",
    ),
    (
        """
def f(n: "size", A: "float32[n]", L: "int32[n]", C: "out float32[1]"):
    for i in range(n):
        for k in range(L[i]):
            C[0] = sum(A[k], over=(i, k), init=0.0)
""",
        ("rfactor", "C", "k"),
        "the extent of 'k' depends on i, and the partial results outlive that",
    ),
    (
        """
def f(n: "size", A: "float32[n]", L: "int32[n]", C: "out float32[n]"):
    for i in range(n):
        for k in range(L[i]):
            C[i] = sum(A[k], over=k, init=0.0)
""",
        ("rfactor", "C", "k"),
        r"'k' runs .*L\[i\].* times, and how much memory that needs at most is not known",
    ),
    (
        """
def f(n: "size", A: "float32[n]", P: "inout bool[1]", C: "inout float32[1]"):
    for k in range(n):
        if P[0]:
            C[0] = sum(A[k], over=k)
        P[0] = A[k] < 2.0
""",
        ("rfactor", "C", "k"),
        "C would ask P again after its loops, which write that",
    ),
    (
        """
def f(n: "size", A: "float32[n]", C: "inout float32[n]"):
    for i in range(n + 3):
        for k in range(n):
            for h in range(n):
                if i + k + h < n:
                    C[i] = sum(A[k], over=(k, h))
""",
        ("rfactor", "C", "k"),
        r"C would be folded where it is not now: C at .* touches C\[1\], and its shape is \(1,\)",
    ),
    (
        """
def f(n: "size", A: "float32[n, n]", C: "out float32[n]"):
    for i in range(n):
        for k in range(n):
            C[i] = sum(A[i, k], over=k, init=0.0, label="first")
        for h in range(n):
            C[i] = sum(A[h, i], over=h, label="more")
""",
        ("decompose_reduction", "C", "i"),
        "stage 'C' is folded by 'first' and 'more'",
    ),
    (
        """
def f(n: "size", A: "float32[n, n]", C: "out float32[n]"):
    for i in range(n):
        for k in range(n):
            C[i] = sum(A[i, k], over=k, init=0.0)
""",
        ("decompose_reduction", "C", "k_"),
        "there is no loop 'k_'",
    ),
    (
        """
def f(n: "size", A: "float32[n, n]", C: "inout float32[n]"):
    for i in range(n):
        for k in range(n):
            C[i] += A[i, k]
""",
        ("decompose_reduction", "C", "i"),
        "C has no init: it folds into what is there",
    ),
    (
        """
def f(n: "size", A: "float32[n, n]", B: "out float32[n]", C: "out float32[n]"):
    for i in range(n):
        with alloc("float32[1]") as t:
            t[0] = A[i, 0]
            for k in range(n):
                for h in range(n):
                    C[i] = sum(A[k, h], over=(k, h), init=t[0])
        B[i] = 0.0
""",
        ("decompose_reduction", "C", "i"),
        "C starts from t, which is allocated inside 'i'",
    ),
    (
        """
def f(n: "size", A: "float32[n, n]", C: "out float32[n]"):
    for i in range(n):
        for k in range(n):
            for h in range(n):
                C[i] = sum(A[k, h], over=(k, h), init=0.0)
""",
        ("decompose_reduction", "C", "h"),
        "C starts before 'h' is entered",
    ),
    *(
        (
            """
def f(A: "float32[4, 4]", C: "inout float32[4, 4]"):
    for i in range(4):
        for j in range(4):
            C[i, j] = sum(A[i, j])
""",
            step,
            r"C does not reduce over 'j'; it does over none(.|\n)*instead: a fold over loops",
        )
        for step in (("rfactor", "C", "j"), ("stream_k", "C", "i", "j", 2))
    ),
]


@pytest.mark.parametrize(("source", "step", "message"), REFUSED)
def test_what_is_refused_says_why(source: str, step: tuple[str | int, ...], message: str) -> None:
    s = Schedule(parse(source))
    with pytest.raises(lp.ScheduleError, match=message):
        getattr(s, str(step[0]))(*step[1:])


def test_threads_of_one_axis_side_by_side_are_counted_once() -> None:
    s = Schedule(
        parse(
            """
def f(A: "float32[4, 256]", S: "out float32[4]", B: "out float32[4, 256]"):
    for i in range(4):
        for k in bind("threadIdx.x", 256):
            S[i] = sum(A[i, k], over=k, init=0.0)
        for j in bind("threadIdx.x", 200):
            B[i, j] = A[i, j]
        for h in bind("threadIdx.x", 56):
            B[i, h + 200]: "rest" = A[i, h + 200]
"""
        )
    )
    assert s.why("bind", "i", "threadIdx.y") is None
    with pytest.raises(lp.ScheduleError, match=r"a block would have 2048 threads \('i_i' with k\)"):
        Schedule(parse(str(s).replace("4", "8"))).split("i", 8).bind("i_i", "threadIdx.y")


@pytest.mark.parametrize(("init", "free"), [("C[0]", True), ("C[1]", False), ("C[0] + 1.0", False)])
def test_a_start_from_its_own_element_stands_anywhere(init: str, free: bool) -> None:
    """Such stores change nothing, so their order with the folds of other iterations is free."""
    s = Schedule(
        parse(f"""
def f(n: "size", A: "float32[n, n]", C: "inout float32[2]"):
    for i in range(n):
        for k in range(i):
            C[0] = sum(A[i, k] * C[1], over=k, init={init})
""")
    )
    error = s.why("decompose_reduction", "C", "i")
    assert (error is None) == free, error
    if free:
        for n in (0, 1, 3, 4):
            assert_same(s.func, s.decompose_reduction("C", "i").func, {"n": n})


def test_a_fold_is_over_no_loop_that_makes_its_memory_anew() -> None:
    """rfactor took the loop around the memory for the first that S_local is over; without an iteration it crashed."""
    nest = """
def f(A: "float32[8]", S: "inout float32[1]"):
    for k in range({}):
        for q in range(4):
            S[0] = sum(A[k + q], over=(k, q))
"""
    for count in (0, 4):
        s = Schedule(parse(nest.format(count))).cache_write("S", "local", at="k")
        assert_same(s.func, s.rfactor("S_local", "q").func, {})
        with pytest.raises(lp.ScheduleError, match="S_local does not reduce over 'k'; it does over q"):
            s.rfactor("S_local", "k")


def test_first_values_may_speak_of_a_loop_that_tells_no_elements_apart() -> None:
    """rfactor folded over that loop, too, and ended with a VerifyError."""
    s = Schedule(
        parse("""
def f(A: "float32[8]", B: "float32[4]", S: "inout float32[1]"):
    for q in range(4):
        for i in range(3):
            if q != 3:
                S[0] = sum(A[q + i], over=q, init=B[i])
""")
    )
    assert_same(s.func, s.rfactor("S", "q").func, {})


ATOMIC = """
def f(n: "size", A: "float32[n, 4]", Y: "inout float32[1]"):
    for i in {outer}:
        for k in {inner}:
            Y[0] = sum(A[i, k], over=(i, k), atomic=True)
"""


@pytest.mark.parametrize("kind", ["parallel(4)", 'bind("blockIdx.x", 4)'])
def test_partial_results_of_an_atomic_fold_are_not_folded_at_once(kind: str) -> None:
    """They lost the atomic update, and iterations that run at once folded into one element."""
    s = lp.Schedule(lp.parse(ATOMIC.format(outer="range(n)", inner=kind)))
    with pytest.raises(
        lp.ScheduleError, match="iterations of k run at once, and folds into partial results are not atomic"
    ):
        s.rfactor("Y", "i")


def test_partial_results_of_an_atomic_fold_are_folded_one_after_the_other() -> None:
    func = lp.parse(ATOMIC.format(outer="range(n)", inner="range(4)"))
    after = lp.Schedule(func).rfactor("Y", "i").func
    assert first_violation(func, after, small_sizes(func)) is None


def test_rfactor_folds_into_no_element_that_a_loop_of_none_keeps_unwritten() -> None:
    """Of no iterations of r nothing is stored, and nothing folded."""
    source = """
def f(n: "size", A: "int32[4]", Y: "inout int32[1]"):
    with alloc("int32[1]") as T:
        for z in range(EXT):
            T[0]: "zero" = 100
        for k in range(4):
            for r in range(EXT):
                T[0] = min(A[k], over=k)
        for y in range(EXT):
            Y[0] = T[0]
"""
    s = lp.Schedule(lp.parse(source.replace("EXT", "n")))
    with pytest.raises(lp.ScheduleError, match="into elements of T that nothing may have written"):
        s.rfactor("T", "k")
    assert lp.Schedule(lp.parse(source.replace("EXT", "2"))).why("rfactor", "T", "k") is None


FOLDED_SELDOM = """
def f(n: "size", m: "size", A: "int32[4]", Y: "inout int32[1]"):
    with alloc("int32[1]") as T:
        for z in range(n):
            {around}
        for k in range(4):
            for r in range(n):
                T[0] = min(A[k], over=(k, r))
        for y in range(n):
            Y[0] = T[0]
"""


def test_rfactor_asks_whether_loops_that_it_leaves_out_let_nothing_be_folded() -> None:
    """At n = 0 nothing is stored to T, and nothing is folded into it."""
    s = lp.Schedule(lp.parse(FOLDED_SELDOM.format(around='T[0]: "first" = 100')))
    with pytest.raises(lp.ScheduleError, match="elements of T that nothing may have written\n  instead: store to T"):
        s.rfactor("T", "k")
    first = '        T[0]: "first" = 100\n        for k in'
    stored = lp.parse(FOLDED_SELDOM.format(around="Y[0] = 3").replace("        for k in", first))
    after = lp.Schedule(stored).rfactor("T", "k").func
    assert first_violation(stored, after, small_sizes(stored)) is None


def test_what_is_stored_just_before_a_fold_is_there() -> None:
    """In the same iteration, as an element or as the whole buffer, under the same guard or none."""
    source = """
def f(n: "size", m: "size", A: "int32[4]", Y: "inout int32[n, 2]"):
    for i in range(n):
        with alloc("int32[2]") as T:
            if i < m:
                {store}
                for k in range(4):
                    for r in range(m - 2):
                        T[1] = min(A[k], over=(k, r), label="fold")
                Y[i, 0] = T[1]
"""
    for store in ('T[1]: "first" = 100', "for e in range(2):\n                    T[e] = 100"):
        func = lp.parse(source.format(store=store))
        assert first_violation(func, lp.Schedule(func).rfactor("fold", "k").func, small_sizes(func)) is None, store
    for store in ('T[0]: "first" = 100', 'for e in range(m - 2):\n                    T[1]: "first" = 100'):
        assert lp.Schedule(lp.parse(source.format(store=store))).why("rfactor", "fold", "k") is not None, store


@pytest.mark.parametrize(("guard", "taken"), [("k < n and o * 4 + i < n", True), ("o * 4 + i + k < n", False)])
def test_what_is_filled_under_the_same_guards_may_be_folded_into_anywhere(guard: str, taken: bool) -> None:
    """At n = 1 nothing stores to c[1], which the second fold would ask if it had no guard."""
    s = Schedule(
        parse(f"""
def f(n: "size", x: "float32[8]", m: "inout float32[2]"):
    with alloc("float32[2]") as c:
        for j in range(2):
            if j < n:
                c[j]: "in" = m[j]
        for o in range(2):
            for i in range(4):
                for k in range(2):
                    if {guard}:
                        c[k] = max(x[o * 4 + i], over=(o, i))
        for h in range(2):
            if h < n:
                m[h]: "out" = c[h]
""")
    )
    told = s.why("rfactor", "c", "o")
    assert (told is None) == taken, told
    if told is None:
        assert_same(s.func, s.rfactor("c", "o").func, {"n": 1})
