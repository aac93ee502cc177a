"""The ready-made schedules in a checkout, where their folder, `schedules/`, lies beside this package.

Its files become the modules `loopir.schedules` and `loopir.schedules.*`, found by where they are, so that no package
called `schedules` hides them. A wheel has the folder itself in place of this file.
"""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedules import *  # noqa: F403
else:
    __path__ = [str(Path(__file__).resolve().parent.parent / "schedules")]
    __file__ = str(Path(__path__[0], "__init__.py"))
    __package__ = __name__
    __spec__.submodule_search_locations = __path__
    SourceFileLoader(__name__, __file__).exec_module(sys.modules[__name__])
