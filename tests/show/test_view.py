"""The page of a schedule: whole, escaped, and lines of a loop linked on both sides."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

import loopir as lp
import schedules
from loopir.__main__ import main
from loopir.show.view import nest_lines

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Tags that open and close, and how many lines each loop has in each section."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sections: list[dict[str, int]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.sections.append({})
        loop = dict(attrs).get("data-loop")
        if loop is not None:
            self.sections[-1][loop] = self.sections[-1].get(loop, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("target", ["cuda", "llvm"])
def test_the_page_is_whole_and_links_loops(target: str, tmp_path: Path) -> None:
    A, B = (lp.placeholder((256, 256), "float32", name=x) for x in "AB")
    s = schedules.auto(lp.Schedule(lp.relu(A @ B)), target)
    path = s.view(tmp_path / "page.html", target)
    reader = Reader()
    reader.feed(path.read_text())
    assert not reader.open
    nest, code = reader.sections
    assert set(nest) == set(s.loops())
    if target == "cuda":
        assert len(set(nest) & set(code)) >= 3
        assert "__global__" in reader.text
    assert str(s.trace[-1]) in reader.text
    assert path.stat().st_size < 500_000


def test_lines_belong_to_the_innermost_loop_around() -> None:
    text = """def f():
    for i in range(4):
        for j in range(2):
            x[i] = 1
        y[i] = 2
    z[0] = 3"""
    assert [loop for _, loop in nest_lines(text)] == [None, "i", "j", "j", "i", None]


def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nest = tmp_path / "nest.ir"
    nest.write_text('def f(a: "inout float32[8]"):\n    for i in bind("threadIdx.x", 8):\n        a[i] = a[i] + 1.0\n')
    assert main(["view", str(nest), "--out", str(tmp_path / "p.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "p.html")
    assert "threadIdx" in (tmp_path / "p.html").read_text()
    nest.write_text("nonsense")
    assert main(["view", str(nest)]) == 1
