"""Examples on pages that are written as a session at a prompt give what stands there."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [p for p in sorted(DOCS.glob("*.md")) if ">>> " in p.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_session_gives_what_the_page_shows(page: Path) -> None:
    told: list[str] = []
    test = doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert test.examples
    assert not told, "".join(told)
