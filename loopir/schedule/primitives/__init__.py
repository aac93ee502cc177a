"""The primitives, one file each. Every module in these folders is loaded, so adding the file is all it takes."""

from importlib import import_module
from pkgutil import walk_packages

for _module in sorted(walk_packages(__path__, f"{__name__}."), key=lambda m: m.name.rpartition(".")[2]):
    import_module(_module.name)
