"""The compile cache: what is stored comes back, and where it cannot be stored the program goes on."""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.runtime import cache, llvm_jit


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
    with pytest.warns(RuntimeWarning, match="the compile cache is not used: .*(Not a directory|is no folder)"):
        cache.store(cache.key("x"), b"data")
    cache.store(cache.key("y"), b"data")
    assert cache.load(cache.key("x")) is None


def test_a_limit_that_is_no_number_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LOOPIR_CACHE_BYTES", "1 GB")
    with pytest.raises(ValueError, match="LOOPIR_CACHE_BYTES is '1 GB'; it is a whole number"):
        cache.store(cache.key("x"), b"data")


def test_an_entry_that_is_not_whole_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    name = cache.key("z")
    cache.store(name, b"machine code")
    (path,) = tmp_path.glob("??/*")
    for broken in (path.read_bytes()[:-3], b"", b"x" * 40):
        path.write_bytes(broken)
        assert cache.load(name) is None
        assert not path.exists()
        cache.store(name, b"machine code")
    assert cache.load(name) == b"machine code"


def test_what_was_used_least_recently_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    names = [cache.key(str(n)) for n in range(4)]
    for age, name in enumerate(names):
        cache.store(name, bytes(100))
        os.utime(tmp_path / name[:2] / name, (1000 + age, 1000 + age))
    assert cache.load(names[0]) is not None  # and so it is the newest
    assert cache.trim(2 * (tmp_path / names[0][:2] / names[0]).stat().st_size) == 2
    assert [cache.load(n) is not None for n in names] == [True, False, False, True]


def entry(folder: Path, name: str) -> Path:
    return folder / name[:2] / name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, which is not there yet, and of which nothing was said."""
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path / "around" / "cache"))
    monkeypatch.setattr(cache, "_warned", False)
    return tmp_path / "around" / "cache"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")
ROOT_ONLY = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


@POSIX
@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o077])
def test_what_is_made_is_for_this_user_alone(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        cache.store(name := cache.key("x"), b"data")
    finally:
        os.umask(before)
    assert [mode(p) for p in (folder.parent, folder, folder / name[:2], entry(folder, name))] == [0o700] * 3 + [0o600]
    assert cache.load(name) == b"data"


@POSIX
@pytest.mark.parametrize("lax", ["folder", "shard"])
@pytest.mark.parametrize("bits", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_may_write_is_not_used(folder: Path, lax: str, bits: int) -> None:
    cache.store(name := cache.key("x"), b"data")
    open_to_others = folder if lax == "folder" else folder / name[:2]
    open_to_others.chmod(bits)
    with pytest.warns(RuntimeWarning, match=f"others may write in {open_to_others}; chmod -R go-w"):
        assert cache.load(name) is None
    entry(folder, name).unlink()
    cache.store(name, b"data")  # warned of once
    assert not entry(folder, name).exists()
    open_to_others.chmod(0o755)  # others may read
    cache.store(name, b"data")
    assert cache.load(name) == b"data"


@ROOT_ONLY
@pytest.mark.parametrize("whose", ["folder", "shard", "entry"])
def test_what_belongs_to_another_user_is_not_used(folder: Path, whose: str) -> None:
    cache.store(name := cache.key("x"), b"data")
    os.chown({"folder": folder, "shard": folder / name[:2], "entry": entry(folder, name)}[whose], 12345, 12345)
    if whose == "entry":
        assert cache.load(name) is None
    else:
        with pytest.warns(RuntimeWarning, match="belongs to another user; set LOOPIR_CACHE_DIR"):
            assert cache.load(name) is None


@POSIX
@pytest.mark.parametrize("bits", [0o606, 0o660, 0o666])
def test_a_file_that_others_may_write_is_not_run(folder: Path, bits: int) -> None:
    cache.store(name := cache.key("x"), b"data")
    entry(folder, name).chmod(bits)
    assert cache.load(name) is None


@POSIX
@pytest.mark.parametrize("what", ["pipe", "link", "link to nothing", "folder", "link to a folder of entries"])
def test_what_is_no_file_is_neither_read_nor_waited_for(folder: Path, what: str, tmp_path: Path) -> None:
    cache.store(name := cache.key("x"), b"data")
    path = entry(folder, name)
    elsewhere = path.rename(tmp_path / "elsewhere")
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to(elsewhere)
    elif what == "link to nothing":
        path.symlink_to(tmp_path / "nothing")
    elif what == "folder":
        path.mkdir()
    else:
        path.parent.rename(tmp_path / "shard")
        path.parent.symlink_to(tmp_path / "shard")
        elsewhere.rename(tmp_path / "shard" / name)
    if what.startswith("link to a"):
        with pytest.warns(RuntimeWarning, match="is no folder"):
            assert cache.load(name) is None
        return
    assert cache.load(name) is None
    if what == "folder":
        with pytest.warns(RuntimeWarning, match="the compile cache is not used"):
            cache.store(name, b"again")
        return
    cache.store(name, b"again")
    assert cache.load(name) == b"again"
    assert elsewhere.read_bytes().endswith(b"data")  # what a link led to is as it was


@settings(max_examples=60, deadline=None)
@given(
    first=st.binary(max_size=80), second=st.binary(max_size=80),
    change=st.sampled_from(("swap", "cut", "flip", "lengthen")), at=st.integers(0, 200),
)  # fmt: skip
def test_an_entry_is_given_as_it_was_stored_under_its_name_or_not_at_all(
    first: bytes, second: bytes, change: str, at: int
) -> None:
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOPIR_CACHE_DIR", home)
        a, b = cache.key("a"), cache.key("b")
        cache.store(a, first)
        cache.store(b, second)
        path, other = entry(Path(home), a), entry(Path(home), b)
        kept = path.read_bytes()
        at %= len(kept)
        changed = {
            "swap": other.read_bytes(), "cut": kept[:at], "lengthen": kept + b"\0",
            "flip": kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :],
        }[change]  # fmt: skip
        path.write_bytes(changed)
        assert cache.load(a) is None
        assert cache.load(b) == second


def test_only_its_own_files_are_counted_and_removed(folder: Path) -> None:
    cache.store(name := cache.key("x"), b"data")
    left = entry(folder, name).with_name(f"{name}.{'0' * 16}.tmp")
    left.write_bytes(b"half")
    os.utime(left, (1000, 1000))
    foreign = [
        folder / "notes.txt", folder / name[:2] / "notes.txt", folder / name[:2] / f"{name}.txt",
        folder / "xy" / ("xy" * 32), folder / "ab", folder / "ff" / name, folder / name[:2] / name.upper(),
    ]  # fmt: skip
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    assert cache.size()[0] == 2
    assert cache.trim(0) == 2
    cache.store(name, b"data")
    assert cache.clear() == 1
    assert all(path.read_text() == "mine" for path in foreign)


def test_what_is_being_written_is_not_taken_away(folder: Path) -> None:
    cache.store(name := cache.key("x"), b"data")
    young = entry(folder, name).with_name(f"{name}.{'0' * 16}.tmp")
    young.write_bytes(b"half")
    cache.trim(0)
    assert young.exists()


def test_a_store_looks_at_a_part_of_the_cache_of_a_few_megabytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[str]()
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(Path(path).name) or scandir(path))
    for limit, folders in ((cache.LIMIT, 1), (cache.LIMIT // 2, 2), (5 << 20, 256), (0, 256)):
        monkeypatch.setenv("LOOPIR_CACHE_BYTES", str(limit))
        looked.clear()
        cache.store(name := cache.key(str(limit)), b"data")
        assert len(looked) == folders
        assert name[:2] in looked


@settings(max_examples=40, deadline=None)
@given(limit=st.sampled_from((0, 700, 5000, 9 << 20)), sizes=st.lists(st.integers(0, 900), max_size=25))
def test_the_entries_never_take_more_than_the_limit(limit: int, sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOPIR_CACHE_DIR", home)
        patch.setenv("LOOPIR_CACHE_BYTES", str(limit))
        patch.setattr(cache, "MIN_SHARD_BYTES", 1000)
        for n, size in enumerate(sizes):
            cache.store(name := cache.key(str(n)), bytes(size))
            assert cache.size()[1] <= limit
            assert (cache.load(name) is not None) == (size + cache._HEAD <= limit // cache._shard_count(limit))


NO_HOME = """
import pwd
def nobody(*_):
    raise KeyError("getpwuid(): uid not found")
pwd.getpwuid = pwd.getpwnam = nobody
import warnings, numpy as np, loopir as lp
x = lp.placeholder((7,), "float32", name="x")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for value in (1.5, 2.5):
        assert (lp.Schedule(x + value).build("llvm")(np.zeros(7, np.float32)) == value).all()
print(*(w.message for w in told))
import sys
from loopir.__main__ import main
sys.exit(main(["cache", "size"]) or main(["doctor"]))
"""


@POSIX
def test_without_a_home_everything_builds_after_one_warning(tmp_path: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if k not in ("HOME", "LOOPIR_CACHE_DIR", "XDG_CACHE_HOME")}
    kept["PYTHONPATH"] = os.pathsep.join(map(str, sys.path))
    command = [sys.executable, "-c", NO_HOME]
    done = subprocess.run(command, env=kept, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = "there is no home directory (HOME is not set); set LOOPIR_CACHE_DIR to a directory of yours"
    first, second, *rest = done.stdout.splitlines()
    assert first == f"the compile cache is not used: {told}"
    assert second == f"there is no compile cache: {told}"
    assert f"  compile cache: everything is compiled anew: {told}" in rest
    assert not list(tmp_path.iterdir())  # no folder called ~


def test_a_system_without_users_and_flags_has_a_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: no owners, and none of the flags by which a file is opened with care."""
    if hasattr(os, "geteuid"):
        monkeypatch.delattr(os, "geteuid")
    monkeypatch.setattr(cache, "_OPEN", getattr(os, "O_BINARY", 0))
    cache.store(name := cache.key("x"), b"data")
    assert cache.load(name) == b"data"


def test_code_without_the_function_that_is_asked_for_is_not_called() -> None:
    library = llvm_jit.Library("define i64 @there() {\n  ret i64 7\n}\n")
    assert library.bind("there", ctypes.c_int64)() == 7
    with pytest.raises(lp.CompileError, match="no function 'absent'; empty the compile cache: python -m loopir"):
        library.bind("absent", ctypes.c_int64)


PROGRAM = """
import sys, numpy as np, loopir as lp
x = lp.placeholder((64,), "float32", name="x")
s = lp.Schedule(lp.compute((64,), lambda i: lp.sin(x[i]) + lp.exp(x[i]), name="y")).split("i", 8).vectorize("i_i")
from loopir.runtime import llvm_jit
if len(sys.argv) > 1:
    llvm_jit._compiled = None  # calling it would fail
a = np.linspace(0, 1e9, 64, dtype=np.float32)
assert abs(s.build("llvm")(a)[:3] - np.exp(a[:3]) - np.sin(a[:3]))[0] < 1e-6
print(s.build("llvm")(a).tobytes().hex())
"""


def test_machine_code_of_another_process_is_used(tmp_path: Path) -> None:
    settings = {**os.environ, "LOOPIR_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM, *more], env=settings, capture_output=True, text=True, check=True)
        for more in ([], ["cached"])
    ]
    assert runs[0].stdout == runs[1].stdout


def test_many_processes_write_one_entry(tmp_path: Path) -> None:
    settings = {**os.environ, "LOOPIR_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    running = [subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    given = {p.communicate()[0] for p in running}
    assert len(given) == 1
    assert all(p.returncode == 0 for p in running)


def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(blocked))
    monkeypatch.setattr(cache, "_warned", False)
    x = lp.placeholder((7,), "float32", name="x")
    with pytest.warns(RuntimeWarning, match="the compile cache is not used: .*(Not a directory|is no folder)"):
        kernel = lp.Schedule(lp.compute((7,), lambda i: x[i] + 41.5, name="y")).build("llvm")
    assert (kernel(np.zeros(7, np.float32)) == 41.5).all()
