"""What an attacker would send to be built as a ``.keras`` file: changed archives, configurations and weights."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from builder.base.tf import import_tensorflow

CONFIG, METADATA, WEIGHTS, ARRAYS = "config.json", "metadata.json", "model.weights.h5", "model.weights.npz"

Members = dict[str, bytes]
"""The files of an archive, by name."""


def keras(file: Path, change: Callable[[Members], None], package: Any = None) -> Path:
    """y = dense(x), float32 [1, 4] to [1, 2], whose archive ``change`` has changed. ``package``: Keras 2 or 3."""
    package = package or import_tensorflow().keras
    x = package.layers.Input((4,), batch_size=1, name="x")
    package.Model(x, package.layers.Dense(2, name="dense")(x)).save(file)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


def slips(members: Members, *, outside: Path) -> None:
    """Members that lead out of whatever folder they are unpacked to."""
    climbing = "/".join([".."] * 12)
    for name in (f"{climbing}{outside}", f"assets/{climbing}{outside}", str(outside)):
        members[name] = b"executed"


def link(file: Path, target: Path) -> Path:
    """An archive with a symbolic link in place of its assets."""
    keras(file, lambda members: None)
    with zipfile.ZipFile(file, "a") as archive:
        info = zipfile.ZipInfo("assets")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, str(target))
        archive.writestr("assets/written", "executed")
    return file


class _Written:
    """Its pickle writes a file where it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({str(self.path)!r}, 'w').write('executed')",)


def pickled_weights(members: Members, *, written: Path) -> None:
    """Arrays of objects in place of the weights."""
    del members[WEIGHTS]
    arrays = io.BytesIO()
    np.savez(arrays, __root__=np.array([_Written(written)], dtype=object), allow_pickle=True)
    members[ARRAYS] = arrays.getvalue()


def oversized_configuration(members: Members) -> None:
    """Blanks, of which a thousand take a byte of the archive."""
    members[CONFIG] += b" " * 200_000_000


def nested_configuration(members: Members) -> None:
    """Lists in lists, deeper than any reader's stack."""
    members[CONFIG] = b"[" * 200_000 + b"]" * 200_000


def configured(**changed: Any) -> Callable[[Members], None]:
    """The layer's configuration with other arguments."""
    return _layer(lambda layer: layer["config"].update(changed))


def replaced(module: str, name: str, **arguments: Any) -> Callable[[Members], None]:
    """Another class in place of the layer's."""
    new = {"module": module, "class_name": name, "registered_name": None, "build_config": None}
    return _layer(lambda layer: layer.update(new, config={"name": "dense", **arguments}))


def function(module: str, name: str) -> dict[str, str]:
    """How a configuration names a function."""
    return {"module": module, "class_name": "function", "config": name, "registered_name": name}


LAMBDA = {"class_name": "__lambda__", "config": {"code": "4wAAAA==", "defaults": None, "closure": None}}
"""How it holds one: as bytecode."""


def _layer(change: Callable[[Any], None]) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        config = json.loads(members[CONFIG])
        change(next(layer for layer in config["config"]["layers"] if layer["name"] == "dense"))
        members[CONFIG] = json.dumps(config).encode()

    return changed


def kernel(replace: Callable[[h5py.Group], None]) -> Callable[[Members], None]:
    """Something else in place of the layer's kernel, ``0`` in the group that ``replace`` is given."""

    def changed(members: Members) -> None:
        file = io.BytesIO(members[WEIGHTS])
        with h5py.File(file, "r+") as opened:
            group = opened["layers/dense/vars"]
            del group["0"]
            replace(group)
        members[WEIGHTS] = file.getvalue()

    return changed


def external_link(other: Path) -> Callable[[Members], None]:
    """To a dataset in another file of the machine."""
    return kernel(lambda group: group.__setitem__("0", h5py.ExternalLink(str(other), "kernel")))


def external_data(other: Path) -> Callable[[Members], None]:
    """The bytes of any file of the machine, as numbers."""
    return kernel(lambda group: group.create_dataset("0", (4, 2), "f4", external=[(str(other), 0, 32)]))


def virtual_data(other: Path) -> Callable[[Members], None]:
    def replace(group: h5py.Group) -> None:
        layout = h5py.VirtualLayout((4, 2), "f4")
        layout[:] = h5py.VirtualSource(str(other), "kernel", (4, 2))
        group.create_virtual_dataset("0", layout)

    return kernel(replace)


def oversized_data() -> Callable[[Members], None]:
    """Four terabytes, none of which are there."""
    return kernel(lambda group: group.create_dataset("0", (1 << 20, 1 << 20), "f4", chunks=(1024, 1024)))
