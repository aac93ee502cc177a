"""Names of models as names of kernels: identifiers, each once."""

from __future__ import annotations

import keyword
import re

from loopir.errors import VerifyError
from loopir.ir.verify.scope import require_usable


class Names:
    """The names that are taken in one program."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def identifier(self, name: str, default: str) -> str:
        """Take `name` as a kernel may call it, unlike all others; `default` where nothing of it is left."""
        plain = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or default
        plain = f"{default}_{plain}" if plain[0].isdigit() or keyword.iskeyword(plain) else plain
        try:
            require_usable(plain)
        except VerifyError:
            plain = f"{plain}_"
        found, n = plain, 1
        while found in self.taken:
            found, n = f"{plain}_{n}", n + 1
        self.taken.add(found)
        return found
