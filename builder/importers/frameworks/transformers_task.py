"""A task of a folder of Hugging Face's transformers, as a module of PyTorch with tensors in and named tensors out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.importers.frameworks.torch_program import convert_to_jax
from builder.importers.ports import AnswerFacts, GraphFacts, PortInfo

HOW_TO_EXPORT = "Export the model to ONNX, as with `optimum-cli export onnx`, and name the .onnx file instead"

_NOT_USED = ("pooler.", ".position_ids", "masked_spec_embed")
"""Names of weights that a folder may lack: no task here uses what they make."""


@dataclass(frozen=True)
class TaskModel:
    """A ``module`` of PyTorch from the tensors of ``feeds`` to a dictionary of results, and what is known of it.

    ``examples``: a tensor for each feed, all with the same sizes of open dimensions. ``opened``: the names of a
    result's first dimensions, which are open. ``labels``: the names of classes, in their order. ``encode_texts`` and
    ``process_images``: see FrameworkModel. ``published``: the answers of published code, for a module with steps of our
    own. ``static``: whether the module is exported for the sizes of each call. ``signature``: which one of
    ``signatures`` it is.
    """

    module: torch.nn.Module
    feeds: tuple[PortInfo, ...]
    examples: Mapping[str, torch.Tensor]
    opened: tuple[str, ...]
    facts: GraphFacts
    labels: tuple[str, ...] = ()
    encode_texts: Callable[[Sequence[tuple[str, ...]], int], Mapping[str, Array]] | None = None
    process_images: Callable[[Array], Array] | None = None
    published: Callable[[Sequence[Array]], list[Array]] | None = None
    static: bool = False
    signature: str | None = None
    signatures: tuple[str, ...] = ()

    def answer(self, feeds: Sequence[Array]) -> list[Array]:
        """Return the results for arrays, in the module's order."""
        return self.published(feeds) if self.published else run_module(self.module, feeds)

    def measure_results(self) -> dict[str, list[Any]]:
        """Return the shape of each result, with the names of open dimensions. Raises ImportModelError."""
        try:
            with torch.no_grad():
                results = self.module(**self.examples)
        except Exception as error:  # Files of two models may be in one folder.
            sizes = ", ".join(f"{name} of {list(value.shape)}" for name, value in self.examples.items())
            raise ImportModelError(f"The model does not run for {sizes}: {describe_error(error)}") from error
        return {name: [*self.opened, *value.shape[len(self.opened) :]] for name, value in results.items()}

    def make_function(self, name: str) -> Callable[..., list[Any]]:
        """Return the JAX function of the module. It or its calls raise ImportModelError."""
        if not self.static:
            return convert_to_jax(self.export_program(name, self.examples))

        def function(*feeds: Any) -> list[Any]:
            sizes = zip(self.examples.items(), feeds, strict=True)
            examples = {feed: torch.zeros(value.shape, dtype=one.dtype) for (feed, one), value in sizes}
            return convert_to_jax(self.export_program(name, examples))(*feeds)

        return function

    def export_program(self, name: str, examples: Mapping[str, torch.Tensor]) -> Any:
        """Return the program of torch.export, for all sizes of open dimensions or those of ``examples``.

        Raises ImportModelError.
        """
        dynamic = {
            feed.name: {axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(feed.shape or ()) if size is None}
            for feed in (() if self.static else self.feeds)
        }
        try:
            return torch.export.export(self.module, (), dict(examples), dynamic_shapes=dynamic or None, strict=False)
        except Exception as error:
            raise ImportModelError(f"{name} cannot be exported by torch.export: {describe_error(error)}") from error


def run_module(module: torch.nn.Module, feeds: Sequence[Array]) -> list[Array]:
    """Return the results of ``module`` for arrays, in its order."""
    with torch.no_grad():
        return [value.numpy() for value in module(*(torch.from_numpy(feed.copy()) for feed in feeds)).values()]


def load_weights(kind: Any, path: Path, trust: bool, unused: Sequence[str] = _NOT_USED) -> Any:
    """Load the folder's weights into a model of the class ``kind``, as float32; ``trust``: they may be pickles.

    Raises ImportModelError if they cannot be read, or some are missing, but for names with a part that is ``unused``.
    """
    return load_known_weights(kind, path, trust, unused)[0]


def load_known_weights(kind: Any, path: Path, trust: bool, unused: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the model of ``load_weights``, and the names of the weights that are missing and not used."""
    try:
        model, report = kind.from_pretrained(
            path, local_files_only=True, output_loading_info=True, trust_remote_code=False, **loading_options(trust)
        )
    except Exception as error:  # A file may be broken, or of another version.
        raise ImportModelError(f"{path.name} cannot be loaded by transformers: {describe_error(error)}") from error
    missing = sorted(report["missing_keys"])
    random = [name for name in missing if not any(part in name for part in unused)]
    if random:
        raise ImportModelError(
            f"{path.name} has no weights for {', '.join(random[:3])}: they would be random. Name a model that was "
            "trained for the task that its config.json says."
        )
    return model.eval(), missing


def loading_options(trust: bool) -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` for the type and the files of weights."""
    return {"dtype": torch.float32, "use_safetensors": None if trust else True}


def count_parameters(module: torch.nn.Module) -> int:
    """Return the number of the module's weights."""
    return sum(parameter.numel() for parameter in module.parameters())


def list_labels(config: Any) -> tuple[str, ...]:
    """Return the names of a model's classes, in their order. Raises ImportModelError if one has none."""
    for number in range(config.num_labels):
        if number not in config.id2label:
            raise ImportModelError(f"config.json has no name for class {number} in id2label: add it there.")
    return tuple(str(config.id2label[number]) for number in range(config.num_labels))


def choose_activation(config: Any) -> AnswerFacts:
    """Return what the scores of a classifier are, as the pipelines for texts and for images choose it."""
    if config.problem_type == "regression":
        return AnswerFacts("regression")
    if config.problem_type == "multi_label_classification" or config.num_labels == 1:
        return AnswerFacts("regression" if config.num_labels == 1 else "classification", "sigmoid")
    return AnswerFacts("classification", "softmax")
