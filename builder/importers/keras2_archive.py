"""Patches with which tf-keras reads the ``.keras`` archives of every Keras 2, and no untrusted one runs code.

Keras 3 looks up only its own objects for such a file. tf-keras, even in its safe mode, imports any module that a
configuration names, and calls any public function of TensorFlow, including those that read and write files.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import h5py

from builder.base.tf import tf

_LAYERS = "_layer_checkpoint_dependencies"
"""The group in the weights of Keras 2.12 and 2.13 that later versions call ``layers``."""

_CLASSES = {
    "constraints", "engine", "initializers", "layers", "losses", "metrics", "mixed_precision", "models", "optimizers",
    "regularizers",
}  # fmt: skip
"""Modules of tf_keras.src whose classes make up models."""

_FUNCTIONS = {"activations", "losses", "metrics"}
"""Modules of tf_keras.src whose functions make up models."""

_OPERATIONS = {
    "array_ops", "array_ops_stack", "bitwise_ops", "check_ops", "clip_ops", "embedding_ops", "image_ops",
    "image_ops_impl", "linalg.linalg_impl", "linalg_ops", "manip_ops", "math_ops", "nn_impl", "nn_ops",
    "signal.fft_ops", "signal.spectral_ops", "sort_ops", "special_math_ops", "spectral_ops", "string_ops",
    "tensor_getitem_override",
}  # fmt: skip
"""Modules of tensorflow.python.ops whose functions only compute."""


@contextlib.contextmanager
def reading_older_archives() -> Iterator[None]:
    """Let tf-keras read the module names and weight paths of Keras 2.12 and 2.13 inside the block.

    Its SpectralNormalization looks up ``tf.keras``, by which it means itself and not Keras 3.
    """
    from tf_keras.src.engine.input_spec import InputSpec
    from tf_keras.src.saving import saving_lib, serialization_lib

    retrieve, get = serialization_lib._retrieve_class_or_fn, saving_lib.H5IOStore.get

    def retrieve_renamed(name: str, registered_name: Any, module: Any, *args: Any, **options: Any) -> Any:
        if isinstance(module, str):
            module = re.sub(r"^keras\.(?=engine\.|layers\.core)", "keras.src.", module)
        return retrieve(name, registered_name, module, *args, **options)

    def get_either(store: Any, path: str) -> Any:
        older = _LAYERS in store.h5_file and path.startswith("layers/")
        place = _find_older_place(store.h5_file, path) if older else path
        _require_own_data(store.h5_file, f"{place}/vars")
        return get(store, place)

    with (
        mock.patch.object(serialization_lib, "_retrieve_class_or_fn", retrieve_renamed),
        mock.patch.object(saving_lib.H5IOStore, "get", get_either),
        mock.patch.object(tf.keras.layers, "InputSpec", InputSpec),
    ):
        yield


def _find_older_place(file: Any, path: str) -> str:
    """Find the path in Keras 2.12 and 2.13 of today's ``path``: ``layers/dense_1`` may be their ``dense_2``.

    These versions counted a layer with weights twice. The order is the same.
    """
    place = ""
    for part in path.split("/"):
        if place.endswith(_LAYERS) and (match := re.fullmatch(r"(.+?)(?:_(\d+))?", part)):
            twins = [name for name in file[place] if re.fullmatch(rf"{re.escape(match[1])}(_\d+)?", name)]
            twins.sort(key=lambda name: int(name.removeprefix(match[1]).strip("_") or 0))
            index = int(match[2] or 0)
            part = twins[index] if index < len(twins) else part
        place = f"{place}/{_LAYERS if part == 'layers' else part}".lstrip("/")
        if place not in file:
            return path
    return place


def _require_own_data(file: Any, place: str) -> None:
    """Raise ValueError if a group on the way to ``place``, or an array in it, is in another file or missing."""
    parts = place.strip("/").split("/")
    ways = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    for way in (*ways, *(f"{place}/{name}" for name in file.get(place, ()))):
        array = file.get(way)
        elsewhere = isinstance(file.get(way, getlink=True), h5py.ExternalLink)
        if isinstance(array, h5py.Dataset):
            elsewhere |= bool(array.external or array.is_virtual or array.id.get_storage_size() < array.nbytes / 1000)
        if elsewhere:
            raise ValueError(f"{way} is not in the file, and unsafe to load.")


@contextlib.contextmanager
def refusing_foreign_objects() -> Iterator[None]:
    """Let tf-keras raise ValueError for objects that are neither Keras 2's own nor functions that only compute."""
    from tf_keras.src.layers.core import lambda_layer, tf_op_layer
    from tf_keras.src.layers.preprocessing import index_lookup
    from tf_keras.src.saving import serialization_lib
    from tf_keras.src.utils import generic_utils

    retrieve, find = serialization_lib._retrieve_class_or_fn, tf_op_layer.get_symbol_from_name
    set_vocabulary = index_lookup.IndexLookup.set_vocabulary

    def retrieve_own(name: str, registered_name: Any, module: Any, *args: Any, **options: Any) -> Any:
        if str(module or "keras").partition(".")[0] not in ("keras", "tf_keras", "builtins"):
            raise TypeError(f"Could not locate class '{name}' of {module}.")
        retrieved = retrieve(name, registered_name, module, *args, **options)
        if not _is_model_part(retrieved) or retrieved is lambda_layer.Lambda:
            raise ValueError(f"{module}.{name} is unsafe to load.")
        return retrieved

    def find_computing(name: str) -> Any:
        retrieved = find(name)
        where = str(getattr(retrieved, "__module__", "")).removeprefix("tensorflow.python.ops.").removeprefix("gen_")
        if where not in _OPERATIONS:
            raise ValueError(f"tf.{name} is unsafe to load.")
        return retrieved

    def set_listed_vocabulary(layer: Any, vocabulary: Any, *args: Any, **options: Any) -> None:
        if isinstance(vocabulary, str):
            raise ValueError(f"A vocabulary in another file is unsafe to load: {vocabulary}.")
        set_vocabulary(layer, vocabulary, *args, **options)

    def refuse(*_: Any, **__: Any) -> Any:
        raise ValueError("A method that is named by a file, or a function in bytecode, is unsafe to load.")

    with (
        mock.patch.object(serialization_lib, "_retrieve_class_or_fn", retrieve_own),
        mock.patch.object(tf_op_layer, "get_symbol_from_name", find_computing),
        mock.patch.object(tf_op_layer.ClassMethod, "from_config", refuse),
        mock.patch.object(tf_op_layer.InstanceProperty, "from_config", refuse),
        mock.patch.object(index_lookup.IndexLookup, "set_vocabulary", set_listed_vocabulary),
        mock.patch.object(generic_utils, "func_load", refuse),
    ):
        yield


def _is_model_part(value: Any) -> bool:
    package, _, rest = str(getattr(value, "__module__", "")).partition(".src.")
    return package == "tf_keras" and rest.partition(".")[0] in (_CLASSES if isinstance(value, type) else _FUNCTIONS)
