"""Tasks of transformers whose models take sound: samples go in, as the function decodes them from a recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.config import AudioSpec
from builder.importers.frameworks.framework_model import make_port
from builder.importers.frameworks.sound_features import FRAME, HOP, SpectrogramFeatures, Standardised, WhisperFeatures
from builder.importers.frameworks.transformers_task import (
    HOW_TO_EXPORT,
    TaskModel,
    count_parameters,
    list_labels,
    load_weights,
)
from builder.importers.ports import AnswerFacts, GraphFacts

_SECONDS = 3
"""The length of a window for a model that takes recordings of any length."""

_SAMPLES = "samples"
_Results = dict[str, torch.Tensor]


class _SoundModel(torch.nn.Module):  # type: ignore[misc]
    """A ``model`` of the ``features`` of samples, with the results that ``read`` finds in its answer."""

    def __init__(self, model: Any, features: torch.nn.Module, read: Callable[[Any], _Results]) -> None:
        super().__init__()
        self.model, self.features, self.read = model, features, read

    def forward(self, samples: Any) -> _Results:
        return self.read(self.model(self.features(samples)))


def is_of_sound(config: Any) -> bool:
    """Return whether transformers has classifiers of sound of this architecture."""
    return type(config) in transformers.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING


def read_classifier(path: Path, trust: bool) -> TaskModel:
    """Read a model that gives a recording scores of classes, or numbers."""
    model = load_weights(transformers.AutoModelForAudioClassification, path, trust)
    kind, config = model.config.problem_type, model.config
    if kind == "regression":  # As the pipeline for the classification of sound chooses it.
        return _make_task(path, model, _read_logits, AnswerFacts("regression"))
    facts = AnswerFacts("classification", "sigmoid" if kind == "multi_label_classification" else "softmax")
    return replace(_make_task(path, model, _read_logits, facts), labels=list_labels(config))


def read_embedder(path: Path, trust: bool) -> TaskModel:
    """Read an encoder of samples, whose mean over time is the embedding."""
    return _make_task(path, load_weights(transformers.AutoModel, path, trust), _read_mean, AnswerFacts("embedding"))


SOUND_READERS: Mapping[str, Callable[[Path, bool], TaskModel]] = {
    "ForSequenceClassification": read_classifier,
    "ForAudioClassification": read_classifier,
    "Model": read_embedder,
}
"""The reader of each ending of an architecture's name."""


def _read_logits(answer: Any) -> _Results:
    return {"logits": answer.logits}


def _read_mean(answer: Any) -> _Results:
    return {"embedding": answer.last_hidden_state.mean(1)}


def _make_task(path: Path, model: Any, read: Callable[[Any], _Results], answer: AnswerFacts) -> TaskModel:
    try:
        extractor = transformers.AutoFeatureExtractor.from_pretrained(path, local_files_only=True)
    except Exception as error:  # Extractors are of many kinds.
        raise ImportModelError(
            f"{path.name}: its feature extractor cannot be loaded: {describe_error(error)}. "
            "preprocessor_config.json says what the model takes: name the folder that has it, too."
        ) from error
    features, length = _choose_features(path, extractor)
    module = _SoundModel(model, features, read).eval()
    sound = AudioSpec(None, extractor.sampling_rate, length or _SECONDS * extractor.sampling_rate)
    return TaskModel(
        module,
        (make_port(_SAMPLES, "float32", ["batch", length or "length"]),),
        {_SAMPLES: torch.zeros(2, sound.length)},
        ("batch",),
        GraphFacts(
            (),
            answers={"embedding" if answer.kind == "embedding" else "logits": answer},
            audio=sound,
            parameters=count_parameters(model),
        ),
        published=partial(_ask_published, extractor, model, read),
        static=True,
    )


def _choose_features(path: Path, extractor: Any) -> tuple[torch.nn.Module, int | None]:
    """Return the module that computes what ``extractor`` does, and the number of samples that it takes, if fixed."""
    if isinstance(extractor, transformers.Wav2Vec2FeatureExtractor):
        return Standardised() if extractor.do_normalize else torch.nn.Identity(), None
    if isinstance(extractor, transformers.WhisperFeatureExtractor):
        return WhisperFeatures(extractor), extractor.n_samples
    if isinstance(extractor, transformers.ASTFeatureExtractor):
        return SpectrogramFeatures(extractor), FRAME + (extractor.max_length - 1) * HOP
    raise ImportModelError(f"{path.name}: {type(extractor).__name__} is not supported. {HOW_TO_EXPORT}.")


def _ask_published(extractor: Any, model: Any, read: Callable[[Any], _Results], feeds: Sequence[Array]) -> list[Array]:
    """Return the answers to each window alone, with the features that the ``extractor`` computes, as pipelines do."""
    trims = isinstance(extractor, transformers.ASTFeatureExtractor)
    rows = []
    for window in feeds[0]:
        recording = np.trim_zeros(window, "b") if trims else window
        values = extractor(recording, sampling_rate=extractor.sampling_rate, return_tensors="pt")
        with torch.no_grad():
            rows.append([value.numpy() for value in read(model(**values)).values()])
    return [np.concatenate(column) for column in zip(*rows, strict=True)]
