"""plan_page: the page has what the plan has, and names and messages are text there, whatever stands in them."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import loopir as lp
import schedules
from schedules.plan_page import plan_page


class Reader(HTMLParser):
    """What tags there are, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> tuple[list[str], str]:
    reader = Reader()
    reader.feed(page)
    return reader.tags, " ".join(reader.text)


def made() -> schedules.Plan:
    x = lp.placeholder((512, 512), "float32", name="x")
    return schedules.plan(lp.Schedule([lp.softmax(x), (x * 2.0).named("z")]), "cuda", arch="sm_90a")


def test_the_page_has_groups_decisions_and_the_graph(tmp_path: Path) -> None:
    p = made()
    page = p.view(tmp_path / "plan.html").read_text(encoding="utf-8")
    tags, text = read(page)
    assert str(p).splitlines()[0] in text
    for g in p.groups:
        assert " + ".join(g.stages) in text
        assert f"{g.seconds * 1e6:.1f} us, {g.bytes / 1e6:.1f} MB, {g.how}" in text
    for d in p.decisions:
        assert d.reason in text
    assert tags.count("rect") == len(p.groups)
    assert tags.count("tr") == 2 + len(p.groups) + len(p.decisions)
    assert "script" not in tags
    assert "http://" not in page
    assert "https://" not in page


def test_what_is_said_is_escaped() -> None:
    p, bad = made(), "<script>alert('&')</script>"
    group = replace(p.groups[0], how=bad, refused=((bad, bad),))
    decision = schedules.Decision("producer", ("a",), ("b",), 1.0, 2.0, False, bad, ((bad, bad),))
    tags, text = read(plan_page(replace(p, groups=(group, *p.groups[1:]), decisions=(decision,))))
    assert "script" not in tags
    assert text.count(bad) == 7
