"""A report as a picture: a point for each kernel, under the lines of its GPU; without matplotlib, what to install."""

import sys

import pytest

import loopir as lp
import schedules


def gelu(n: int) -> lp.Schedule:
    x = lp.placeholder((n,), "float32", name="x")
    return schedules.auto(lp.Schedule(lp.gelu(x)), "cuda")


def test_a_report_is_drawn_where_matplotlib_is() -> None:
    pytest.importorskip("matplotlib")
    report = gelu(1 << 26).report()
    ax = report.plot()
    (point,) = [line for line in ax.lines if line.get_marker() == "o"]
    assert "bound by memory" in point.get_label()
    (x,), (y,) = point.get_data()
    assert x == pytest.approx(report.operations / report.compulsory, rel=0.05)
    assert y <= report.gpu.copy_bandwidth * x * 1.001
    assert report.plot(ax) is ax


def test_without_matplotlib_it_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(lp.TargetError, match=r"the picture is left out.*pip install .matplotlib>="):
        gelu(1 << 20).report().plot()
