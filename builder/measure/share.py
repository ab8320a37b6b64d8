"""A share of the machine's processors for a program and all that it starts, as Lambda gives one: by Linux's own quota.

The kernel lets the programs of a control group run for so much of each period, and then stops them until the next.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from builder.errors import EnvironmentSetupError, UsageError

PERIOD_US = 20_000
"""An assumption, as AWS does not say what Lambda's is. A request that needs less than the share of a period, after a
pause, is not slowed down at all: with Linux's own 100 ms that would be most."""

FIRST_WEIGHT, FIRST_SHARES = "10000", "262144"
"""The most that there is: the share is had before other programs, which would otherwise be measured, too."""

_JOIN = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
_NUMBERS = count()


@dataclass(frozen=True)
class Quota:
    """Where groups can be made. ``version``: of Linux's control groups, 1 or 2; ``own``: the group of this process;
    ``parent``: the one below which others can be.
    """

    version: int
    own: Path
    parent: Path

    @property
    def name(self) -> str:
        return f"control groups, version {self.version}, in periods of {PERIOD_US // 1000} ms"

    @contextmanager
    def share(self, processors: float) -> Iterator[tuple[str, ...]]:
        """A command that runs the one behind it on so much of a processor. Raises UsageError for more than there are.

        All that was started with it must have ended before the block does.
        """
        there = len(os.sched_getaffinity(0))
        if processors > there:
            raise too_many(processors, there)
        quota = round(processors * PERIOD_US)
        with self._group() as group:
            if self.version == 2:
                (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(quota))
            yield ("/bin/sh", "-c", _JOIN, str(group))

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """This process comes before other programs: a caller that waits for its turn would measure that, too."""
        with self._group() as group:
            (group / "cgroup.procs").write_text(str(os.getpid()))
            try:
                yield
            finally:
                (self.own / "cgroup.procs").write_text(str(os.getpid()))

    @contextmanager
    def _group(self) -> Iterator[Path]:
        """A new group that comes before others."""
        group = _made(self.parent, self.version)
        if group is None:
            raise _refused()
        try:
            if self.version == 2:
                (group / "cpu.weight").write_text(FIRST_WEIGHT)
            else:
                (group / "cpu.shares").write_text(FIRST_SHARES)
            yield group
        finally:
            _removed(group)


def quota(groups: Path = Path("/proc/self/cgroup"), mounts: Path = Path("/proc/self/mounts")) -> Quota:
    """What this process may use. ``groups``, ``mounts``: the kernel's files. Raises EnvironmentSetupError."""
    for version, own, place in _places(groups, mounts):
        if os.access(own / "cgroup.procs", os.W_OK) and (group := _made(place, version)) is not None:
            _removed(group)
            return Quota(version, own, place)
    raise _refused()


def too_many(processors: float, there: object) -> UsageError:
    return UsageError(f"{processors:.3g} processors cannot be had on a machine with {there}.")


def _refused() -> EnvironmentSetupError:
    return EnvironmentSetupError(
        "this process may make no control group, and so can hold no program to a share of a processor: run the command "
        "as root, or in a container with --privileged."
    )


def _places(groups: Path, mounts: Path) -> Iterator[tuple[int, Path, Path]]:
    """The version, this process's own group, and where another could be: there, or else above it."""
    mounted = [line.split() for line in mounts.read_text().splitlines()]
    for line in groups.read_text().splitlines():
        number, controllers, own = line.split(":", 2)
        version = 2 if number == "0" and not controllers else 1
        if version == 1 and "cpu" not in controllers.split(","):
            continue
        for _, root, kind, options, *_ in mounted:
            if (version == 2 and kind == "cgroup2") or (kind == "cgroup" and "cpu" in options.split(",")):
                place = Path(root + own.rstrip("/"))
                yield from (
                    (version, place, folder) for folder in (place, *place.parents) if folder.is_relative_to(root)
                )


def _made(parent: Path, version: int) -> Path | None:
    """A new group below ``parent`` that can have a quota; None where that is not allowed."""
    group = parent / f"coldforge-{os.getpid()}-{next(_NUMBERS)}"
    try:
        group.mkdir()
    except OSError:
        return None
    if os.access(group / ("cpu.max" if version == 2 else "cpu.cfs_quota_us"), os.W_OK):
        return group
    _removed(group)
    return None


def _removed(group: Path) -> None:
    """The kernel keeps a group for a moment after its last program has ended."""
    for _ in range(100):
        with suppress(OSError):
            group.rmdir()
        if not group.exists():
            return
        time.sleep(0.02)
