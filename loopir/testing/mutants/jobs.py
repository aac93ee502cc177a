"""What one of several processes does of a hunt: mutants are sent by number, as their patches do not travel."""

from __future__ import annotations

from collections.abc import Sequence

from loopir.testing.mutants import MUTANTS
from loopir.testing.mutants.run import Found, clean, hunted


def hunt_nth(nth: int, examples: int, seed: int, patience: float) -> tuple[Found | None, float]:
    result = hunted(MUTANTS[nth], examples=examples, seed=seed, patience=patience)
    return result.found, result.seconds


def clean_part(picked: Sequence[int], cases: int, seed: int, nth: int) -> tuple[list[str], int]:
    return clean([MUTANTS[n] for n in picked], cases, seed, nth)
