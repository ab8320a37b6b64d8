"""Tasks of transformers whose models take images, as the numbers of their pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from builder.importers.frameworks.framework_model import make_port
from builder.importers.frameworks.transformers_pixels import ImageProcessor
from builder.importers.frameworks.transformers_task import (
    TaskModel,
    choose_activation,
    count_parameters,
    list_labels,
    load_known_weights,
    load_weights,
)
from builder.importers.ports import AnswerFacts, GraphFacts

PIXELS = "pixel_values"

_EXAMPLES = 2
_Results = dict[str, torch.Tensor]


class _ImageModel(torch.nn.Module):  # type: ignore[misc]
    """A ``model`` of pixels, with the results that ``read`` finds in its answer to them."""

    def __init__(self, model: Any, read: Callable[[Any, Any], _Results]) -> None:
        super().__init__()
        self.model, self.read = model, read

    def forward(self, pixel_values: Any) -> _Results:
        return self.read(self.model(pixel_values=pixel_values), pixel_values)


def _read_logits(answer: Any, _: Any) -> _Results:
    return {"logits": answer.logits}


def _read_vector(answer: Any, _: Any, *, pooled: bool, has_class: bool) -> _Results:
    """Return the model's own pooling if it has one, else its first token, else the mean of all places.

    ``pooled``: whether the folder has the weights of the pooling. ``has_class``: whether the first token is a class's.
    """
    vector, hidden = getattr(answer, "pooler_output", None), answer.last_hidden_state
    if vector is not None and pooled:
        return {"embedding": vector.flatten(1)}
    if hidden.ndim == 3:
        return {"embedding": hidden[:, 0] if has_class else hidden.mean(1)}
    return {"embedding": hidden.mean((2, 3))}


def _read_pixel_scores(answer: Any, pixels: Any) -> _Results:
    """Return scores for each pixel of the model's image, as published code resizes them before it chooses a class."""
    return {"scores": torch.nn.functional.interpolate(answer.logits, pixels.shape[2:], mode="bilinear")}


def _read_objects(answer: Any, _: Any) -> _Results:
    """Return boxes, and the probabilities of their classes; the last class of the model stands for no object."""
    return {"boxes": answer.pred_boxes, "scores": answer.logits.softmax(-1)[..., :-1]}


def takes_images(architecture: str) -> bool:
    """Return whether transformers' class of this name takes the pixels of images first."""
    return getattr(getattr(transformers, architecture, None), "main_input_name", "") == PIXELS


def read_image_classifier(path: Path, trust: bool) -> TaskModel:
    """Read a model that gives an image scores of classes, or numbers."""
    model = load_weights(transformers.AutoModelForImageClassification, path, trust, ())
    facts = choose_activation(model.config)
    labels = () if facts.kind == "regression" else list_labels(model.config)
    return make_image_task(path, _ImageModel(model, _read_logits), {"logits": facts}, labels)


def read_image_embedder(path: Path, trust: bool) -> TaskModel:
    """Read a model that gives an image a vector."""
    model, missing = load_known_weights(transformers.AutoModel, path, trust, ["pooler."])
    has_class = any(name.endswith("cls_token") for name, _ in model.named_parameters())
    module = _ImageModel(model, partial(_read_vector, pooled=not missing, has_class=has_class))
    return make_image_task(path, module, {"embedding": AnswerFacts("embedding")}, ())


def read_segmenter(path: Path, trust: bool) -> TaskModel:
    """Read a model that gives each pixel of an image a class."""
    model = load_weights(transformers.AutoModelForSemanticSegmentation, path, trust, ())
    return make_image_task(
        path, _ImageModel(model, _read_pixel_scores), {"scores": AnswerFacts("segmentation")}, list_labels(model.config)
    )


def read_detector(path: Path, trust: bool) -> TaskModel:
    """Read a model that gives an image boxes of objects."""
    model = load_weights(transformers.AutoModelForObjectDetection, path, trust, ())
    answers = {"boxes": AnswerFacts("detection", scores="scores")}
    return make_image_task(path, _ImageModel(model, _read_objects), answers, list_labels(model.config))


IMAGE_READERS: Mapping[str, Callable[[Path, bool], TaskModel]] = {
    "ForImageClassification": read_image_classifier,
    "ForImageClassificationWithTeacher": read_image_classifier,
    "ForSemanticSegmentation": read_segmenter,
    "ForObjectDetection": read_detector,
    "Model": read_image_embedder,
}
"""The reader of each ending of an architecture's name."""


def make_image_task(
    path: Path, module: torch.nn.Module, answers: Mapping[str, AnswerFacts], labels: tuple[str, ...]
) -> TaskModel:
    """Return the task of a ``module`` that takes what the folder's image processor makes."""
    processor = ImageProcessor(path)
    of_objects = any(facts.kind == "detection" for facts in answers.values())
    if of_objects:
        processor.require_best_classes(len(labels))
    known = processor.describe_images(PIXELS, may_pad=of_objects)
    sides = known.image.height, known.image.width
    return TaskModel(
        module,
        (make_port(PIXELS, "float32", ["batch", 3, *(("height", "width") if of_objects else sides)]),),
        {PIXELS: torch.randn(_EXAMPLES, 3, *sides, generator=torch.Generator().manual_seed(0))},
        ("batch",),
        GraphFacts((), answers=answers, parameters=count_parameters(module), image=known),
        labels,
        process_images=processor.process_images,
        static=True,  # Twice as fast, and an export for all sizes would be for multiples of some number alone.
    )
