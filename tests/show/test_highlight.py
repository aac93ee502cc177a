"""The pieces of a line make up the line, and know what they are."""

from loopir.schedule import Schedule
from loopir.show.highlight import diff_kind, pieces


def test_pieces_make_up_the_line(s: Schedule) -> None:
    for line in str(s).splitlines():
        assert "".join(piece for _, piece in pieces(line)) == line


def test_pieces_know_what_they_are(s: Schedule) -> None:
    found = {piece: kind for line in str(s).splitlines() for kind, piece in pieces(line)}
    expected = {
        "for": "keyword",
        "parallel": "kind",
        "sum": "fold",
        "exp": "operation",
        "A": "buffer",
        "1e-05": "number",
    }
    assert {piece: found[piece] for piece in expected} == expected


def test_lines_of_a_diff_are_of_five_kinds() -> None:
    assert [diff_kind(line) for line in ("+++ a", "@@ 1", "+a", "-a", " a")] == [
        *("header", "header", "added", "removed", "context")
    ]
