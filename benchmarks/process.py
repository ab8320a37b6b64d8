"""Worker processes, which the measuring process starts, commands, and stops while another has its turn."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.answers import Answer, Output, WrongSize, read_answers
from benchmarks.engines import KINDS
from benchmarks.models import ROOT, SAMPLES, Network

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
PATIENCE = 180.0  # seconds for one reply


class EngineFailed(Exception):
    """The error of an engine that failed; the message says why."""


@dataclass(frozen=True)
class Setting:
    """``threads`` on as many CPUs; with ``avx2``, engines that have a switch for it do not use AVX-512."""

    threads: int
    avx2: bool = False

    @property
    def cpus(self) -> list[int]:
        """The last CPUs that this process may use: the first one usually serves the interrupts."""
        return sorted(os.sched_getaffinity(0))[-self.threads :]

    @property
    def key(self) -> str:
        return f"{self.threads}{'-avx2' if self.avx2 else ''}"


class Worker:
    """A process of one engine with one network; ``opened`` has the figures of its start."""

    def __init__(self, engine: str, network: Network, setting: Setting) -> None:
        kind = KINDS[engine]
        model = network.folder / kind.model
        request = {
            "engine": engine,
            "cls": kind.cls,
            "model": str(model),
            "threads": setting.threads,
            "cpus": setting.cpus,
            "samples": [str(sample_path(network, number)) for number in range(SAMPLES)],
            "ready": str(network.folder / "ready.json"),
        }
        environment = {**os.environ, **kind.environment}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # with it, every import would compile its file again
        if setting.avx2:
            environment |= kind.avx2 or {}
        self.log = network.folder / "log" / f"{engine}.txt"
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("w") as log:
            request["spawned"] = time.monotonic()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker", json.dumps(request)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=functools.partial(_prepare_worker, os.getpid(), setting.cpus),
            )
        try:
            self.opened = self._reply()
        except EngineFailed:
            self.close()
            raise

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def ask(self, **command: Any) -> dict[str, Any]:
        """Give a command while every other worker is stopped. Raises EngineFailed."""
        assert self.process.stdin
        self.resume()
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()
            return self._reply()
        except BrokenPipeError as error:
            raise EngineFailed(self._last_words()) from error
        finally:
            self.pause()

    def answer(self, sample: Path, outputs: Sequence[Output]) -> list[Answer]:
        """Return the answers to the input in ``sample``, for these ``outputs``. Raises EngineFailed."""
        to = self.log.with_suffix(".answers")
        self.ask(do="answer", sample=str(sample), to=str(to))
        try:
            return read_answers(to.read_bytes(), outputs)
        except WrongSize as error:
            raise EngineFailed(str(error)) from error

    def pause(self) -> None:
        """Stop the process, since some engines' threads spin for a while after each run."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        self.process.kill()
        self.process.wait()

    def _reply(self) -> dict[str, Any]:
        assert self.process.stdout
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise EngineFailed(f"no answer in {PATIENCE:.0f} s" if not ready else self._last_words())
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            raise EngineFailed(message["error"])
        return message

    def _last_words(self) -> str:
        status = self.process.wait()
        words = self.log.read_text(errors="replace").strip().splitlines()[-1:]
        return f"ended with status {status}: {''.join(words)[:300]}"


def end_with(parent: int) -> None:
    """Have the kernel kill this process, just forked, when the thread that started it ends (``prctl(2)``).

    ``parent`` is the id of the process that started it. A worker is stopped most of the time, and then only SIGKILL
    ends it, not even the end of its standard input.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # the parent ended before prctl
        os.kill(os.getpid(), signal.SIGKILL)


def _prepare_worker(parent: int, cpus: Sequence[int]) -> None:
    # The worker has a process group of its own: the end of the shell would hang up all of a shared one.
    os.setpgid(0, 0)
    end_with(parent)
    os.sched_setaffinity(0, cpus)


def sample_path(network: Network, number: int) -> Path:
    return network.folder / "keras" / f"{number}.in"


def quantiles(values: Sequence[float]) -> Mapping[str, float]:
    """Return the median, and the tenth and ninetieth percentile."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    return {"median": at(0.5), "p10": at(0.1), "p90": at(0.9)}
