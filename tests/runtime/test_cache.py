"""The compile cache: what is stored comes back, and where it cannot be stored the program goes on."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loopir as lp
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


def test_a_limit_that_is_no_number_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LOOPIR_CACHE_BYTES", "1 GB")
    monkeypatch.setattr(cache, "_stores", 0)
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
    assert cache.trim(2 * 132) == 2
    assert [cache.load(n) is not None for n in names] == [True, False, False, True]


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
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        kernel = lp.Schedule(lp.compute((7,), lambda i: x[i] + 41.5, name="y")).build("llvm")
    assert (kernel(np.zeros(7, np.float32)) == 41.5).all()
