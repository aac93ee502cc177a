"""Compiled code on disk, keyed by everything it was made from.

Entries are written beside and renamed, so that other processes see whole files, and carry a digest, so that one that a
full disk or a crash has cut short is never run. Where the directory cannot be written, the program goes on without,
after one warning. A process that writes removes, at first and every thousand entries, what was used least recently
beyond the limit.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import platformdirs

LIMIT = 1 << 30
"""Bytes that the entries may take together, unless LOOPIR_CACHE_BYTES says otherwise."""
_DIGEST = hashlib.sha256().digest_size
_warned = False
_stores = 0


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


def _limit() -> int:
    """The bytes that the entries may take together."""
    told = os.environ.get("LOOPIR_CACHE_BYTES", str(LIMIT))
    if not told.isdecimal():
        raise ValueError(f"LOOPIR_CACHE_BYTES is {told!r}; it is a whole number of at least 0")
    return int(told)


def load(name: str) -> bytes | None:
    """The entry `name`, or None; one that is not whole is removed."""
    path = directory() / name[:2] / name
    try:
        kept = path.read_bytes()
    except OSError:
        return None
    data = kept[_DIGEST:]
    whole = hashlib.sha256(data).digest() == kept[:_DIGEST]
    with suppress(OSError):  # a directory that can only be read
        if whole:
            os.utime(path)
        else:
            path.unlink(missing_ok=True)
    return data if whole else None


def store(name: str, data: bytes) -> None:
    """Keep `data` as entry `name`, if that can be done."""
    global _warned, _stores
    folder = directory() / name[:2]
    temporary = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if _stores % 1000 == 0:
            trim(_limit())
        _stores += 1
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(temporary, folder / name)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if not _warned:
            _warned = True
            warnings.warn(
                f"the compile cache in {directory()} cannot be written: {error}", RuntimeWarning, stacklevel=3
            )


def trim(limit: int) -> int:
    """Remove entries, those used least recently first, until the rest take at most `limit` bytes; how many went."""
    entries: list[tuple[float, int, Path]] = []
    for path in directory().glob("??/*"):
        with suppress(OSError):  # another process has removed it
            facts = path.stat()
            entries.append((facts.st_mtime, facts.st_size, path))
    total, removed = sum(size for _, size, _ in entries), 0
    for _, size, path in sorted(entries):
        if total <= limit:
            break
        path.unlink(missing_ok=True)
        total, removed = total - size, removed + 1
    return removed


def size() -> tuple[int, int]:
    """How many entries there are, and the bytes that they take."""
    sizes: list[int] = []
    for path in directory().glob("??/*"):
        with suppress(OSError):  # another process has removed it
            sizes.append(path.stat().st_size)
    return len(sizes), sum(sizes)


def clear() -> int:
    """Remove all entries; how many there were."""
    removed = 0
    for path in directory().glob("??/*"):
        path.unlink(missing_ok=True)
        removed += 1
    return removed
