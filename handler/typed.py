"""What this package needs of ``typing``, without that module: it takes 2 to 4 ms to import, at every start.

Annotations are never evaluated here, so that a name in one need not be anything.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import Protocol as Protocol
else:
    Any = object

    class Protocol:
        """A base class that nobody asks for its instances."""


STAND_INS: dict[str, object] = {
    "TYPE_CHECKING": False,
    "Any": object,
    "Protocol": Protocol,
    "TypeVar": lambda name, *_bounds, **_options: name,
    "cast": lambda _type, value: value,
    "overload": lambda function: function,
}
"""What Powertools and Pillow use of ``typing`` while they are imported, for ``later.defer_imports``."""
