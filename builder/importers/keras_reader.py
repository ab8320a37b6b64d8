"""The two packages that read Keras models, Keras 3 and tf-keras for the files of Keras 2, and where they differ."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.errors import EnvironmentSetupError
from builder.base.tf import tf
from builder.config import Source
from builder.importers.keras_file import has_in_hdf5, is_hdf5, read_config
from builder.importers.shapes import STRING

_INTERNAL = {
    "TFOpLambda", "SlicingOpLambda", "ClassMethod", "InstanceMethod", "InstanceProperty", "CuDNNLSTM", "CuDNNGRU",
    "TensorFlowOpLayer", "ModuleWrapper",
}  # fmt: skip
"""Layers without a public name in Keras 2."""


@dataclass(frozen=True)
class Reader:
    """A package that reads the files of Keras version ``major``."""

    major: int
    package: Any

    @property
    def title(self) -> str:
        """The package's name and version."""
        return f"{'tf-keras' if self.major == 2 else 'Keras'} {self.package.__version__}"

    @property
    def export_call(self) -> str:
        """The call that saves a model as a SavedModel; Keras 2 has no ``export`` before 2.13."""
        return "model.save(folder)" if self.major == 2 else "model.export(folder)"

    def read_model(self, source: Source, path: Path) -> Any:
        """Load the model at ``path``, whose code runs only if ``source.trust``, with the package's own errors."""
        with _copy_files(path, source.weights) as (model, weights), self._patch_package(source.trust):
            classes = self._find_classes(model)
            if weights:
                loaded = self.package.models.model_from_json(model.read_text("utf-8"), custom_objects=classes)
                loaded.load_weights(weights)
                return loaded
            load = self.package.saving.load_model
            return load(model, custom_objects=classes, compile=False, safe_mode=not source.trust)

    def find_unknown_layers(self, path: Path) -> list[str]:
        """List the classes of layers in the model at ``path`` that the package does not have."""
        own = _find_operations() if self.major == 3 else _INTERNAL
        known = {"Functional", *vars(self.package), *vars(self.package.layers), *own}
        layers = (str(layer.get("class_name")) for layer in _iterate_layers(read_config(path)))
        return list(dict.fromkeys(name for name in layers if name not in known))

    def call_model(self, model: Any, feeds: Sequence[Any]) -> list[Any]:
        """Run inference on ``feeds``, in the order of the model's inputs; return the outputs in their order."""
        tree = tf.nest if self.major == 2 else self.package.tree
        # A Sequential passes its call on to its own Functional, whose input structure decides.
        struct = getattr(model, "_nested_inputs" if self.major == 2 else "_inputs_struct", None)
        packed = tree.pack_sequence_as(struct, list(feeds)) if struct is not None else feeds[0]
        return list(tree.flatten(model(packed, training=False)))

    @contextlib.contextmanager
    def _patch_package(self, trust: bool) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if self.major == 2:
                from builder.importers.keras2_archive import reading_older_archives, refusing_foreign_objects

                stack.enter_context(reading_older_archives())
                if not trust:
                    stack.enter_context(refusing_foreign_objects())
            yield

    def _find_classes(self, model: Path) -> dict[str, Any]:
        """Return the package's own classes that it does not find when a file names them without their module."""
        if self.major == 2:
            layers = self.package.layers
            return {
                # CPUs cannot run these variants for GPUs. tf-keras converts their weights when it loads them.
                "CuDNNLSTM": _make_class(layers.LSTM.from_config),
                "CuDNNGRU": _make_class(lambda config: layers.GRU.from_config({**config, "reset_after": True})),
                "SpectralNormalization": layers.SpectralNormalization,
            }
        names = {layer.get("class_name") for layer in _iterate_layers(read_config(model))} if is_hdf5(model) else ()
        return {name: operation for name, operation in _find_operations().items() if name in names}


def load_reader(major: int) -> Reader:
    """Load the package for a major version of Keras, or raise EnvironmentSetupError where tf-keras is missing."""
    release = tf.__version__
    if major != 2:
        import keras

        return Reader(3, keras)
    try:
        import tf_keras
    except ModuleNotFoundError as error:
        raise EnvironmentSetupError(
            "the model was written by Keras 2, and tf-keras, which reads such files, is not installed. Install it "
            f"without what it asks for, which is here already:\n  python -m pip install --no-deps tf-keras=={release}"
        ) from error
    return Reader(2, tf_keras)


@contextlib.contextmanager
def _copy_files(path: Path, weights: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """Copy the files to names by which Keras knows their format, as tf-keras may open them for writing.

    Before 2.12, Keras wrote HDF5 under any name.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, f"model{'.h5' if is_hdf5(path) else path.suffix}")
        shutil.copyfile(path, model)
        if weights is None:
            yield model, None
            return
        by_name = has_in_hdf5(weights, "layer_names", "model_weights")  # Otherwise, layers are found by position.
        copy = Path(folder, "weights.h5" if by_name else "model.weights.h5")
        shutil.copyfile(weights, copy)
        yield model, copy


def _iterate_layers(config: Any) -> Iterator[Mapping[str, Any]]:
    """Yield each layer and operation in a model's configuration, including those of nested models and layers."""
    if isinstance(config, dict):
        within = config.get("layers", config.get("layer"))
        yield from (entry for entry in (within if isinstance(within, list) else [within]) if isinstance(entry, dict))
        config = list(config.values())
    if isinstance(config, list):
        for value in config:
            yield from _iterate_layers(value)


def _find_operations() -> Mapping[str, Any]:
    """Find Keras 3's operations (``x[:, 0]``, ``x / 255``), which its HDF5 files name as if they were layers."""
    import keras
    from keras.src import ops
    from keras.src.ops.operation import Operation

    modules = (ops.core, ops.image, ops.linalg, ops.math, ops.nn, ops.numpy)
    operations = {n: c for m in modules for n, c in vars(m).items() if isinstance(c, type) and issubclass(c, Operation)}
    return {name: _choose_by_config(getattr(keras.layers, name, None), kind) for name, kind in operations.items()}


def _choose_by_config(layer: Any, operation: Any) -> Any:
    """Return ``operation``, or a class that makes it or its namesake ``layer``, as the configuration decides."""
    if layer is None:
        return operation
    return _make_class(lambda config: (layer if "trainable" in config else operation).from_config(config))


def _make_class(make: Callable[[Any], Any]) -> Any:
    """Return a class whose objects ``make`` makes from a configuration."""
    return type("Made", (), {"from_config": staticmethod(make)})


_SIDES = (8, 32, 128, 224)
"""Sizes for dimensions that a model leaves open; the first size that runs is used."""

_SCALES = (1, 16, 256, 0)
"""Sizes of random numbers: a clipping function may differ only at the values of a model for pixels of 0..255.

0 stands for zeros and ones, which may be indices.
"""

_ABSOLUTE, _RELATIVE = 1e-4, 1e-3
"""Generous limits for differences by rounding; those of another formula are larger.

The first is relative to the largest number of an answer, where that is above 1.
"""


def find_difference(models: Sequence[tuple[Reader, Any]]) -> str:
    """Run both models on random inputs, and describe the first layer where they differ ("" if none does)."""
    for side in _SIDES:
        runs = False
        for scale in _SCALES:
            feeds = [_draw_input(tensor, side, scale) for tensor in models[0][1].inputs]
            try:
                answers = [reader.call_model(model, feeds) for reader, model in models]
            except Exception:  # Any error means that such sizes or indices do not run.
                continue
            if not _agree(*answers):
                return _find_layer(models, feeds)
            runs = True
        if runs:
            return ""
    return "they do not run on the same inputs"


def _find_layer(models: Sequence[tuple[Reader, Any]], feeds: Sequence[Any]) -> str:
    for layer in models[0][1].layers:
        # A layer that is not in both, or is called more than once, has no single output.
        with contextlib.suppress(KeyError, AttributeError, ValueError):
            inner = [
                reader.call_model(reader.package.Model(model.inputs, model.get_layer(layer.name).output), feeds)
                for reader, model in models
            ]
            if not _agree(*inner):
                return f"they differ first at the layer {layer.name!r}"
    return "their answers differ"


def _draw_input(tensor: Any, side: int, scale: int) -> Any:
    random = np.random.default_rng(17)
    dtype = str(getattr(tensor.dtype, "name", tensor.dtype))
    shape = [size or (side if at else 2) for at, size in enumerate(tensor.shape)]
    if dtype == STRING:
        return np.full(shape, "a")
    if scale and (dtype.startswith("float") or dtype == "bfloat16"):
        return (scale * random.normal(size=shape)).astype("float32")
    return random.integers(0, 2, shape).astype("float32" if dtype == "bfloat16" else dtype)


def _agree(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return len(first) == len(second) and all(map(_is_close, first, second))


def _is_close(one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return False
    values, others = np.asarray(one, "float64"), np.asarray(other, "float64")
    largest = np.abs(values[np.isfinite(values)]).max(initial=1.0)
    return np.allclose(values, others, _RELATIVE, _ABSOLUTE * largest, equal_nan=True)
