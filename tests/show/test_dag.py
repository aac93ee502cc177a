"""The graph of nests: what each needs, its time, and where its box stands."""

import re
from dataclasses import replace
from pathlib import Path

import loopir as lp
from loopir.show.dag import ACROSS, BOX_HIGH, BOX_WIDE, DOWN, dag_svg, nest_boxes

FUNC = lp.parse("""
def f(n: "size", A: "float32[n]", B: "inout float32[n]", C: "inout float32[n]", D: "out float32[n]"):
    for i in range(n):
        B[i] = A[i] * 2.0
    for j in range(n):
        C[j] = B[j] + 1.0
    for k in range(n):
        D[k] = B[k] + C[k]
""")


def test_boxes_stand_below_what_they_need() -> None:
    boxes = nest_boxes(FUNC, [(frozenset({"B"}), 1e-6), (frozenset({"C", "D"}), 5e-6)])
    assert [(b.stages, b.loop, b.needs) for b in boxes] == [
        (("B",), "i", frozenset()), (("C",), "j", frozenset({0})), (("D",), "k", frozenset({0, 1})),
    ]  # fmt: skip
    assert [b.seconds for b in boxes] == [1e-6, None, None]  # the others share a kernel
    drawn = dag_svg(boxes)
    heights = [int(y) for y in re.findall(r'<rect x="10" y="(\d+)"', drawn)]
    assert heights == [10, 10 + DOWN, 10 + 2 * DOWN]
    assert drawn.count("<path") == 2  # that D needs B is clear by C
    assert 'href="#k"' in drawn
    assert "1 us predicted" in drawn


def test_an_edge_past_a_row_goes_beside_the_boxes() -> None:
    b, c, d = nest_boxes(FUNC, [])
    other = replace(c, needs=frozenset())
    drawn = dag_svg([b, other, replace(c, needs=frozenset({0})), replace(d, needs=frozenset({1, 2}))])
    assert f"M{10 + ACROSS + BOX_WIDE} {10 + BOX_HIGH // 2} C" in drawn
    assert drawn.count("<path") == 3


def test_the_page_has_the_graph_first(tmp_path: Path) -> None:
    page = lp.Schedule(FUNC).view(tmp_path / "f.html", target="llvm").read_text()
    assert page.index('class="dag"') < page.index("<section>")
    assert page.count("predicted</text>") == 3
