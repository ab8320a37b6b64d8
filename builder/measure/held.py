"""The function held to a share of a processor: in the emulator here, or, where that cannot be had, in Docker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from builder.docker.client import why_no_engine
from builder.errors import EnvironmentSetupError
from builder.local import rie
from builder.local.emulator import Emulator
from builder.measure.bench import Running
from builder.measure.contained import Containers, containers
from builder.measure.share import Quota, quota
from builder.prices import WHOLE_PROCESSOR_MB


@dataclass(frozen=True)
class Emulated:
    """The function in Lambda's emulator here, held to its share by control groups."""

    function: Emulator
    quota: Quota

    @property
    def name(self) -> str:
        return self.quota.name

    @property
    def python(self) -> str:
        return self.function.python.version

    @property
    def note(self) -> str:
        return rie.note(self.function.python) or ""

    @contextmanager
    def running(self, memory: int) -> Iterator[Running]:
        """With ``memory`` megabytes. Raises UsageError for more processors than there are."""
        share = self.quota.share(memory / WHOLE_PROCESSOR_MB)
        with share as prefix, replace(self.function, memory=memory, prefix=prefix) as running, self.quota.ahead():
            yield running


Held = Emulated | Containers


def held(layer: Path, say: Callable[[str], None]) -> Held:
    """Where the function of ``layer`` is held to a share: here, or else in Docker. Raises EnvironmentSetupError."""
    found: Held
    try:
        groups = quota()
    except EnvironmentSetupError as error:
        if reason := why_no_engine():
            told = f"NOTHING WAS MEASURED: {error} Nor is there a Docker engine: {reason}"
            raise EnvironmentSetupError(told) from error
        say(f"NOTE: {error} Docker does it instead, and what its network takes is measured, too.")
        found = containers(layer)
    else:
        found = Emulated(rie.emulator(layer), groups)
    say(f"held to a share of a processor by {found.name}")
    return found
