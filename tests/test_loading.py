"""What is loaded when it is first used: a missing package is named with the command, half a module is refused."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from loopir import requirements
from loopir.loading import load

ROOT = Path(__file__).resolve().parent.parent


def test_who_interrupts_an_import_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_way.py").write_text(f"from loopir.loading import load\nload({'half_way'!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="half_way is being imported by what this code interrupts; import it before"):
        load("half_way")


HIDE = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
"""


def without(packages: set[str], script: str) -> subprocess.CompletedProcess[str]:
    """`script` run by a Python that has none of these packages."""
    command = [sys.executable, "-c", HIDE.format(hidden=packages) + script]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize("package", ["numpy", "islpy", "llvmlite"])
def test_a_package_that_is_missing_is_named_with_the_command(package: str) -> None:
    script = """
import loopir as lp
from loopir.errors import TargetError
try:
    lp.Schedule(lp.placeholder((4,), "float32", name="x") + 1.0).build("llvm")
except (ImportError, TargetError) as error:
    print(error)
"""
    done = without({package}, script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{package} is not installed: {requirements.install(package)}"


@pytest.mark.parametrize("missing", [{"numpy"}, {"llvmlite"}, {"numpy", "islpy", "llvmlite", "rich", "platformdirs"}])
def test_doctor_runs_without_the_packages_that_it_finds_missing(missing: set[str]) -> None:
    hidden = f"""
from importlib import metadata
known = metadata.version
def version(name):
    if name in {missing!r}:
        raise metadata.PackageNotFoundError(name)
    return known(name)
metadata.version = version
sys.argv = ["loopir", "doctor"]
import runpy
runpy.run_module("loopir", run_name="__main__")
"""
    done = without(missing, hidden)
    assert done.returncode == 1, done.stderr
    assert not done.stderr
    for package in missing:
        assert f"{package} is not installed: {requirements.install(package)}" in done.stdout


def test_a_demo_without_its_data_ends_in_a_sentence() -> None:
    done = without({"sklearn"}, "from loopir.__main__ import main\nsys.exit(main(['demo', '--target', 'llvm']))")
    assert done.returncode == 1
    told = f"the digits are scikit-learn's; scikit-learn is not installed: {requirements.install('scikit-learn')}"
    assert done.stderr.strip() == told


def test_commands_name_the_versions_of_the_project_and_never_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requirements.install("numpy").startswith('pip install "numpy>=')
    assert "cuda-core>=" in requirements.install_extra("cuda")
    assert "loopir" not in requirements.install_extra("test")

    def absent(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    for known in (absent, lambda name: ["loopir[cuda]; extra == 'test'", "numpy>=2.1"]):
        monkeypatch.setattr(metadata, "requires", known)
        requirements._stated.cache_clear()
        assert requirements.install("numpy").startswith('pip install "numpy>=2.')
    requirements._stated.cache_clear()


@pytest.mark.parametrize("top", ["loopir", "docs", "benchmarks", "tutorials", "schedules"])
def test_nobody_is_told_to_install_loopir_from_a_registry(top: str) -> None:
    for path in (p for p in (ROOT / top).rglob("*") if p.suffix in (".py", ".md")):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert "pip install loopir" not in line.replace('"', ""), f"{path}: {line}"
