"""Inputs of a build: model.toml and the files it names, coldforge's own code, the locked packages."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

from builder.config import ModelSpec
from builder.pipeline.read_tuning import tuning_path


def list_named_files(spec: ModelSpec) -> Iterator[tuple[str, Path]]:
    """Yield model.toml and the files it names, except the trained model, each after a description with its name."""
    yield spec.path.name, spec.path
    for labels in dict.fromkeys(_list_label_files(spec.path)):
        yield f"labels {labels.name}", labels
    if tuning_path(spec).exists():
        yield tuning_path(spec).name, tuning_path(spec)
    for what, path in (
        ("configuration", spec.source.config),
        ("weights", spec.source.weights),
        ("samples", spec.samples),
        ("tokenizer", spec.text.file if spec.text else None),
        ("pictures for weights", spec.weights.images),
        ("pictures for activations", spec.activations.images),
    ):
        if path is not None:
            yield f"{what} {path.name}", path


def _list_label_files(toml: Path) -> Iterator[Path]:
    """Yield the label files of the outputs."""
    for output in tomllib.loads(toml.read_text(encoding="utf-8")).get("outputs", []):
        if "labels_file" in output:
            yield Path(os.path.abspath(toml.parent / output["labels_file"]))  # noqa: PTH100 - links stay as named
