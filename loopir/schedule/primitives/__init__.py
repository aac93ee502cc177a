"""Every module in this folder is loaded, and the `@primitive` in it with it: a primitive is added by adding its file."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
