"""What stays of a delivery that is stopped at any file operation: a process of its own with ``faults.c`` loaded first.

``python -m tests.support.faults SCENARIO FOLDER`` runs the scenario of that name in ``tests.support.deliveries`` over
and over, each time in a fork that is stopped at the next operation, until one gets to its end. After each it looks at
what is there, and runs the scenario once more, undisturbed. It prints how many runs of each kind there were, as JSON.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.base.errors import DiskError

SOURCE = Path(__file__).with_name("faults.c")
ROOT = Path(__file__).parents[2]

KILL, INTERRUPT, FAIL_ONCE, FAIL_ON = 1, 2, 3, 4
"""As in faults.c."""

FINISHED, TYPED, INTERRUPTED, WRONG = 0, 3, 4, 5
"""How a fork ends that is not killed: it got to its end, or with a DiskError, KeyboardInterrupt or anything else."""

EACH = ("killed", "interrupted", "full", "broken")
STOPS = {
    "killed": (KILL, 0),
    "interrupted": (INTERRUPT, 0),
    "full": (FAIL_ON, errno.ENOSPC),
    "full for a moment": (FAIL_ONCE, errno.ENOSPC),
    "over quota": (FAIL_ON, errno.EDQUOT),
    "read-only": (FAIL_ON, errno.EROFS),
    "not permitted": (FAIL_ON, errno.EACCES),
    "out of descriptors": (FAIL_ON, errno.EMFILE),
    "broken": (FAIL_ONCE, errno.EIO),
}
"""What happens at an operation: the way, and the error that is told."""

MOST = 3000
"""Operations. A scenario with more is not meant for this."""


@dataclass(frozen=True)
class Delivery:
    """``before`` makes what is there already, ``run`` the delivery that is stopped; both get an empty folder or that.

    ``state``: what a reader finds of the deliveries, in any form that can be compared. Where ``allowed`` is not given,
    it must be what it was before ``run`` or what it is after. ``exchanges``: the file system can exchange two folders.
    ``ways``: names in ``STOPS``.
    """

    before: Callable[[Path], object]
    run: Callable[[Path], object]
    state: Callable[[Path], object]
    exchanges: bool = True
    ways: Sequence[str] = EACH
    allowed: Callable[[object, object, object], bool] = lambda found, old, new: found in (old, new)


def build(folder: Path) -> Path:
    """The library to be loaded first."""
    from tests.support import needs  # not in the driver: the smaller a process, the faster it forks

    library = folder / "faults.so"
    command = [needs.gcc(), "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", str(SOURCE), "-o", str(library)]
    subprocess.run([*command, "-ldl"], check=True)
    return library


def stop_everywhere(library: Path, delivery: str, folder: Path) -> dict[str, int]:
    """Run the driver for the delivery of that name; how many runs were stopped in each way.

    Fails where one of them is wrong.
    """
    environment = os.environ | {"LD_PRELOAD": str(library), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.support.faults", delivery, str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file below ``folder`` with its content, and every folder with None. How long a stage took is left out."""
    paths = sorted(folder.rglob("*"))
    return {p.relative_to(folder).as_posix(): _content(p) if p.is_file() else None for p in paths}


def _content(path: Path) -> bytes:
    return re.sub(rb', "seconds": [0-9.e-]+', b"", path.read_bytes()) if path.name == ".key" else path.read_bytes()


class Driver:
    """Stops one delivery in every way, at every operation, below ``folder``."""

    def __init__(self, delivery: Delivery, folder: Path) -> None:
        self._faults = ctypes.CDLL(None)
        self._delivery, self._place, self._template = delivery, folder / "place", folder / "template"
        self._template.mkdir()
        delivery.before(self._template)
        self._reset()
        self._old = delivery.state(self._place)
        assert self._fork(0, 0, 0) == FINISHED
        self._new = delivery.state(self._place)
        self._names = set(tree(self._place))
        assert self._old != self._new

    def stop(self, way: str) -> int:
        """At how many operations it was stopped. Raises AssertionError for whatever is then not as it must be."""
        how, number = STOPS[way]
        for at in range(1, MOST):
            self._reset()
            ended = self._fork(how, at, number)
            expected = {KILL: (-signal.SIGKILL,), INTERRUPT: (INTERRUPTED,)}.get(how, (TYPED,))
            label = f"{way} at operation {at}, ended with {ended}"
            assert ended in (FINISHED, *expected), label
            found = self._delivery.state(self._place)
            assert self._delivery.allowed(found, self._old, self._new), f"{label}: {found}"
            if number == errno.ENOSPC:  # deleting still works
                assert set(tree(self._place)) <= self._names | set(tree(self._template)), f"{label} left rubbish"
            count = self._counted
            assert self._fork(0, 0, 0) == FINISHED, f"the run after: {label}"
            assert self._delivery.state(self._place) == self._new, f"the run after: {label}"
            assert set(tree(self._place)) == self._names, f"the run after: {label}"
            if ended == FINISHED and count < at:
                return at - 1
        raise AssertionError(f"more than {MOST} operations")

    def _reset(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
        shutil.copytree(self._template, self._place, symlinks=True)

    def _fork(self, how: int, at: int, number: int) -> int:
        """Run the delivery in a fork with such a fault, how it ended; ``_counted`` is then how many operations were."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            self._faults.fault_arm(
                os.fsencode(self._place), how, ctypes.c_long(at), number, int(self._delivery.exchanges)
            )
            code = self._outcome()
            self._faults.fault_disarm()
            os.write(write, str(self._faults.fault_count()).encode())
            os._exit(code)
        os.close(write)
        self._counted = int(os.read(read, 20) or 0)
        os.close(read)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _outcome(self) -> int:
        try:
            self._delivery.run(self._place)
        except DiskError:
            return TYPED
        except KeyboardInterrupt:
            return INTERRUPTED
        except BaseException:
            traceback.print_exc()
            return WRONG
        return FINISHED


def _main(name: str, folder: Path) -> Iterator[tuple[str, int]]:
    from tests.support.deliveries import delivery_of

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    gc.disable()  # which would touch, and so copy, all that forks share
    delivery = delivery_of(name)
    driver = Driver(delivery, folder)
    for way in delivery.ways:
        yield way, driver.stop(way)


if __name__ == "__main__":
    print(json.dumps(dict(_main(sys.argv[1], Path(sys.argv[2])))))
