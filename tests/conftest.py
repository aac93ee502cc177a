"""Random examples are fresh in every run, with or without CI set; the seed of a run is printed, to repeat it.

Hypothesis by itself takes the same examples always where CI is set: what fails at others would never be seen there.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fresh", derandomize=False, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fresh")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed, before Hypothesis and the workers of a run are told of it."""
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
