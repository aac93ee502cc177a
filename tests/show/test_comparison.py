"""Schedules side by side: in columns where there is room, the lines marked in which they differ."""

import pytest

from loopir.schedule import Schedule


def test_branches_stand_side_by_side(s: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    one, other = s.split("k", 4), s.split("k", 2)
    wide = str(one.beside(other)).splitlines()
    assert wide[0].startswith('1. split("k", 4): traffic')
    assert '| 2. split("k", 2): traffic' in wide[0]
    marked = [line for line in wide if "| *" in line]
    assert len(marked) == 4
    assert all("k_o" in line or "k_i" in line for line in marked)
    monkeypatch.setenv("COLUMNS", "80")
    assert str(one.beside(other)).count("\n") > len(wide)
    page = one.beside(other)._repr_html_()
    assert page.count('class="row changed"') == 4
    with pytest.raises(TypeError, match="beside another Schedule"):
        one.beside()
