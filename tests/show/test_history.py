"""The history of a Schedule: the program as written, then each step with what it costs by estimate."""

import loopir as lp
from loopir.show.history import HEADS, MEANINGS, history

NEST = lp.parse("""
def f(n: "size", A: "float32[n, n]", B: "out float32[n, n]"):
    for i in range(n):
        for j in range(n):
            B[i, j] = A[j, i]
""")


def test_each_step_has_an_entry_in_order() -> None:
    s = lp.Schedule(NEST).tile("i", "j", 8, 8).parallel("i_o")
    found = history(s, {"n": 256})
    assert [e.step for e in found] == ["as written", *map(str, s.trace)]
    assert all(len(e.cells()) == len(HEADS) == len(MEANINGS) for e in found)


def test_an_entry_is_what_the_schedule_was_then() -> None:
    s = lp.Schedule(NEST).split("i", 4)
    t = s.parallel("i_o")
    assert history(t)[:-1] == history(t.undo().parallel("i_o"))[:-1]
    assert history(t)[-1].estimate.at_once > history(t)[0].estimate.at_once
