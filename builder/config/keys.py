"""Keys of a section of ``model.toml``, read from the fields of a class: a key is written once, where its value is.

A field is a key if its type tells the values that it takes: ``bool``, ``str``, a ``Literal``, or ``Annotated`` with a
kind of ``value_types``. A ``ClassVar`` is a key of the file alone, which the parser turns into other fields.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from builder.config.value_types import ChoiceKind, FlagKind, StringKind, ValueKind


@dataclass(frozen=True)
class Otherwise:
    """Mark of a key that has no constant as its default: ``text`` describes its value when it is left out."""

    text: str


@dataclass(frozen=True)
class Key:
    """A key of a section. ``default`` is its value when left out; ``otherwise`` describes it if it is no constant."""

    name: str
    kind: ValueKind
    default: Any = None
    required: bool = False
    otherwise: str = ""


@dataclass(frozen=True)
class Section:
    """One ``[table]``, or one ``[[array of tables]]`` when ``repeated``, with the keys that ``made_of`` has."""

    name: str
    made_of: type
    keys: Mapping[str, Key]
    repeated: bool = False

    @property
    def header(self) -> str:
        """The line above its keys."""
        return f"[[{self.name}]]" if self.repeated else f"[{self.name}]"

    @property
    def doc(self) -> str:
        """Description of it in one paragraph."""
        return " ".join((self.made_of.__doc__ or "").split())


def make_section(name: str, made_of: type, *, repeated: bool = False) -> Section:
    """Return the section ``name`` with a key for each such field of ``made_of``."""
    hints = get_type_hints(made_of, include_extras=True)
    keys = (_make_key(made_of, field, hint) for field, hint in hints.items())
    return Section(name, made_of, {key.name: key for key in keys if key}, repeated)


def _make_key(made_of: type, name: str, hint: Any) -> Key | None:
    if get_origin(hint) is ClassVar:
        (hint,) = get_args(hint)
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    kind = next((mark for mark in marks if isinstance(mark, ValueKind)), None) or _infer_kind(hint)
    if kind is None:
        return None
    otherwise = next((mark.text for mark in marks if isinstance(mark, Otherwise)), "")
    if otherwise:
        return Key(name, kind, otherwise=otherwise)
    default = getattr(made_of, name, None)
    return Key(name, kind, None if default == () else default, required=not hasattr(made_of, name))


def _infer_kind(hint: Any) -> ValueKind | None:
    """Return the kind of a flag, a string or a choice; None in a type means that the key may be left out."""
    if hint in (bool, str):
        return FlagKind() if hint is bool else StringKind()
    if get_origin(hint) is Literal:
        return ChoiceKind(get_args(hint))
    if get_origin(hint) not in (Annotated, Union, UnionType):
        return None
    kinds = [kind for part in get_args(hint) if (kind := _infer_kind(part))]
    options = [option for kind in kinds if isinstance(kind, ChoiceKind) for option in kind.options]
    return ChoiceKind(tuple(options)) if options else next(iter(kinds), None)


def read_field_docs(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the name of each field of a class that has a string below it, and that string."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for field, below in pairwise(tree.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
