"""The programs of docs/gallery: each is short, is scheduled and built, and is right to float64."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "gallery"


def loaded() -> ModuleType:
    spec = spec_from_file_location("gallery", FOLDER / "gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gallery = loaded()


@pytest.mark.parametrize("name", gallery.NAMES)
def test_a_program_is_right(name: str) -> None:
    """Sums of up to 1,000 terms in float32 are off by at most 1,000 units of 2 ** -24 of their size."""
    module = gallery.load(name)
    n = max(16, getattr(module, "B", 0))  # a block
    arrays = module.inputs(n, np.random.default_rng(1))
    s = gallery.scheduled(module, n)
    lines = str(s).splitlines()
    assert len(lines) < 300
    assert max(map(len, lines)) < 120
    kernel = s.build("llvm")
    assert gallery.error(module, arrays, gallery.outputs(kernel, arrays)) < 1000 * 2.0**-24


@pytest.mark.parametrize("name", gallery.NAMES)
def test_a_program_is_short_and_says_what_it_is(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text()
    assert len(text.splitlines()) <= 40
    assert text.startswith('"""')
