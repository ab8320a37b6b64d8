"""Sizes of a function's parts, as a tree: weights by layer, code, packages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from builder.compiler.audit.elf_facts import read_facts
from builder.package.bundle import Bundle
from builder.package.layer import files_of

Tree = dict[str, Any]
"""Tree: ``name``, and ``bytes`` of a leaf or ``children``; ``kind`` of the outer parts, which the page colours."""


def size_tree(bundle: Bundle, manifest: Mapping[str, Any], kernels: Path, dependencies: Path) -> Tree:
    """Return everything that is unzipped in Lambda; the leaves' sum is the manifest's.

    ``kernels``: XLA's object file; ``dependencies``: the built layer's folder, if it exists.
    """
    components = {c.name: c.unzipped for c in bundle.sizes.components}
    library = bundle.library.stat().st_size
    weights = int(manifest["lowering"]["weights"]["bytes"])
    apart = "weights" in manifest  # The weights are a file of their own, which may be in the layer.
    weights_in_layer = weights if not apart or bundle.weights.is_file() else 0
    layers = list(_split_weights(manifest["lowering"]["weights"])) if weights_in_layer else []
    parts = [
        *([{"name": "weights", "kind": "weights", "children": layers}] if layers else []),
        *_split_library(bundle.library, library - (0 if apart else weights), kernels),
        _measure_packages(dependencies, components["dependencies layer"]),
        {"name": "function", "kind": "function", "children": [_make_leaf("handler", components["function"])]},
    ]
    if other_files := components["model layer"] - library - (weights_in_layer if apart else 0):
        parts.append({"name": "beside the library", "kind": "tables", "children": [_make_leaf("files", other_files)]})
    return {"name": "function and layers, unzipped", "bytes": bundle.sizes.unzipped, "children": parts}


def _make_leaf(name: str, count: int) -> Tree:
    return {"name": name, "bytes": count}


def _split_library(path: Path, size: int, kernels: Path) -> Iterator[Tree]:
    """Yield the parts of the library. ``size``: bytes without the weights."""
    code = dict(read_facts(path).sections).get(".text", 0)
    xla = min(_count_code_bytes(kernels), code)
    parts = [_make_leaf("coldforge's kernels and runtime", code - xla), _make_leaf("XLA's kernels of this model", xla)]
    yield {"name": "code", "kind": "code", "children": [part for part in parts if part["bytes"]]}
    yield {"name": "tables", "kind": "tables", "children": [_make_leaf("the library's tables", size - code)]}


def _split_weights(weights: Mapping[str, Any]) -> Iterator[Tree]:
    """Yield a leaf for each layer, and one for the rest; layers that share weights cannot be told apart."""
    layers = [_make_leaf(layer.get("layer") or layer["step"], layer["bytes"]) for layer in weights["layers"]]
    rest = weights["bytes"] - sum(layer["bytes"] for layer in layers)
    if rest < 0:
        yield _make_leaf("all layers", weights["bytes"])
        return
    yield from sorted(layers, key=lambda layer: -int(layer["bytes"]))
    if rest:
        yield _make_leaf("biases and other constants", rest)


def _count_code_bytes(kernels: Path) -> int:
    """Return the bytes of the code in an object file."""
    from elftools.elf.elffile import ELFFile

    with kernels.open("rb") as file:
        return sum(int(s["sh_size"]) for s in ELFFile(file).iter_sections() if s.name.startswith(".text"))


def _measure_packages(folder: Path, size: int) -> Tree:
    bytes_by_package: dict[str, int] = defaultdict(int)
    for name, path in files_of(folder):  # python/<package>/...
        top = name.split("/")[1] if "/" in name else name
        bytes_by_package[re.sub(r"(-[\d.]+\.dist-info|\.py|\.cpython.*\.so)$", "", top)] += path.stat().st_size
    if sum(bytes_by_package.values()) != size:  # The installed packages are not those that the bundle was packed with.
        bytes_by_package = {"all packages": size}
    leaves = [_make_leaf(name, count) for name, count in sorted(bytes_by_package.items(), key=lambda item: -item[1])]
    return {"name": "dependencies", "kind": "dependencies", "children": leaves}
