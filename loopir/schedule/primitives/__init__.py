"""The primitives, one file each. Every module in this folder is loaded, so adding the file is all it takes."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
