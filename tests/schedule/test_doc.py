"""Docstrings of primitives as data: prose, then groups of before, call, after and refuses."""

from loopir.schedule.core.doc import Example, examples, summary


def shown() -> None:
    """Do it.

    More of it.

    before:
        def f():
            pass
    call:    a("i")
    after:
        done
    refuses: b("j")   # no loop

    call:    c()
    after:
        again
    before:
        other
    refuses: d()  # never
    """


def plain() -> None:
    """Nothing to show."""


def test_the_summary_is_the_prose() -> None:
    assert summary(shown) == "Do it.\n\nMore of it."
    assert summary(plain) == "Nothing to show."
    assert examples(plain) == ()


def test_a_group_without_before_starts_from_the_one_above() -> None:
    before = "def f():\n    pass"
    assert examples(shown) == (
        Example(before, 'a("i")', after="done"),
        Example(before, 'b("j")', refusal="no loop"),
        Example(before, "c()", after="again"),
        Example("other", "d()", refusal="never"),
    )
