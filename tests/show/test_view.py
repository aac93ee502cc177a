"""The page of a schedule: whole, escaped, lines of a loop linked on all sides, and alive in a browser."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import loopir as lp
import schedules
from loopir.__main__ import main
from loopir.requirements import install_extra
from loopir.runtime.cuda import disassembler
from loopir.show.rows import rows
from loopir.testing.generate.nests import constant, symbolic

VOID = {"meta", "br"}
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Reader(HTMLParser):
    """Tags that open and close, and how many lines each loop has in each section, lit or not."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.sections: list[dict[str, int]] = []
        self.lit: list[set[str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.sections.append({})
            self.lit.append(set())
        loop = dict(attrs).get("data-loop")
        if loop is not None:
            self.sections[-1][loop] = self.sections[-1].get(loop, 0) + 1
        if "lit" in (dict(attrs).get("class") or "").split():
            self.lit[-1].add(loop)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "h2":
            self.names.append(data)


def product(target: str) -> lp.Schedule:
    A, B = (lp.placeholder((256, 256), "float32", name=x) for x in "AB")
    return schedules.auto(lp.Schedule(lp.relu(A @ B)), target)


@pytest.mark.parametrize("target", ["cuda", "llvm"])
def test_the_page_is_whole_and_links_loops(target: str, tmp_path: Path) -> None:
    s = product(target)
    path = s.view(tmp_path / "page.html", target)
    reader = Reader(path.read_text())
    assert not reader.open
    nest, code = reader.sections[:2]
    assert set(nest) == set(s.loops())
    assert len(set(nest) & set(code)) >= 3
    assert ("__global__" if target == "cuda" else "define i32") in reader.text
    assert str(s.trace[-1]) in reader.text
    assert path.stat().st_size < 1_000_000  # machine code of wide vectors is half of it


def test_machine_code_stands_beside_it_or_is_said_to_be_left_out(tmp_path: Path) -> None:
    reader = Reader(product("cuda").view(tmp_path / "page.html").read_text())
    try:
        disassembler.nvdisasm()
    except lp.TargetError:
        assert reader.names == ["Loop nest", "CUDA C"]
        assert "Left out: SASS" in reader.text
        return
    assert reader.names == ["Loop nest", "CUDA C", "SASS (sm_90a)"]
    assert "FFMA" in reader.text
    folded = [loop for loop in reader.sections[2] if "k_i" in loop or "j" in loop]
    assert folded
    assert set(reader.sections[2]) <= set(reader.sections[1])


def test_without_a_disassembler_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembler, "PACKAGE", "no-such-package")
    monkeypatch.setenv("PATH", "")
    reader = Reader(product("cuda").view(tmp_path / "page.html").read_text())
    assert reader.names == ["Loop nest", "CUDA C"]
    assert (
        f"Left out: SASS. machine code is read by nvdisasm, which is not here; {install_extra('sass')}" in reader.text
    )


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed: the page was parsed, and not run")
@pytest.mark.parametrize("target", ["cuda", "llvm"])
def test_a_browser_lights_up_a_loop_on_all_sides(target: str, tmp_path: Path) -> None:
    s = product(target)
    path = s.view(tmp_path / "page.html", target)
    sides = Reader(path.read_text()).sections
    loop = next(v for v in reversed(s.loops()) if all(v in side for side in sides))
    plain = Reader(dumped(path.as_uri(), tmp_path))
    assert not any(plain.lit)
    lit = Reader(dumped(f"{path.as_uri()}#{loop}", tmp_path))
    assert [*map(set, lit.lit)] == [{loop}] * len(sides)


def dumped(address: str, home: Path) -> str:
    """The page as it is in a browser after its script has run."""
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}/browser"]
    run = subprocess.run(
        [*command, "--virtual-time-budget=2000", "--dump-dom", address], capture_output=True, text=True, timeout=120
    )
    assert "<main>" in run.stdout, run.stderr
    return run.stdout


def test_nothing_is_fetched_and_names_are_escaped(tmp_path: Path) -> None:
    nest = lp.parse('def f(a: "inout float32[8]"):\n    for i in range(8):\n        a[i] = select(i < 4, 1.0, 0.0)\n')
    page = lp.Schedule(nest).view(tmp_path / "page.html", "llvm").read_text()
    assert not re.search(r'(src|href)="', page)
    assert "default-src 'none'" in page
    assert "i &lt; " in page


def test_lines_belong_to_the_innermost_loop_around() -> None:
    func = lp.parse("""
def f(x: "inout float32[4]", y: "inout float32[4]"):
    for i in range(4):
        for j in range(2):
            x[i] = 1.0
        y[i] = 2.0
    y[0] = 3.0
""")
    assert [row.loop for row in rows(func)] == [None, "i", "j", "j", "i", None]
    assert [bool(row.cells) for row in rows(func)] == [False, True, True, False, False, False]


@pytest.mark.parametrize("func", [symbolic("attention"), constant("stencils")], ids=["attention", "stencils"])
def test_every_line_of_llvm_ir_in_a_loop_knows_it(func: lp.Func, tmp_path: Path) -> None:
    s = lp.Schedule(func)
    nest, code = Reader(s.view(tmp_path / "page.html", "llvm").read_text()).sections
    assert set(nest) == set(code) == set(s.loops())


def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nest = tmp_path / "nest.ir"
    nest.write_text('def f(a: "inout float32[8]"):\n    for i in bind("threadIdx.x", 8):\n        a[i] = a[i] + 1.0\n')
    assert main(["view", str(nest), "--out", str(tmp_path / "p.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "p.html")
    assert "threadIdx" in (tmp_path / "p.html").read_text()
    nest.write_text("nonsense")
    assert main(["view", str(nest)]) == 1
