"""Files of models that were cut off or changed in some bytes; prints how many of them open or are refused.

It runs in the environment of LiteRT's models. A file may fail in no other way than by an ImportModelError, when it is
opened and when its program is made.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}

import numpy as np

from builder.base.errors import ImportModelError
from builder.importers.frameworks.jax_program import make_program
from builder.importers.frameworks.tflite.tflite_model import open_tflite
from tests.support.frameworks import exchange_networks, tflite_state_cases

CHANGED = 300


def damage(data: bytes) -> Iterator[bytes]:
    """Yield ``data`` cut off at some places, and with other bytes at others; the first has no graph at all."""
    yield data[:8]
    for end in np.linspace(8, len(data) - 1, 40).astype(int):
        yield data[:end]
    generator = np.random.default_rng(0)
    for _ in range(CHANGED):
        changed = bytearray(data)
        for place in generator.integers(8, len(data), generator.integers(1, 4)):
            changed[place] = generator.choice([0, 1, 127, 128, 255, generator.integers(256)])
        yield bytes(changed)


def opens_or_is_refused(data: bytes, path: Path) -> bool:
    path.write_bytes(data)
    try:
        model = open_tflite(path)
        shapes = {port.name: tuple(size or 1 for size in port.shape or ()) for port in model.ports.feeds}
        if all(np.prod(shape) < 1e6 for shape in shapes.values()):
            make_program(model.make_function(), model.ports, shapes, model.states)
    except ImportModelError:
        pass
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return False
    return True


if __name__ == "__main__":
    models = [tflite_state_cases.write_in_a_branch(), exchange_networks.make_tflite_row()]
    with tempfile.TemporaryDirectory() as folder:
        files = [file for model in models for file in damage(model)]
        right = sum(opens_or_is_refused(file, Path(folder) / "model.tflite") for file in files)
    print(f"{right} of {len(files)} open or are refused")
