"""Modules that a package imports and hardly uses: none is imported until it is used, and then the true one is."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from handler.deferred_import import defer_imports

FILES = {
    "whole_package/__init__.py": "from .heavy import Heavy",
    "whole_package/light.py": "from whole_package import heavy\nfrom whole_package.heavy import Heavy, number\n"
    "import heavy_module\n\ndef made():\n    return Heavy(3).value, number.real, heavy_module.answer()\n",
    "whole_package/heavy.py": "number = 7\n\nclass Heavy:\n    def __init__(self, value): self.value = value\n",
    "whole_package/at_once.py": "import heavy_module\nnow = heavy_module.answer()\n",
    "heavy_module.py": "value = 42\n\ndef answer():\n    return value\n",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.startswith(("whole_package", "heavy_module"))]:
        del sys.modules[name]


def ours() -> set[str]:
    return {name for name in sys.modules if name.startswith(("whole_package", "heavy_module"))}


def test_a_module_is_imported_when_something_of_it_is_used() -> None:
    with defer_imports({"whole_package.heavy": {}, "heavy_module": {}}, package="whole_package"):
        light = importlib.import_module("whole_package.light")
    assert ours() == {"whole_package.light"}
    assert light.made() == (3, 7, 42)
    assert ours() == {"whole_package", "whole_package.light", "whole_package.heavy", "heavy_module"}
    assert importlib.import_module("heavy_module").value == 42


def test_a_package_has_what_was_deferred_below_it() -> None:
    """As it has what is imported: whoever imports a module of it may name another one."""
    with defer_imports({"whole_package.heavy": {}}, package="whole_package"):
        importlib.import_module("whole_package.light")
    package = importlib.import_module("whole_package")
    assert package.heavy.number == 7
    sys.modules.pop("whole_package.heavy")
    (plain := sys.modules["whole_package"]).__dict__.pop("heavy")
    with defer_imports({"whole_package.heavy": {}}):
        pass
    assert plain.heavy.Heavy(4).value == 4
    assert isinstance(plain.heavy.Heavy(4), sys.modules["whole_package.heavy"].Heavy)


def test_what_is_given_is_used_and_nothing_imported() -> None:
    with defer_imports({"heavy_module": {"answer": lambda: "given"}}, package="whole_package"):
        assert importlib.import_module("whole_package.at_once").now == "given"
    assert ours() == {"whole_package.at_once"}
    assert importlib.import_module("heavy_module").answer() == 42


def test_what_is_used_at_once_is_imported_at_once() -> None:
    with defer_imports({"heavy_module": {}}, package="whole_package"):
        assert importlib.import_module("whole_package.at_once").now == 42
    assert "heavy_module" in ours()


def test_a_module_that_is_there_already_is_used_as_it_is() -> None:
    there = importlib.import_module("heavy_module")
    with defer_imports({"heavy_module": {"answer": lambda: "given"}}, package="whole_package"):
        assert importlib.import_module("whole_package.at_once").now == 42
    assert sys.modules["heavy_module"] is there


def test_nothing_stays_after_an_import_that_fails() -> None:
    with pytest.raises(ModuleNotFoundError), defer_imports({"heavy_module": {}}, package="whole_package"):
        importlib.import_module("whole_package.missing")
    assert ours() == set()


def test_a_name_that_the_true_module_lacks_is_an_attribute_error() -> None:
    with defer_imports({"heavy_module": {}}):
        held = importlib.import_module("heavy_module")
    with pytest.raises(AttributeError, match="nothing_such"):
        held.nothing_such  # noqa: B018
