"""Deferred import of modules that a package imports at once and then hardly ever uses: see ``defer_imports``.

A package's own imports cannot be moved into its functions. So while it is imported, an empty module stands in for each
of them, and imports the true one when something in it is used. Afterwards ``sys.modules`` has no trace of it: any other
import of that name gets the true module. Only one thread does this at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from threading import RLock, get_ident
from types import ModuleType

from .typed import Any


class _DeferredModule(ModuleType):
    """A stand-in for the module of its name, made by the thread that imports the package."""

    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        super().__init__(name)
        self._thread = get_ident()
        vars(self).update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system looks for such names
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self and get_ident() == self._thread:
            return _DeferredMember(self, name)  # for "from … import name", which uses nothing yet
        return getattr(_import_deferred(self), name)


class _DeferredMember:
    """A stand-in for ``name`` of ``module``, which may be called or have its attributes read."""

    def __init__(self, module: _DeferredModule, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *values: Any, **named: Any) -> Any:
        return getattr(_import_deferred(self._module), self._name)(*values, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(_import_deferred(self._module), self._name), name)


def _import_deferred(module: _DeferredModule) -> ModuleType:
    """Import and return the module that ``module`` stands for."""
    if sys.modules.get(module.__name__) is module:  # used while the package is still imported
        del sys.modules[module.__name__]
    return import_module(module.__name__)


_LOCK = RLock()


@contextmanager
def defer_imports(modules: Mapping[str, Mapping[str, Any]], package: str = "") -> Iterator[None]:
    """Return a context in which importing one of ``modules`` imports nothing yet, unless it was imported before.

    ``modules``: by full name, with replacements for the members that are used at once.
    ``package``: a package whose modules are imported without running its ``__init__`` first.
    """
    with _LOCK:
        proxies: dict[str, ModuleType] = {}
        if package and package not in sys.modules and (spec := PathFinder.find_spec(package)) is not None:
            proxies[package] = bare = ModuleType(package)
            bare.__path__ = list(spec.submodule_search_locations or ())
        proxies |= {name: _DeferredModule(name, attrs) for name, attrs in modules.items() if name not in sys.modules}
        sys.modules.update(proxies)
        try:
            yield
        finally:
            for name, module in proxies.items():
                if sys.modules.get(name) is module:
                    del sys.modules[name]
                    _attach_to_package(name, module)


def _attach_to_package(name: str, module: ModuleType) -> None:
    """Set ``module`` as an attribute of the package above ``name``, as the import system does."""
    above, _, own = name.rpartition(".")
    if above in sys.modules and own not in vars(sys.modules[above]):
        setattr(sys.modules[above], own, module)
