"""The places from which a request may have files fetched: none, unless the function's environment allows them.

COLDFORGE_S3_SOURCES   "bucket/prefix, bucket/, …"
COLDFORGE_URL_SOURCES  "host, *.domain, host:port, …" over https; and networks, "10.1.0.0/16", to whose addresses a
                       host may lead although they are not public

They are read when the function starts; ``remote``, which fetches, is imported with the first file that needs it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .errors import StartupError
from .named_tuples import NamedTuple


class Sources(NamedTuple):
    """Allowed sources. ``s3``: "bucket/prefix"; ``hosts``: "host", "host:port", "*.domain"; ``networks``: CIDR."""

    s3: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # in lower case
    networks: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Sources:
        """Read the sources from the environment. Raises StartupError."""
        s3 = _split_items(environment, "COLDFORGE_S3_SOURCES")
        for item in s3:
            if not item.partition("/")[1] or item.startswith("/"):
                raise StartupError(f'COLDFORGE_S3_SOURCES has "{item}": write a bucket and a prefix, as "{item}/".')
        urls = [item.lower() for item in _split_items(environment, "COLDFORGE_URL_SOURCES")]
        networks = tuple(item for item in urls if "/" in item)
        hosts = tuple(item for item in urls if "/" not in item)
        if networks:
            _require_networks(networks)
        for host in hosts:
            if not re.fullmatch(r"(\*\.[^*.:]+\.|)[^*:]+(:[0-9]{1,5})?", host):
                raise StartupError(
                    f'COLDFORGE_URL_SOURCES has "{host}": write hosts as "example.com", "example.com:8443" or '
                    '"*.example.com", without https://.'
                )
        return cls(tuple(s3), hosts, networks)

    def allow_object(self, bucket: str, key: str) -> bool:
        """Return whether the object may be read."""
        return any(f"{bucket}/{key}".startswith(item) for item in self.s3)

    def allow_host(self, host: str, port: int) -> bool:
        """Return whether files may be fetched from ``host``, which is in lower case."""
        for item in self.hosts:
            name, _, number = item.partition(":")
            if int(number or 443) == port and (host.endswith(name[1:]) if name.startswith("*.") else host == name):
                return True
        return False


NOWHERE = Sources()


def _split_items(environment: Mapping[str, str], name: str) -> list[str]:
    return [item.strip() for item in environment.get(name, "").split(",") if item.strip()]


def _require_networks(networks: tuple[str, ...]) -> None:
    import ipaddress

    for network in networks:
        try:
            ipaddress.IPv4Network(network)
        except ValueError as error:
            raise StartupError(
                f'COLDFORGE_URL_SOURCES has "{network}" ({error}): write hosts without https:// and paths, and '
                'networks as "10.1.0.0/16".'
            ) from None
