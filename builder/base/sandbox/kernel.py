"""The kernel's features for confining a process, and messages if some are missing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from builder.base.errors import EnvironmentSetupError, UsageError
from builder.base.sandbox import landlock, seccomp

DEMAND = "COLDFORGE_SANDBOX"
"""A variable that ends a build with an incomplete sandbox if it is ``require``."""
CONTAINED = "COLDFORGE_CONTAINED"
"""A variable of builds in Docker: the container confines them, even if the kernel's features are missing."""

WHOLE = 3
"""The first version of Landlock that keeps files from being emptied."""


@dataclass(frozen=True)
class KernelFeatures:
    """The version of Landlock (``landlock``, 0 if there is none), and whether seccomp filters exist (``seccomp``)."""

    landlock: int
    seccomp: bool

    @classmethod
    def from_machine(cls) -> KernelFeatures:
        return cls(landlock.find_landlock_version(), seccomp.has_seccomp())

    def __str__(self) -> str:
        version = f"Landlock {self.landlock}" if self.landlock else "no Landlock"
        return f"{version}, {'seccomp' if self.seccomp else 'no seccomp'}"

    def require_demanded(self, environment: Mapping[str, str] = os.environ) -> None:
        """Raise EnvironmentSetupError if DEMAND requires a complete sandbox and this one is not."""
        demand = environment.get(DEMAND, "")
        if demand not in ("", "require"):
            raise UsageError(f"{DEMAND}={demand} is not known: it is `require`, or not set.")
        if demand and (line := self.describe_missing(environment)):
            raise EnvironmentSetupError(f"{DEMAND}=require, so nothing of the model is read or run.\n{line}")

    def describe_missing(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return one line for the screen, or "" if nothing is missing or the container is coldforge's own."""
        lacks = [
            *([] if self.landlock >= WHOLE else ["Landlock, so a model's code can reach this user's files"]),
            *([] if self.seccomp else ["seccomp filters, so a model's code can use the network and run programs"]),
        ]
        if not lacks or environment.get(CONTAINED):
            return ""
        return (
            f"SANDBOX INCOMPLETE: this system lacks {'; and '.join(lacks)}. Build in Docker, or on "
            "Linux 6.2 or newer, unless you trust the model."
        )
