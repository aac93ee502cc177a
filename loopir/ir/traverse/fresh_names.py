"""Make fresh names of loops, buffers and statements; replace names in lists."""

from __future__ import annotations

from collections.abc import Mapping


def fresh_name(hint: str, taken: set[str]) -> str:
    """`hint`, or `hint_1`, `hint_2` ... : the first that is not in `taken`; what begins as no name may gets one `_`."""
    made, n = _with_legal_start(hint), 0
    while made in taken:
        n += 1
        made = _with_legal_start(f"{hint}_{n}")
    return made


def take_name(hint: str, taken: set[str]) -> str:
    """`fresh_name`, which is put into `taken`."""
    taken.add(name := fresh_name(hint, taken))
    return name


def _with_legal_start(name: str) -> str:
    """`name`, with one `_` before what is no `_` where no name may begin as it does."""
    return f"_{name.lstrip('_')}" if name.startswith(("__", "lp_")) else name


def replace_names(over: tuple[str, ...], new: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The loop names in `over` with each one in `new` replaced, in its place."""
    return tuple(name for old in over for name in new.get(old, (old,)))
