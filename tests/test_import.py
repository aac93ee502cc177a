"""What `import loopir` brings in, and what it offers."""

import pickle
import subprocess
import sys

import pytest

import loopir as lp


def test_import_loads_no_backend() -> None:
    code = "import loopir, sys; print(sorted({'cuda', 'sympy', 'llvmlite', 'hypothesis', 'rich'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in dir(lp):
        assert getattr(lp, name) is not None


ROOMS = [
    "import loopir.lower.pipeline",
    "import loopir.lower; import loopir.build",
    "from loopir.lower import pipeline; import loopir.lower.common.insert_bounds_checks",
    "import loopir.build; import loopir.lower.pipeline",
]


@pytest.mark.parametrize("rooms", ROOMS)
def test_lower_is_the_function_in_every_order_of_imports(rooms: str) -> None:
    """A room of the package has this name, too, and Python binds a room's name when it is first imported."""
    code = f"""{rooms}
import loopir as lp
from loopir import lower as named
from loopir.lower.pipeline import PASSES
import loopir.build
assert lp.lower is loopir.build.lower is named and PASSES, lp.lower
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_schedule_shows_itself_with_nothing_else_imported() -> None:
    code = """
import loopir as lp
s = lp.Schedule(lp.placeholder((4,), "float32", name="x") + 1.0)
s.show()
assert "<details open>" in s._repr_html_()
assert str(s.explain(s.loops()[0]))
"""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_schedule_is_of_use_in_the_process_it_is_sent_to() -> None:
    sent = pickle.dumps(lp.Schedule(lp.exp(lp.placeholder((4,), "float32", name="x")) + 1.0))
    code = f"""
import pickle, numpy
s = pickle.loads({sent!r})
s.show()
assert s.build("llvm")(numpy.zeros(4, "float32")).tolist() == [2, 2, 2, 2]
"""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
