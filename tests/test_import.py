"""What `import loopir` brings in, and what it offers."""

import subprocess
import sys

import loopir as lp


def test_import_loads_no_backend() -> None:
    code = "import loopir, sys; print(sorted({'cuda', 'sympy', 'llvmlite', 'hypothesis', 'rich'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in dir(lp):
        assert getattr(lp, name) is not None


def test_lower_stays_the_function_after_its_package_is_imported() -> None:
    import loopir.build
    import loopir.lower.pipeline  # noqa: F401

    assert callable(lp.lower)
