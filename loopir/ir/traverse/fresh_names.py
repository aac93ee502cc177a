"""Make fresh names of loops, buffers and statements; replace names in lists."""

from __future__ import annotations

from collections.abc import Mapping


def fresh_name(hint: str, taken: set[str]) -> str:
    """`hint`, or `hint_1`, `hint_2` ... : the first that is not in `taken`; what begins as no name may gets one `_`."""
    hint = f"_{hint.lstrip('_')}" if hint.startswith(("__", "lp_")) else hint
    if hint not in taken:
        return hint
    n = 1
    while f"{hint}_{n}" in taken:
        n += 1
    return f"{hint}_{n}"


def replace_names(over: tuple[str, ...], new: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The loop names in `over` with each one in `new` replaced, in its place."""
    return tuple(name for old in over for name in new.get(old, (old,)))
