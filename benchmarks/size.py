"""``python -m benchmarks.size LIBRARY...``: what of a library compresses, as it is and with its floats' bytes sorted.

A float32's sign and exponent repeat where its mantissa is noise. Sorted into four planes, one for each byte of every
float, the first plane compresses well. But then somebody has to put the bytes together again at every start, in memory
of its own, where the plain weights are mapped and read from the page cache. Both are measured here.
"""

from __future__ import annotations

import mmap
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from builder.pack.layer import COMPRESSION_LEVEL

ROUNDS = 7


def planes(data: bytes) -> bytes:
    """Byte 0 of every float, then byte 1, and so on; what is left over follows."""
    whole = len(data) // 4 * 4
    return np.frombuffer(data[:whole], np.uint8).reshape(-1, 4).T.tobytes() + data[whole:]


def unsorted_into_memory(sorted_: np.ndarray) -> None:
    """What a start would do: planes into a fresh mapping, float by float."""
    memory = mmap.mmap(-1, sorted_.size)
    target = np.frombuffer(memory, np.uint8).reshape(-1, 4)
    for number, plane in enumerate(sorted_.reshape(4, -1)):
        target[:, number] = plane


def copied_into_memory(data: np.ndarray) -> None:
    """The least that any code to put them together would take: as many bytes written to a fresh mapping."""
    np.frombuffer(mmap.mmap(-1, data.size), np.uint8)[:] = data


def best(run: Callable[[], object]) -> float:
    """Milliseconds, the least of some runs."""
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        run()
        found.append(1e3 * (time.perf_counter() - begin))
    return min(found)


def row(path: Path) -> tuple[str, ...]:
    data = path.read_bytes()
    data = data[: len(data) // 4 * 4]
    plain = len(zlib.compress(data, COMPRESSION_LEVEL))
    shuffled = planes(data)
    each = len(data) // 4
    by_plane = [len(zlib.compress(shuffled[i * each : (i + 1) * each], COMPRESSION_LEVEL)) for i in range(4)]
    packed = sum(by_plane)
    array = np.frombuffer(shuffled, np.uint8)

    def mapped() -> None:
        with path.open("rb") as file:
            view = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
            int(view[::4096].sum(dtype=np.int64))  # every page

    times = (best(mapped), best(lambda: copied_into_memory(array)), best(lambda: unsorted_into_memory(array)))
    return (
        str(path),
        f"{len(data):,}",
        f"{plain:,} ({plain / len(data):.1%})",
        f"{packed:,} ({packed / len(data):.1%})",
        " ".join(f"{size / each:.0%}" for size in by_plane),
        *(f"{t:.1f}" for t in times),
    )


def main() -> None:
    print("| | bytes | deflate | sorted, deflate | its planes | map, ms | copy, ms | put together, ms |")
    print("|---|---:|---:|---:|---|---:|---:|---:|")
    for name in sys.argv[1:]:
        print("| " + " | ".join(row(Path(name))) + " |")


if __name__ == "__main__":
    main()
