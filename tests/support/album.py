"""A bucket of pictures, good and bad ones, for a batch; and what goes wrong while it runs."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from PIL import Image

from builder.pipeline.docker.docker_client import run_docker
from tests.conftest import ROOT

FACE = (ROOT / "tests" / "data" / "face.jpg").read_bytes()
SIZE = 2000
CORRUPT, LARGE, VANISHING = 20, 5, 3


def _large() -> bytes:
    """A small file of 81 million pixels."""
    file = io.BytesIO()
    Image.new("1", (9_000, 9_000)).save(file, "PNG")
    return file.getvalue()


@dataclass(frozen=True)
class Album:
    """``codes``: of the objects that get an error, by key."""

    s3: Any
    size: int
    codes: dict[str, str]
    etag: str

    @classmethod
    def filled(cls, s3: Any) -> Album:
        for bucket in ("album", "answers"):
            s3.create_bucket(Bucket=bucket)
        large = _large()
        keys = [f"in/{number:05} ü.jpg" for number in range(SIZE)]
        step = SIZE // (CORRUPT + LARGE + VANISHING)
        bad = keys[::step]
        codes = dict.fromkeys(bad[:CORRUPT], "truncated_image")
        codes |= dict.fromkeys(bad[CORRUPT : CORRUPT + LARGE], "too_many_pixels")
        codes |= dict.fromkeys(bad[CORRUPT + LARGE :][:VANISHING], "object_not_found")
        bodies = {"truncated_image": FACE[: len(FACE) // 2], "too_many_pixels": large}

        def put(key: str) -> None:
            s3.put_object(Bucket="album", Key=key, Body=bodies.get(codes.get(key, ""), FACE))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(put, keys))
        s3.put_object(Bucket="album", Key="in/", Body=b"")  # a folder, as consoles make them
        return cls(s3, SIZE, codes, hashlib.md5(FACE).hexdigest())

    @property
    def _vanishing(self) -> list[str]:
        return [key for key, code in self.codes.items() if code == "object_not_found"]

    def vanishing(self, start: Callable[..., Any]) -> Callable[..., Any]:
        """``start``, before which objects are deleted: they have been listed by then."""

        def started(**arguments: Any) -> Any:
            for key in self._vanishing:
                self.s3.delete_object(Bucket="album", Key=key)
            return start(**arguments)

        return started

    def restore(self) -> None:
        for key in self._vanishing:
            self.s3.put_object(Bucket="album", Key=key, Body=FACE)


def killed_container(seconds: float = 20.0) -> str | None:
    """Kill one of the function's containers that runs; its id."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.5)  # it has begun by then
        running = run_docker("ps", "--quiet", "--filter", "label=ministack").stdout.split()
        if running:
            run_docker("kill", running[0])
            return running[0]
    return None
