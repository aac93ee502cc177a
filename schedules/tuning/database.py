"""A database of records in a folder: append-only files of JSON lines, one for each process, merged when they are read.

Nothing is locked and nothing is written in place, so that processes of many hosts may share a folder, on NFS, too. A
process opens its own file, by a name that no other has, for each record, adds one line by one write, and closes it: a
process that is killed leaves whole lines, and perhaps the beginning of one, which readers leave out. Files are merged
into one by `prune`, which touches only those that no process may still write to.

A folder that cannot be written, or is on a full disk, costs one warning, and what is found is kept in memory. Lines
that are damaged or foreign are left out with one warning. Records run no code (`.records`), so that a folder may come
from anybody; only regular files are read.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import stat
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import platformdirs

from .records import EFFORTS, MOST_BYTES, Record, Refused, Subject, parse_record

FOLDER = "loopir_tuning"
"""What the folder is called that a project ships: it is read where it lies in the current directory."""
VARIABLE = "LOOPIR_TUNING_DIR"
LIFE = 1800.0
"""Seconds after which a process begins a new file."""
STALE = 2 * LIFE
"""Seconds since a file was last written after which no process writes to it."""
MOST_FILE = 256 << 20
"""Bytes of a file that is read, at most."""
_KEY = re.compile(rb'"key": "([0-9a-f]{64})"')
_OPEN = sum(getattr(os, f"O_{name}", 0) for name in ("NONBLOCK", "CLOEXEC", "BINARY"))


class Database:
    """The records in a folder, and those of other folders that are only read.

    `Database("folder")` needs no folder to be there: it is made with the first record.
    """

    def __init__(self, folder: str | Path, *also: str | Path) -> None:
        self.folder, self.also = Path(folder), tuple(map(Path, also))
        self.memory: list[bytes] = []
        """Lines that could not be written."""
        self._segment: tuple[int, Path, float] | None = None
        self._index: dict[Path, tuple[tuple[int, int, int], bytes, dict[bytes, list[int]]]] = {}
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        return f"Database({str(self.folder)!r})"

    # ------------------------------------------------------------ writing

    def add(self, record: Record) -> bool:
        """Write `record`; whether it is on disk. Where it cannot be, it is kept in memory, with one warning."""
        line = record.line()
        try:
            self._append(line)
        except OSError as error:
            self._segment = None
            self.memory.append(line)
            said = f"{self.folder} cannot be written ({error.strerror or error}); what is found is kept in memory"
            self._warn("write", f"the tuning database {said}")
            return False
        return True

    def _append(self, line: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        pid, now = os.getpid(), time.monotonic()
        known = self._segment
        if known is None or known[0] != pid or now - known[2] > LIFE:
            name = f"{_host()}-{pid}-{secrets.token_hex(8)}.jsonl"
            handle = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o644)
            self._segment = known = pid, self.folder / name, now
        else:
            handle = os.open(known[1], os.O_WRONLY | os.O_APPEND | _OPEN)
        try:
            if os.write(handle, line) != len(line):  # a full disk: what was written is no line, and ends its file
                raise OSError("the disk is full")
        finally:
            os.close(handle)

    # ------------------------------------------------------------ reading

    def segments(self) -> list[Path]:
        """The files of the database, those of the folder first."""
        found: list[Path] = []
        for folder in (self.folder, *self.also):
            try:
                found += sorted(folder.glob("*.jsonl"))
            except OSError as error:
                self._warn("read", f"the tuning database {folder} cannot be read: {error.strerror or error}")
        return found

    def records(self, subject: Subject | None = None) -> list[Record]:
        """All records, or those of `subject`; what is damaged or foreign is left out, with one warning."""
        out: list[Record] = []
        refused: list[str] = []
        for line in self._lines(subject):
            try:
                out.append(parse_record(line))
            except Refused as error:
                refused.append(str(error))
        if refused:
            more = f", and {len(refused) - 1} others" if len(refused) > 1 else ""
            self._warn("lines", f"the tuning database {self.folder} has lines that are left out: {refused[0]}{more}")
        return out

    def winner(self, subject: Subject, effort: str = "none") -> Record | None:
        """The last choice of a run of at least that `effort`, of those of the most effort; None if there is none."""
        found = [r for r in self.records(subject) if r.kind == "winner" and r.outcome == "ok"]
        found = [r for r in found if EFFORTS.index(r.effort) >= EFFORTS.index(effort)]
        return max(found, key=lambda r: (EFFORTS.index(r.effort), r.when)) if found else None

    def _lines(self, subject: Subject | None) -> Iterator[bytes]:
        """Lines that end, of all files and of memory; those under the key of `subject`, if there is one."""
        for path in self.segments():
            data, index = self._read(path)
            if subject is None:
                yield from (x for x in data.split(b"\n")[:-1] if x)
                continue
            for at in index.get(subject.key.encode(), ()):
                start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
                if end >= 0:
                    yield data[start:end]
        key = None if subject is None else subject.key.encode()
        yield from (x[:-1] for x in self.memory if key is None or key in x)

    def _read(self, path: Path) -> tuple[bytes, dict[bytes, list[int]]]:
        """What is in a file, and where the keys of its lines stand; read again when it has changed."""
        known = self._index.get(path)
        try:
            if known is not None and known[0] == _state(os.stat(path)):
                return known[1], known[2]
            handle = os.open(path, os.O_RDONLY | _OPEN)
            with open(handle, "rb") as file:
                facts = os.fstat(handle)
                regular = stat.S_ISREG(facts.st_mode) and facts.st_size <= MOST_FILE
                data = file.read() if regular else b""
        except OSError:
            return b"", {}
        index: dict[bytes, list[int]] = {}
        for found in _KEY.finditer(data):
            index.setdefault(found[1], []).append(found.start())
        self._index[path] = _state(facts), data, index
        return data, index

    # ------------------------------------------------------------ as files

    def export(self, path: str | Path, *, winners: bool = False) -> int:
        """Write all records, or the `winners` alone, to one file, which `load` reads; how many there are."""
        found = [r.line() for r in self.records() if r.kind == "winner" or not winners]
        _write_whole(Path(path), dict.fromkeys(found))
        return len(dict.fromkeys(found))

    def load(self, path: str | Path) -> int:
        """Add the records of a file that `export` wrote; how many were new. What is no record is left out, with one
        warning."""
        data = Path(path).read_bytes()
        known, new, refused = set(self._lines(None)), dict[bytes, None](), list[str]()
        for line in data.split(b"\n"):
            if not line.strip():
                continue
            try:
                parse_record(line)
            except Refused as error:
                refused.append(str(error))
            else:
                if line not in known:
                    new[line + b"\n"] = None
        if refused:
            warnings.warn(f"{path}: {len(refused)} lines are left out: {refused[0]}", RuntimeWarning, stacklevel=2)
        if new:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write_whole(self.folder / f"import-{secrets.token_hex(8)}.jsonl", new)
        return len(new)

    def prune(self, *, machine: str | None = None) -> tuple[int, int]:
        """Merge the files of the folder that no process writes to any more into one; how many lines went, and stayed.

        Damaged lines go, and those that are there twice; candidates of a subject that has a winner go, but for failed
        ones, which are not tried again. Given a `machine`, records of others go, too.
        """
        old = [p for p in self.segments() if p.parent == self.folder and _age(p) > STALE]
        lines = [x for p in old for x in self._read(p)[0].split(b"\n")[:-1] if x]
        found: dict[bytes, Record] = {}
        for line in lines:
            try:
                found[line] = parse_record(line)
            except Refused:
                continue
        won = {r.subject.key for r in found.values() if r.kind == "winner"}
        keep = [
            line + b"\n" for line, r in found.items()
            if (r.kind == "winner" or r.outcome != "ok" or r.subject.key not in won)
            and machine in (None, r.subject.machine)
        ]  # fmt: skip
        if keep:
            _write_whole(self.folder / f"merged-{secrets.token_hex(8)}.jsonl", keep)
        for path in old:
            path.unlink(missing_ok=True)
        return len(lines) - len(keep), len(keep)

    def _warn(self, about: str, said: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            warnings.warn(said, RuntimeWarning, stacklevel=3)


def _write_whole(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file beside its place and rename it, so that others see all of it or none."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(b"".join(lines))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _state(facts: os.stat_result) -> tuple[int, int, int]:
    """What changes when a file is written."""
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _age(path: Path) -> float:
    """Seconds since a file was written; 0 for one that is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _host() -> str:
    return re.sub(r"[^\w.]", "_", socket.gethostname())[:40] or "host"


# ---------------------------------------------------------------- which ones are read by default

_added: list[Path] = []
_opened: dict[tuple[Path, ...], Database] = {}


def add_database(folder: str | Path) -> None:
    """Have `auto` and `tune` read the records in `folder`, too: one that a package ships with its programs."""
    path = Path(folder).absolute()
    if path not in _added:
        _added.append(path)


def default_database() -> Database:
    """The database that is read unless another is given: what `LOOPIR_TUNING_DIR` names, else the user's; with
    `loopir_tuning` in the current directory, and the folders of `add_database`. New records go to the first."""
    named = [Path(x) for x in os.environ.get(VARIABLE, "").split(os.pathsep) if x]
    shipped = [Path.cwd() / FOLDER] if Path(FOLDER).is_dir() else []
    folders = tuple(dict.fromkeys((*(named or _users()), *shipped, *_added)))
    if folders not in _opened:
        _opened[folders] = Database(*folders)
    return _opened[folders]


def open_database(given: Database | str | Path | None) -> Database:
    """`given` as a database: a folder's, or the default one."""
    if isinstance(given, Database):
        return given
    return default_database() if given is None else Database(given)


def _users() -> Sequence[Path]:
    try:
        return (Path(platformdirs.user_data_dir("loopir")) / "tuning",)
    except (RuntimeError, KeyError):  # a user without a home
        return (Path.cwd() / FOLDER,)


__all__ = ["MOST_BYTES", "Database", "add_database", "default_database", "open_database"]
