"""Fresh names are free, are names that a program may have, and are the hint where that is free."""

from hypothesis import given, strategies as st

from loopir.ir.traverse.fresh_names import fresh_name, replace_names, take_name

hints = st.sampled_from(["i", "i_1", "__i", "lp_x", "_", "___", "a_o"])


@given(hints, st.sets(hints | st.sampled_from(["_i", "_x", "i_2", "__1", "_lp_x", "__2"])), st.integers(1, 4))
def test_a_name_is_free_each_time(hint: str, taken: set[str], times: int) -> None:
    before = set(taken)
    found = [take_name(hint, taken) for _ in range(times)]
    assert len(set(found)) == times
    assert before.isdisjoint(found)
    assert taken == before | set(found)
    assert not any(x.startswith(("__", "lp_")) for x in found if set(x) != {"_"})


def test_the_hint_itself_where_it_is_free() -> None:
    assert fresh_name("i", set()) == "i"
    assert fresh_name("i", {"i"}) == "i_1"
    assert fresh_name("i", {"i", "i_1"}) == "i_2"


def test_names_are_replaced_in_their_place() -> None:
    assert replace_names(("a", "b", "c"), {"b": ("x", "y"), "z": ("q",)}) == ("a", "x", "y", "c")
    assert replace_names(("a",), {"a": ()}) == ()
