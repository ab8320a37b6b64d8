"""Callers that the local server allows. Pages of other sites are refused, whatever name they gave to this machine.

A browser sends the name of this machine in ``Host``, even if a site's own name leads to 127.0.0.1 (DNS rebinding), and
the site of the requesting page in ``Origin``.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from builder.measure.local.framing import RequestRefusal


class AllowedOrigins(NamedTuple):
    """Allowed ``hosts``, names of this machine besides loopback, and ``origins`` of pages elsewhere; ``*`` is any."""

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def check_request(self, hosts: Iterable[bytes], origins: Iterable[bytes]) -> RequestRefusal | None:
        """Refuse a request by the values of its ``Host`` and ``Origin``, unless all of them are allowed."""
        for host in hosts:
            if not self._is_local("//" + host.decode("latin-1")):
                return RequestRefusal(
                    403, "this server answers to localhost only; for another name, serve with --allow-host NAME"
                )
        for origin in (value.decode("latin-1") for value in origins):
            if "*" not in self.origins and origin not in self.origins and not self._is_local(origin):
                return RequestRefusal(403, "pages of this origin may not call the server; serve with --cors ORIGIN")
        return None

    def _is_local(self, address: str) -> bool:
        try:
            name = (urlsplit(address).hostname or "").rstrip(".")
            return name == "localhost" or name in self.hosts or ip_address(name).is_loopback
        except ValueError:  # It is neither a known name nor an address.
            return False


LOOPBACK = AllowedOrigins()
