"""Compiled code on disk, keyed by everything it was made from.

Entries are written beside and renamed, so that other processes see whole files. Where the directory cannot be written,
the program goes on without, after one warning.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from pathlib import Path

import platformdirs

_warned = False


def directory() -> Path:
    """Where entries lie: LOOPIR_CACHE_DIR, or the user's cache directory."""
    named = os.environ.get("LOOPIR_CACHE_DIR")
    return Path(named) if named else Path(platformdirs.user_cache_dir("loopir"))


def key(*parts: str | bytes) -> str:
    """A key from all that the result depends on."""
    digest = hashlib.sha256()
    for p in parts:
        data = p.encode() if isinstance(p, str) else p
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def load(name: str) -> bytes | None:
    """The entry `name`, or None."""
    try:
        return (directory() / name[:2] / name).read_bytes()
    except OSError:
        return None


def store(name: str, data: bytes) -> None:
    """Keep `data` as entry `name`, if that can be done."""
    global _warned
    folder = directory() / name[:2]
    temporary = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, folder / name)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if not _warned:
            _warned = True
            warnings.warn(
                f"the compile cache in {directory()} cannot be written: {error}", RuntimeWarning, stacklevel=3
            )


def clear() -> int:
    """Remove all entries; how many there were."""
    removed = 0
    for path in directory().glob("??/*"):
        path.unlink(missing_ok=True)
        removed += 1
    return removed
