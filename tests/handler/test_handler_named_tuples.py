"""The function's own ``NamedTuple`` against typing's, which says what is right."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import pytest

from handler import named_tuples


class Ours(named_tuples.NamedTuple):
    """A place."""

    x: int
    y: tuple[int, ...] | None
    name: str = ""
    scale: float = 1.0

    @property
    def far(self) -> bool:
        return self.x > 9

    @classmethod
    def there(cls) -> Ours:
        return cls(10, None)


class Theirs(typing.NamedTuple):
    x: int
    y: tuple[int, ...] | None
    name: str = ""
    scale: float = 1.0


class Empty(named_tuples.NamedTuple):
    pass


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((1, (2,)), {}),
        ((1, None, "a"), {}),
        ((1, None, "a", 2.0), {}),
        ((1,), {"y": None}),
        ((), {"scale": 3.0, "y": (), "x": 1}),
        ((1, (2,)), {"scale": 4.0}),
    ],
)
def test_it_is_made_and_read_as_typings(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, theirs = Ours(*values, **named), Theirs(*values, **named)
    assert ours == theirs  # as tuples
    assert hash(ours) == hash(theirs)
    assert (ours.x, ours.y, ours.name, ours.scale) == tuple(theirs)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(name="b", x=0) == theirs._replace(name="b", x=0)
    assert type(ours._replace(x=0)) is Ours
    assert Ours._make(theirs) == theirs


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((), {}),
        ((1,), {}),
        ((1, None, "a", 2.0, 5), {}),
        ((1, None), {"x": 2}),
        ((1, None), {"z": 2}),
        ((1,), {"name": "a"}),
        ((1, None, "a", 2.0), {"scale": 1.0}),
    ],
)
def test_what_does_not_fit_raises_as_typings(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    for kind in (Ours, Theirs):
        with pytest.raises(TypeError):
            kind(*values, **named)


def test_it_is_a_class_like_typings() -> None:
    for name in ("_fields", "_field_defaults", "__match_args__", "__slots__", "__module__"):
        assert getattr(Ours, name) == getattr(Theirs, name)
    assert issubclass(Ours, tuple)
    assert Ours.__doc__ == "A place."
    assert Ours.there().far
    assert not Ours(1, None).far
    assert Empty() == ()
    match Ours(1, None, "a"):
        case Ours(x, None, name=name):
            assert (x, name) == (1, "a")
        case _:
            pytest.fail("no match")


def test_a_class_of_such_a_class_has_its_fields() -> None:
    class Named(Ours):
        def __new__(cls, name: str) -> Named:
            return super().__new__(cls, 1, None, name)  # type: ignore[arg-type]

        @property
        def shouted(self) -> str:
            return self.name.upper()

    class Same(Ours):
        pass

    assert Named("a").shouted == "A"
    assert Named._fields == Ours._fields
    assert Same(1, y=(2,)) == Ours(1, (2,))
    assert isinstance(Same(1, None)._replace(x=2), Same)


def test_copies_and_pickles_have_its_type() -> None:
    one = Ours(1, (2,), "a")
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert (type(other), other) == (Ours, one)


def test_nothing_of_it_can_be_changed() -> None:
    one: Any = Ours(1, None)
    for name in ("x", "other"):
        with pytest.raises(AttributeError):
            setattr(one, name, 2)


@pytest.mark.parametrize("base", [named_tuples.NamedTuple, typing.NamedTuple], ids=("ours", "theirs"))
@pytest.mark.parametrize(
    ("body", "error"), [("x: int = 1; y: int", TypeError), ("x: int; __new__ = lambda cls: None", AttributeError)]
)
def test_a_class_that_cannot_be_is_refused(base: object, body: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        exec(f"class Wrong(base): {body}", {"base": base})
