"""Compiled code on disk, keyed by everything it was made from.

What is read here is run, so it is read only where nobody else could have put it: from a regular file in a folder, both
of this user (or of root) and writable by no one else, and not through a link. The folders that are made have mode 0700.
Where that does not hold, and where the folder cannot be found or written, the program goes on without, after one
warning.

An entry is written beside its place and renamed, so that other processes see whole files or none. It begins with a
digest of its name and its data, so that what a crash has cut short is not taken, nor an entry in another's place.

Entries lie in 256 folders by the first two digits of their names. Who stores one looks at a part of the folders, one
with a share of the limit of at least 4 MB, and removes what was used least recently beyond that share. Only files that
are named as entries are, or as what is on its way to be one, are ever counted or removed.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import platformdirs

LIMIT = 1 << 30
"""Bytes that the entries may take together, unless LOOPIR_CACHE_BYTES says otherwise."""
MIN_SHARD_BYTES = 4 << 20
"""Bytes that a part of the cache may take at least, where the limit is no smaller."""
STALE = 3600.0
"""Seconds after which nobody is still writing a file."""
CLEAR = "python -m loopir cache clear"
FOLDERS = tuple(f"{n:02x}" for n in range(256))
_MAGIC = b"loopir 1"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
_ENTRY = re.compile(r"[0-9a-f]{64}")
_OWN = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16}\.tmp)?")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OPEN = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "CLOEXEC", "BINARY"))
"""How a file is opened: no link is followed, no pipe waited for; where a system has no such flags, without them."""
_warned = False


class _Refused(OSError):
    """The cache is not used, for a reason that is a sentence."""


class _Entry(NamedTuple):
    """A file of the cache: when it was last used, its bytes, and where it is."""

    used: float
    size: int
    path: Path


# ---------------------------------------------------------------- where


def directory() -> Path:
    """Where entries lie: LOOPIR_CACHE_DIR, or the user's cache directory. OSError for a user who has no home."""
    if named := os.environ.get("LOOPIR_CACHE_DIR"):
        return Path(named)
    try:
        found = Path(platformdirs.user_cache_dir("loopir"))
    except (RuntimeError, KeyError):
        found = Path("~")
    if not found.is_absolute() or "~" in found.parts:
        raise _Refused("there is no home directory (HOME is not set); set LOOPIR_CACHE_DIR to a directory of yours")
    return found


def described() -> str:
    """Where the cache is and what is in it, or why it is not used."""
    try:
        root = directory()
        entries, total = size()
        if root.exists():
            _require_own(root)
        nearest = next(p for p in (root, *root.absolute().parents) if p.exists())
        if not os.access(nearest, os.W_OK):
            raise _Refused(f"{root} cannot be written; set LOOPIR_CACHE_DIR to a directory of yours")
    except OSError as error:
        return f"everything is compiled anew: {error}"
    return f"{root}, {entries} entries, {total / 1e6:.1f} MB"


def _require_own(folder: Path) -> None:
    """OSError unless nobody but this user, and root, can put files into `folder`."""
    facts = os.stat(folder)
    if not stat.S_ISDIR(facts.st_mode):
        raise _Refused(f"{folder} is no folder")
    if not _is_trusted(facts):
        raise _Refused(f"{folder} belongs to another user; set LOOPIR_CACHE_DIR to a directory of yours")
    if _open_to_others(facts):
        raise _Refused(f"others may write in {folder}; chmod -R go-w {folder}")


def _is_trusted(facts: os.stat_result) -> bool:
    """Whether a file is of this user or of root; on a system without such numbers, it is."""
    return not hasattr(os, "geteuid") or facts.st_uid in (os.geteuid(), 0)


def _open_to_others(facts: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and bool(facts.st_mode & _OTHERS_WRITE)


def _make(folder: Path) -> None:
    """Make `folder` and those around it, for this user alone, whatever the umask."""
    with suppress(FileExistsError):
        try:
            folder.mkdir(mode=0o700)
        except FileNotFoundError:
            _make(folder.parent)
            folder.mkdir(mode=0o700)


def _shard(root: Path, name: str, *, make: bool = False) -> Path:
    """The folder of an entry, checked; FileNotFoundError if it is not there and not to be made."""
    folder = root / name[:2]
    _require_own(root)
    if make:
        _make(folder)
    if not stat.S_ISDIR(os.lstat(folder).st_mode):  # a link, say
        raise _Refused(f"{folder} is no folder")
    _require_own(folder)
    return folder


def _warn_uncached(error: OSError) -> None:
    """Say, once, that the program goes on without the cache."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(f"the compile cache is not used: {error}", RuntimeWarning, stacklevel=4)


# ---------------------------------------------------------------- entries


def key(*parts: str | bytes) -> str:
    """A key from all that the result depends on."""
    digest = hashlib.sha256()
    for p in parts:
        data = p.encode() if isinstance(p, str) else p
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def load(name: str) -> bytes | None:
    """The data of entry `name`, or None; what is no such entry is removed."""
    try:
        path = _shard(directory(), name) / name
        kept = _read(path)
        if kept is None:
            return None
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn_uncached(error)
        return None
    data = kept[_HEAD:]
    whole = kept[:_HEAD] == _head(name, data)
    with suppress(OSError):  # a folder that can only be read
        if whole:
            os.utime(path)
        else:
            path.unlink(missing_ok=True)
    return data if whole else None


def store(name: str, data: bytes) -> None:
    """Keep `data` as entry `name`, if that can be done."""
    limit = _limit()
    try:
        root = directory()
        _make(root)
        folder = _shard(root, name, make=True)
        temporary = folder / f"{name}.{secrets.token_hex(8)}.tmp"
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600), "wb") as file:
                file.write(_head(name, data) + data)
            with suppress(FileNotFoundError):  # somebody clears the cache
                os.replace(temporary, folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _trim(_entries(root, _shard_folders(name, limit)), limit // _shard_count(limit))
    except OSError as error:
        _warn_uncached(error)


def _head(name: str, data: bytes) -> bytes:
    """What entry `name` begins with if it holds `data`."""
    return _MAGIC + hashlib.sha256(name.encode() + data).digest()


def _read(path: Path) -> bytes | None:
    """What is in a regular file of this user; None for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | _OPEN)
    except FileNotFoundError:
        return None
    except OSError:  # a link, which is not followed
        return None
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or not _is_trusted(facts) or _open_to_others(facts):
            return None
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


# ---------------------------------------------------------------- what they take


def _limit() -> int:
    """The bytes that the entries may take together."""
    told = os.environ.get("LOOPIR_CACHE_BYTES", str(LIMIT))
    if not told.isdecimal():
        raise ValueError(f"LOOPIR_CACHE_BYTES is {told!r}; it is a whole number of at least 0")
    return int(told)


def _shard_count(limit: int) -> int:
    """How many parts the cache has, a power of 2: as many as have a share of at least SHARE bytes, up to 256."""
    return 1 << min(8, max(1, limit // MIN_SHARD_BYTES).bit_length() - 1)


def _shard_folders(name: str, limit: int) -> tuple[str, ...]:
    """The folders of the part that entry `name` is in."""
    each = len(FOLDERS) // _shard_count(limit)
    first = int(name[:2], 16) // each * each
    return FOLDERS[first : first + each]


def _entries(root: Path, folders: Iterable[str] = FOLDERS) -> Iterator[_Entry]:
    """The files of the cache in these folders: entries, and what is on its way to be one or was left on it."""
    for folder in folders:
        with suppress(OSError), os.scandir(root / folder) as found:
            for file in found:
                if _OWN.fullmatch(file.name) and file.name[:2] == folder:
                    with suppress(OSError):  # another process has removed it
                        facts = file.stat(follow_symlinks=False)
                        yield _Entry(facts.st_mtime, facts.st_size, Path(file.path))


def _trim(entries: Iterable[_Entry], limit: int) -> int:
    """Remove those used least recently, until the rest take at most `limit` bytes, and what was left half written."""
    oldest, found = time.time() - STALE, sorted(entries)
    total, removed = sum(e.size for e in found), 0
    for e in found:
        written = _ENTRY.fullmatch(e.path.name) is not None
        if (written and total > limit) or (not written and e.used < oldest):
            with suppress(OSError):
                e.path.unlink(missing_ok=True)
                total, removed = total - e.size, removed + 1
    return removed


def trim(limit: int) -> int:
    """Remove entries, those used least recently first, until the rest take at most `limit` bytes; how many went."""
    return _trim(_entries(directory()), limit)


def size() -> tuple[int, int]:
    """How many entries there are, and the bytes that they take."""
    sizes = [e.size for e in _entries(directory())]
    return len(sizes), sum(sizes)


def clear() -> int:
    """Remove all entries; how many there were."""
    removed = 0
    for e in _entries(directory()):
        with suppress(OSError):
            e.path.unlink()
            removed += 1
    return removed
