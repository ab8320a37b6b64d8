"""Modules that a package imports when it is imported, and then hardly ever uses: ``defer_imports`` until they are.

A package's own imports cannot be moved into its functions. So while it is imported, what stands in the place of such a
module is one that has nothing, and imports the true one when something of it is used. Afterwards ``sys.modules`` has
no trace of it: whoever else imports that name gets the true module. One thread at a time does this.
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
    """Stands for the module of its name, made by the thread that imports the package."""

    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        super().__init__(name)
        self._thread = get_ident()
        vars(self).update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system looks for
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self and get_ident() == self._thread:
            return _DeferredMember(self, name)  # "from it import name", which uses nothing yet
        return getattr(_import_deferred(self), name)


class _DeferredMember:
    """Stands for ``name`` of ``module``, to be called or asked for something of its own."""

    def __init__(self, module: _DeferredModule, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *values: Any, **named: Any) -> Any:
        return getattr(_import_deferred(self._module), self._name)(*values, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(_import_deferred(self._module), self._name), name)


def _import_deferred(module: _DeferredModule) -> ModuleType:
    if sys.modules.get(module.__name__) is module:  # used while the package is still imported
        del sys.modules[module.__name__]
    return import_module(module.__name__)


_LOCK = RLock()


@contextmanager
def defer_imports(modules: Mapping[str, Mapping[str, Any]], package: str = "") -> Iterator[None]:
    """A context in which an import of one of ``modules`` imports nothing yet; one that is there already stays.

    ``modules``: by full name, with what of it is used at once, and is given here instead.
    ``package``: one whose modules are imported without the package's own first, that is without its ``__init__``.
    """
    with _LOCK:
        held: dict[str, ModuleType] = {}
        if package and package not in sys.modules and (spec := PathFinder.find_spec(package)) is not None:
            held[package] = bare = ModuleType(package)
            bare.__path__ = list(spec.submodule_search_locations or ())
        held |= {name: _DeferredModule(name, given) for name, given in modules.items() if name not in sys.modules}
        sys.modules.update(held)
        try:
            yield
        finally:
            for name, module in held.items():
                if sys.modules.get(name) is module:
                    del sys.modules[name]
                    _attach_to_package(name, module)


def _attach_to_package(name: str, module: ModuleType) -> None:
    """Let the package above ``name`` have it as its attribute, as it has every module that was imported."""
    above, _, own = name.rpartition(".")
    if above in sys.modules and own not in vars(sys.modules[above]):
        setattr(sys.modules[above], own, module)
