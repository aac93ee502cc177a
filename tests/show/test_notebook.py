"""A nest as HTML: escaped, with nothing lost, folded without script."""

import re
from html import unescape

from loopir.schedule import Schedule
from loopir.show.notebook import diff_html, html
from loopir.testing.generate.nests import constant, symbolic


def stripped(page: str) -> str:
    """The text of the lines alone, without heads and margins."""
    page = re.sub(r'<div class="row heads">.*?</div>', "", page)
    lines = re.findall(r'<pre(?: class="code")?>(.*?)</pre>', page, re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", "", "\n".join(lines)))


def test_html_is_the_escaped_text(s: Schedule) -> None:
    page = s._repr_html_()
    assert stripped(page) == str(s)
    assert "i &lt; n" in page
    assert "<table" not in page


def test_html_lists_the_steps_with_what_each_did(s: Schedule) -> None:
    page = html(s.split("k", 4))
    assert '<td>1</td><td class="step">split(&quot;k&quot;, 4)</td><td>' in page
    assert page.count("<tr>") == 3


def test_html_folds_loops_without_script_and_is_small() -> None:
    for nest in (Schedule(symbolic("attention")), Schedule(constant("stencils"))):
        page = nest._repr_html_()
        assert page.count("<details open>") == page.count("</details>") == len(nest.loops())
        assert "<script" not in page
        assert len(page) < 200_000
        assert stripped(page) == str(nest)


def test_a_schedule_shows_itself_where_rich_is_wanted(s: Schedule) -> None:
    assert s._repr_mimebundle_()["text/plain"] == str(s)
    assert s._repr_mimebundle_()["text/html"] == s._repr_html_()


def test_a_diff_is_the_escaped_text(s: Schedule) -> None:
    after = s.rename("k", "kk")
    assert stripped(diff_html(after)) == after.diff()
    assert '<span class="added">' in diff_html(after)
