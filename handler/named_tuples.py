"""``NamedTuple`` for modules that load at the start: like ``typing.NamedTuple``, but without compiling code.

``typing.NamedTuple`` compiles each annotation and each constructor when the class is made, at every start: 0.15 ms for
a class of seven fields, where this one takes 0.02 (Python 3.13). The function has some forty such classes.
"""

from __future__ import annotations

from .typed import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from operator import itemgetter

    _INHERITED = frozenset(("__new__", "__init__", "__slots__", "__getnewargs__", "_fields", "_field_defaults"))

    class _Named(type):
        """A metaclass that makes fields of a class's annotations: those with a value have a default, and come last."""

        def __new__(cls, name, bases, body):
            if not bases:  # NamedTuple itself
                return super().__new__(cls, name, (tuple,), body)
            if bases != (NamedTuple,):  # a subclass of a class with fields inherits them
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"{name}: fields with defaults come after those without")
            if not _INHERITED.isdisjoint(body):
                raise AttributeError(f"{name}: {', '.join(_INHERITED.intersection(body))} cannot be replaced")
            getters = {field: property(itemgetter(at)) for at, field in enumerate(fields)}
            own = {"__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            return super().__new__(cls, name, bases, {**body, **getters, **own})

    class NamedTuple(metaclass=_Named):
        """A tuple whose items have names: the annotations of a subclass."""

        __slots__ = ()
        _fields = ()
        _field_defaults = {}  # noqa: RUF012 - each class has its own

        def __new__(cls, /, *values, **named):
            """Make a tuple of the fields' values."""
            if named or len(values) != len(cls._fields):
                values = _filled(cls, values, named)
            return tuple.__new__(cls, values)

        def __getnewargs__(self):  # for copies and pickles
            return tuple(self)

        def __repr__(self):
            fields = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({fields})"

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, /, **changes):
            return type(self)(**(self._asdict() | changes))

    def _filled(made, values, named):
        """Return ``values``, followed by the other fields from ``named`` or from the defaults."""
        left = made._fields[len(values) :]
        if len(values) > len(made._fields) or not named.keys() <= set(left):
            raise TypeError(f"{made.__name__} has no such fields, or has them twice: {len(values)} and {list(named)}")
        fields = made._field_defaults | named
        if missing := [field for field in left if field not in fields]:
            raise TypeError(f"{made.__name__} lacks {', '.join(missing)}")
        return (*values, *[fields[field] for field in left])
