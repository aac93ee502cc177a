"""Random examples are fresh in every run, with or without CI set; the seed of a run is printed, to repeat it.

Hypothesis by itself takes the same examples always where CI is set: what fails at others would never be seen there.
`--examples 20` draws twenty times as many examples in each property test: one such run finds what twenty runs would.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, reject, settings, strategies as st

from loopir.analysis.presburger.constraints import ConstraintSystem
from loopir.errors import LoopirError, Undecided

os.environ.setdefault("LOOPIR_TRACEBACK", "full")  # who changes the package looks for the line that refuses

settings.register_profile(
    "fresh", derandomize=False, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fresh")

with suppress(ImportError, AttributeError):  # a Hypothesis that draws no such numbers
    # Numbers of the modules that are loaded would be drawn now and then: others in each process, by whatever tests ran
    # before, so that a seed repeats nothing, and each new module is parsed for them.
    providers = importlib.import_module("hypothesis.internal.conjecture.providers")
    nothing_local = providers._local_constants
    providers._get_local_constants = lambda: nothing_local


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--examples", type=int, default=1, metavar="FACTOR", help="draw FACTOR times as many examples")


def pytest_collection_finish() -> None:
    """Look for cyclic garbage seldom: trees are of many small nodes, which are all looked at, and are not cyclic.

    Once in 2,000,000 new objects takes 5 % less time than once in 500,000, and 100 MB more. What has been imported
    stays, and is not looked at."""
    _nothing()  # Hypothesis 6.120 looks for who holds its random numbers, made in the first test, and sees none frozen
    gc.freeze()


@settings(max_examples=1, database=None)
@given(st.none())
def _nothing(_: None) -> None:
    pass


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let property tests take no example that the solver cannot decide; with `--examples`, multiply the examples of
    each, once a function, and keep these tests alone."""
    factor: int = config.option.examples
    properties = [item for item in items if getattr(getattr(item, "obj", None), "is_hypothesis_test", False)]
    tests = {getattr(item.obj, "__func__", item.obj) for item in properties}  # pyright: ignore
    for test in tests:
        test.hypothesis.inner_test = _decided(test.hypothesis.inner_test)
    if factor == 1:
        return
    for test in tests:
        own = getattr(test, "_hypothesis_internal_use_settings", None) or settings.default
        test._hypothesis_internal_use_settings = settings(own, max_examples=own.max_examples * factor)
    config.hook.pytest_deselected(items=[item for item in items if item not in set(properties)])
    items[:] = properties


def _decided(test: Callable[..., None]) -> Callable[..., None]:
    """`test`, which rejects an example about which the solver gave up: that is an answer by contract, and rare.

    So is one where it finds a pair of iterations, and gives up on the least."""

    @functools.wraps(test)
    def decided(*args: object, **kwargs: object) -> None:
        try:
            with patch.object(ConstraintSystem, "_sample", _give_up):
                test(*args, **kwargs)
        except (AssertionError, LoopirError) as error:
            told = error.__context__ if isinstance(error, AssertionError) else error  # what the test looks at
            if not isinstance(told, Undecided) and not isinstance(told and told.__cause__, Undecided):
                raise
        else:
            return
        reject()

    return decided


def _give_up(*_: object) -> NoReturn:
    raise Undecided


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed, before Hypothesis and the workers of a run are told of it; import without collecting garbage."""
    gc.set_threshold(2_000_000, 5, 100)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say how to repeat the run, before anything can hang."""
    _tell(session.config)


def pytest_terminal_summary(exitstatus: int, config: pytest.Config) -> None:
    """Say it again below what failed."""
    if exitstatus:
        _tell(config)


def _tell(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        reporter.write_line(f"the same random examples again: pytest --hypothesis-seed={config.option.hypothesis_seed}")
