"""The network that an argument of the benchmarks names."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.model_files import SUFFIXES, ModelFile, refuse_keras
from benchmarks.models import NETWORKS, Network
from benchmarks.transformers_networks import ARCHITECTURES, TransformersNetwork
from benchmarks.untuned import AIM, UNTUNED


def find_network(argument: str) -> Network:
    """Return the network of a path, or of a name; either may end with a batch, as lstm-batch16.

    A network of transformers that takes texts has their length behind its name: bert_base-64. Raises KeyError.
    """
    path, batch = re.fullmatch(r"(.*?)(?:-batch(\d+))?", argument).groups()  # type: ignore[union-attr]
    architecture, _, length = path.partition("-")
    if architecture in ARCHITECTURES:
        network: Network = TransformersNetwork(
            path, path, refuse_keras, AIM, architecture=architecture, length=int(length or 0)
        )
        return network.batched(int(batch or 1))
    place = Path(path).absolute()
    if place.suffix not in SUFFIXES:
        return (NETWORKS | UNTUNED)[path].batched(int(batch or 1))
    stem = place.parent.name if place.name == "model.toml" else place.stem
    name = re.sub("[^a-z0-9]+", "-", stem.lower()).strip("-")
    return ModelFile(name, place.name, refuse_keras, AIM, path=place).batched(int(batch or 1))
