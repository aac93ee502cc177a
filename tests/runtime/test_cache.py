"""The compile cache: what is stored comes back, and where it cannot be stored the program goes on."""

from pathlib import Path

import pytest

from loopir.runtime import cache


def test_entries_come_back_and_keys_tell_parts_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    name = cache.key("a", b"b")
    assert cache.load(name) is None
    cache.store(name, b"data")
    assert cache.load(name) == b"data"
    assert cache.key("ab") != cache.key("a", "b")
    assert cache.clear() == 1


def test_a_directory_that_cannot_be_written_gives_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(blocked / "below"))
    monkeypatch.setattr(cache, "_warned", False)
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        cache.store(cache.key("x"), b"data")
    cache.store(cache.key("y"), b"data")
    assert cache.load(cache.key("x")) is None
