"""The documentation site, from this checkout alone: nothing is fetched.

    python -m sphinx -W --keep-going -c docs . build/site

The sources are the pages in docs/, the tutorials (percent scripts), CONTRIBUTING and CHANGELOG; code is run while
they are built. Docstrings are prose with nests in them; `docstrings.py` beside this says how they become a page.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

project, copyright, author = "loopir", "the loopir authors", "the loopir authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "docstrings"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "tutorials/*.py", "CONTRIBUTING.md", "CHANGELOG.md"]
source_suffix = {".md": "myst-nb", ".py": "myst-nb"}

html_theme, html_title = "furo", "loopir"
html_static_path: list[str] = []

myst_heading_anchors = 3
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
