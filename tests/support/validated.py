"""What `s.validate()` proves of the named programs, by target, at constant sizes and for all sizes:

python tests/support/validated.py --write docs/validated.md
"""

from __future__ import annotations

import argparse
from pathlib import Path

from named_programs import PROGRAMS

SIZES = ("constant", "all")
HEAD = """# What is proved of the named programs

`s.validate()` of each of the programs that a scheduling language is asked for first, under a schedule for a CPU and one
for a GPU: at sizes that no tile divides, and with the sizes as symbols, for all of them. "proved" is a proof that the
scheduled nest computes what the first one does, up to the order of folds; else it says what could not be told. This
file is written by

    python tests/support/validated.py --write docs/validated.md

| program | CPU, constant sizes | CPU, all sizes | GPU, constant sizes | GPU, all sizes |
|---|---|---|---|---|
"""


def validated(name: str, target: str, sizes: str) -> str:
    """ "proved", or what is not."""
    p = PROGRAMS[name]
    s = p.schedule(*p.odd) if sizes == "constant" else p.schedule()
    found = (p.cpu if target == "cpu" else p.gpu)(s).validate()
    assert found.wrong is None, f"{name}: {found}"
    return "proved" if found else "; ".join(dict.fromkeys(why for _, why in found.unproved))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True)
    rows: list[str] = []
    path: Path = parser.parse_args().write
    for name in PROGRAMS:
        cells = [validated(name, target, sizes) for target in ("cpu", "gpu") for sizes in SIZES]
        rows.append(f"| {name} | {' | '.join(x.replace('|', '/') for x in cells)} |")
        print(rows[-1], flush=True)
    proved = sum(row.count("| proved") for row in rows)
    path.write_text(f"{HEAD}" + "\n".join(rows) + f"\n\n{proved} of {4 * len(rows)} are proved.\n")


if __name__ == "__main__":
    main()
