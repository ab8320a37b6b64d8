"""The names of ``typing`` that this package needs, without that module, which takes 2 to 4 ms to import at every start.

Annotations are never evaluated here, so the names in them need not exist.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import Protocol as Protocol
else:
    Any = object

    class Protocol:
        """A base class whose subclasses are never checked against instances."""


STAND_INS: dict[str, object] = {
    "TYPE_CHECKING": False,
    "Any": object,
    "Protocol": Protocol,
    "TypeVar": lambda name, *_bounds, **_options: name,
    "cast": lambda _type, value: value,
    "overload": lambda function: function,
}
"""The members of ``typing`` that Powertools and Pillow use while they are imported, for ``later.defer_imports``."""
