"""Reads folders of Hugging Face's transformers and sentence-transformers whose models take texts.

The libraries load a folder themselves, and never run code that is in it. What the folder's task needs, as a module of
PyTorch, then goes the way of a program that ``torch.export`` saved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error, escape_invisible
from builder.config.schema import IDS, MASK
from builder.importers.frameworks.framework_model import FrameworkModel, make_port
from builder.importers.frameworks.torch_program import convert_to_jax
from builder.importers.ports import AnswerFacts, GraphFacts, ModelPorts

MODULES = "modules.json"
"""The file of a folder of sentence-transformers, which lists its modules."""

FEEDS = (IDS, MASK)
"""The names of the feeds, which are those of arguments of every model of texts in transformers."""

LENGTHS = (16, 64, 256, 512)
"""Lengths of texts, in tokens, for each of which the library has a program if the model takes so many."""

_ELSEWHERE = "Export the model to ONNX, as with `optimum-cli export onnx`, and name the .onnx file instead"
_EXAMPLES = ("A dog barks.", "How do I find the texts that are nearest to a question?")
_NOT_USED = ("pooler.", ".position_ids")
"""Names of weights that a folder may lack: no task here uses what they make."""


@dataclass(frozen=True)
class TextModel:
    """A ``module`` of PyTorch from ids and a mask [batch, length] to one named result, and what is known of that.

    ``words``: the rows of the table that ids are looked up in. ``longest``: the most tokens that the model says it
    takes. ``labels``: the names of classes, in their order.
    """

    module: torch.nn.Module
    tokenizer: Any
    words: int
    longest: int
    answer: AnswerFacts
    labels: tuple[str, ...] = ()


class _Embedder(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any) -> dict[str, Any]:
        features = self.model({"input_ids": input_ids, "attention_mask": attention_mask})
        return {"embedding": features["sentence_embedding"]}


class _Classifier(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any) -> dict[str, Any]:
        return {"logits": self.model(input_ids=input_ids, attention_mask=attention_mask).logits}


def open_transformers(path: Path, trust: bool = False) -> FrameworkModel:
    """Open the model in the folder ``path``; ``trust``: its weights may be pickles.

    Its feeds are int64 [batch, length], its fetch is named by its task.

    Raises ImportModelError for a task or an architecture that is not supported, and for a folder without weights that
    the task needs.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = _choose_reader(path, _read_config(path))(path, trust)
    answer = partial(_run_module, model.module)
    lengths = _list_lengths(model)
    ((name, shape),) = _measure_results(model).items()
    feeds = (make_port(feed, "int64", ["batch", "length"]) for feed in FEEDS)
    ports = ModelPorts(
        tuple(replace(feed, rows=model.words) if feed.name == IDS else feed for feed in feeds),
        (make_port(name, "float32", shape),),
        facts=GraphFacts((), answers={name: model.answer}, lengths=lengths, parameters=_count_parameters(model)),
        labels=model.labels,
        origin=f"read by transformers {transformers.__version__}",
    )
    return FrameworkModel(
        ports,
        lambda: convert_to_jax(_export_module(model, path.name)),
        answer,
        encode_texts=partial(_encode_texts, model.tokenizer),
    )


def _read_config(path: Path) -> Any:
    try:
        content = json.loads((path / "config.json").read_text(encoding="utf-8"))
        kind = str(content.get("model_type"))
        if kind not in transformers.CONFIG_MAPPING:
            own = " needs code of its own, which is not run" if "auto_map" in content else " is not known"
            raise ImportModelError(
                f'{path.name}: the architecture "{escape_invisible(kind)}"{own} to transformers '
                f"{transformers.__version__}. {_ELSEWHERE}."
            )
        return transformers.AutoConfig.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ImportModelError(f"{path.name}/config.json cannot be read: {describe_error(error)}") from error


def _choose_reader(path: Path, config: Any) -> Callable[[Path, bool], TextModel]:
    """Return the function that reads the folder, by sentence-transformers' modules or the architecture's task."""
    if (path / MODULES).is_file():
        return _read_embedder
    (architecture, *_) = config.architectures or [""]
    for ending, read in _READERS.items():
        if architecture.endswith(ending):
            return read
    raise ImportModelError(
        f"{path.name}: {architecture or 'an architecture without a name'} is not supported. Models of texts are read "
        f"whose architecture ends in {', '.join(_READERS)}, and those of sentence-transformers. {_ELSEWHERE}."
    )


def _read_embedder(path: Path, trust: bool) -> TextModel:
    """Read a model of sentence-transformers, or an encoder without modules, whose tokens' mean is the embedding."""
    words = _count_words(_load(transformers.AutoModel, path, trust))  # This also finds out whether it is complete.
    try:
        model = SentenceTransformer(
            str(path), device="cpu", local_files_only=True, model_kwargs=_make_options(trust)
        ).eval()
    except Exception as error:  # Its modules may be of any kind.
        raise ImportModelError(f"{path.name}: sentence-transformers cannot load it: {describe_error(error)}") from error
    longest = model.max_seq_length or LENGTHS[-1]
    return TextModel(_Embedder(model), model.tokenizer, words, longest, AnswerFacts("embedding"))


def _read_classifier(path: Path, trust: bool) -> TextModel:
    model = _load(transformers.AutoModelForSequenceClassification, path, trust)
    config = model.config
    if hasattr(config, "sentence_transformers"):  # Only a cross-encoder's configuration has it.
        raise ImportModelError(f"{path.name} is a cross-encoder, which takes pairs of texts. {_ELSEWHERE}.")
    # As the pipeline for the classification of texts chooses it.
    if config.problem_type == "regression":
        facts = AnswerFacts("regression")
    elif config.problem_type == "multi_label_classification" or config.num_labels == 1:
        facts = AnswerFacts("regression" if config.num_labels == 1 else "classification", "sigmoid")
    else:
        facts = AnswerFacts("classification", "softmax")
    return _make_classifier(path, model, facts)


def _read_tagger(path: Path, trust: bool) -> TextModel:
    model = _load(transformers.AutoModelForTokenClassification, path, trust)
    return _make_classifier(path, model, AnswerFacts("tokens", "softmax"))


_READERS: Mapping[str, Callable[[Path, bool], TextModel]] = {
    "ForSequenceClassification": _read_classifier,
    "ForTokenClassification": _read_tagger,
    "Model": _read_embedder,
}
"""The reader of each ending of an architecture's name."""


def _make_classifier(path: Path, model: Any, facts: AnswerFacts) -> TextModel:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:  # Tokenizers are of many kinds.
        raise ImportModelError(f"{path.name}: its tokenizer cannot be loaded: {describe_error(error)}") from error
    names = model.config.id2label
    labels = tuple(str(names[number]) for number in range(model.config.num_labels))
    longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None) or LENGTHS[-1])
    if facts.kind == "regression":
        labels = ()
    return TextModel(_Classifier(model), tokenizer, _count_words(model), longest, facts, labels)


def _load(kind: Any, path: Path, trust: bool) -> Any:
    """Load the weights into a model of the class ``kind``, as float32. Raises ImportModelError if some are missing."""
    try:
        model, report = kind.from_pretrained(
            path, local_files_only=True, output_loading_info=True, trust_remote_code=False, **_make_options(trust)
        )
    except Exception as error:  # A file may be broken, or of another version.
        raise ImportModelError(f"{path.name} cannot be loaded by transformers: {describe_error(error)}") from error
    missing = [name for name in sorted(report["missing_keys"]) if not any(part in name for part in _NOT_USED)]
    if missing:
        raise ImportModelError(
            f"{path.name} has no weights for {', '.join(missing[:3])}: they would be random. Name a model that was "
            "trained for the task that its config.json says."
        )
    return model.eval()


def _make_options(trust: bool) -> dict[str, Any]:
    return {"dtype": torch.float32, "use_safetensors": None if trust else True}


def _count_parameters(model: TextModel) -> int:
    return sum(parameter.numel() for parameter in model.module.parameters())


def _count_words(model: Any) -> int:
    return int(model.get_input_embeddings().num_embeddings)


def _measure_results(model: TextModel) -> dict[str, list[Any]]:
    """Return the shape of each result, with the names of open dimensions."""
    opened = ["batch", "length"] if model.answer.kind == "tokens" else ["batch"]
    with torch.no_grad():
        results = model.module(**_encode_examples(model))
    return {name: [*opened, *value.shape[len(opened) :]] for name, value in results.items()}


def _encode_examples(model: TextModel) -> dict[str, Any]:
    examples = model.tokenizer(list(_EXAMPLES), padding=True, return_tensors="pt")
    return {name: examples[name] for name in FEEDS}


def _export_module(model: TextModel, name: str) -> Any:
    """Return the program of a module for any batch and length."""
    feeds = _encode_examples(model)
    dynamic = {key: dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC) for key in feeds}
    try:
        return torch.export.export(model.module, (), feeds, dynamic_shapes=dynamic, strict=False)
    except Exception as error:
        raise ImportModelError(f"{name} cannot be exported by torch.export: {describe_error(error)}") from error


def _list_lengths(model: TextModel) -> tuple[int, ...]:
    """Return the lengths for which programs are made, up to the longest that the model runs at.

    Some models count positions from behind the padding's id, and so take fewer than their configuration says.
    """
    longest = min(model.longest, LENGTHS[-1])
    for length in (longest, longest - 1 - (model.tokenizer.pad_token_id or 0)):
        ids = np.full((1, length), model.tokenizer.unk_token_id or 0, np.int64)
        try:
            _run_module(model.module, [ids, np.ones_like(ids)])
        except (IndexError, RuntimeError):
            continue
        return (*(shorter for shorter in LENGTHS if shorter < length), length)
    raise ImportModelError(f"The model does not run for texts of {longest} tokens, which its tokenizer allows.")


def _run_module(module: torch.nn.Module, feeds: Sequence[Array]) -> list[Array]:
    with torch.no_grad():
        return [value.numpy() for value in module(*(torch.from_numpy(feed.copy()) for feed in feeds)).values()]


def _encode_texts(tokenizer: Any, texts: Sequence[str], length: int) -> Array:
    """Return the ids [texts, length] that the published tokenizer gives, cut off or filled up to ``length``."""
    encoded = tokenizer(list(texts), padding="max_length", truncation=True, max_length=length, return_tensors="np")
    return np.asarray(encoded["input_ids"])
