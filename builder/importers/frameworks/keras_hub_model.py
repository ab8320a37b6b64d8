"""Reads presets of KerasHub, the folders that its ``save_to_preset`` writes.

Keras loads a preset itself, without running code that is in it. Its backend is JAX, so a model of it is a JAX function.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error, escape_invisible
from builder.importers.frameworks.framework_model import FrameworkModel, make_port
from builder.importers.frameworks.keras_hub_images import HOW_TO_EXPORT, describe_images
from builder.importers.ports import AnswerFacts, GraphFacts, ModelPorts

FEED, FETCH = "images", "predictions"

_KEPT = ("keras", "keras_hub", "builtins")
"""The packages that a preset's classes may be of."""


def open_keras_hub(path: Path) -> FrameworkModel:
    """Open the preset in the folder ``path``.

    Raises ImportModelError for a task that is not supported, for classes that are not Keras' own, and for a folder
    without weights that the task needs.
    """
    task = _load_task(path)
    facts = GraphFacts(
        (),
        answers={FETCH: _describe_scores(task)},
        parameters=task.count_params(),
        image=describe_images(path.name, task.preprocessor.image_converter, FEED, task.input.shape[-1]),
    )
    assert facts.image
    sides = facts.image.image.height, facts.image.image.width
    ports = ModelPorts(
        (make_port(FEED, task.input.dtype, ["batch", *sides, task.input.shape[-1]]),),
        (make_port(FETCH, task.output.dtype, ["batch", *task.output.shape[1:]]),),
        facts=facts,
        origin=f"read by KerasHub {keras_hub.__version__}",
    )

    def call_task(images: Any) -> list[Any]:
        return [task(images, training=False)]

    def answer(feeds: Sequence[Array]) -> list[Array]:
        return [np.asarray(value) for value in call_task(*feeds)]

    return FrameworkModel(
        ports,
        lambda: call_task,
        answer,
        process_images=lambda pixels: np.asarray(task.preprocessor(pixels), np.float32),
    )


def _load_task(path: Path) -> Any:
    """Return the image classifier with its weights."""
    config = _read_config(path, "config.json")
    if not (path / "task.json").is_file():
        raise ImportModelError(
            f"{path.name} is {_name_class(config)} alone, without a task, and so has no answers. Name the preset of a "
            f"classifier of images. {HOW_TO_EXPORT}."
        )
    task = _read_config(path, "task.json")
    kind = keras.saving.get_registered_object(str(task.get("registered_name")))
    if not (isinstance(kind, type) and issubclass(kind, keras_hub.models.ImageClassifier)):
        raise ImportModelError(
            f"{path.name}: the task {_name_class(task)} is not supported. Classifiers of images are read. "
            f"{HOW_TO_EXPORT}."
        )
    if not (path / "task.weights.h5").is_file():
        raise ImportModelError(
            f"{path.name} has no task.weights.h5, so the weights of its {_name_class(task)} would be random. Name a "
            "preset that was saved by the trained task's `save_to_preset`."
        )
    try:
        loaded = keras_hub.models.ImageClassifier.from_preset(str(path))
    except Exception as error:  # A file may be broken, or of another version.
        raise ImportModelError(f"{path.name} cannot be loaded by KerasHub: {describe_error(error)}") from error
    if getattr(loaded.preprocessor, "image_converter", None) is None:
        raise ImportModelError(
            f"{path.name} says nothing of how images become numbers. Give the task a `preprocessor` in Python, and "
            "save it again."
        )
    return loaded


def _read_config(path: Path, name: str) -> Any:
    """Return what a file of Keras' configuration says, if all classes in it are Keras' own."""
    try:
        config = json.loads((path / name).read_text(encoding="utf-8"))
        found = [*_list_foreign(config)]
    except (OSError, ValueError, RecursionError) as error:
        raise ImportModelError(f"{path.name}/{name} cannot be read: {describe_error(error)}") from error
    if not isinstance(config, dict):
        raise ImportModelError(f"{path.name}/{name} is not what KerasHub writes.")
    if found:
        raise ImportModelError(
            f"{path.name}/{name} needs code besides Keras' own, which is not run: {escape_invisible(found[0])}. "
            f"{HOW_TO_EXPORT}."
        )
    return config


def _list_foreign(config: Any) -> Iterator[str]:
    """Yield the names of classes that are of other packages, or that hold Python code."""
    if isinstance(config, dict):
        if "class_name" in config:
            packages = str(config.get("module") or "keras").split(".")[0], _read_package(config)
            if not set(packages).issubset(_KEPT) or config["class_name"] == "Lambda":
                yield _name_class(config)
        config = list(config.values())
    for value in config if isinstance(config, list) else []:
        yield from _list_foreign(value)


def _read_package(config: dict[str, Any]) -> str:
    package, mark, _ = str(config.get("registered_name") or "").partition(">")
    return package if mark else "keras"


def _name_class(config: Any) -> str:
    return escape_invisible(str(config.get("registered_name") or config.get("class_name")).rpartition(">")[2])


def _describe_scores(task: Any) -> AnswerFacts:
    """Return the kind of the task's answers; without an activation, they are scores for softmax."""
    layer = task.layers[-1]
    while isinstance(layer, keras.Sequential):
        layer = layer.layers[-1]
    activation = keras.activations.get(getattr(layer, "activation", None))
    if activation not in (keras.activations.linear, keras.activations.softmax, keras.activations.sigmoid):
        return AnswerFacts("raw")
    if task.output.shape[-1] == 1:
        return AnswerFacts("regression")
    return AnswerFacts("classification", "softmax" if activation is keras.activations.linear else "none")
