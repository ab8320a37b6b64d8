"""Tasks of transformers and sentence-transformers whose models take texts, as ids of tokens and a mask."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.config.schema import IDS, MASK, TYPES, Activation
from builder.importers.frameworks.framework_model import make_port
from builder.importers.frameworks.transformers_task import (
    HOW_TO_EXPORT,
    TaskModel,
    choose_activation,
    count_parameters,
    list_labels,
    load_weights,
    loading_options,
    run_module,
)
from builder.importers.ports import AnswerFacts, GraphFacts

MODULES = "modules.json"
"""The file of a folder of sentence-transformers, which lists its modules."""

LENGTHS = (16, 64, 256, 512)
"""Lengths of texts, in tokens, for each of which the library has a program if the model takes so many."""

_SETTINGS = "config_sentence_transformers.json"
_ACTIVATIONS: Mapping[type, Activation] = {torch.nn.Sigmoid: "sigmoid", torch.nn.Identity: "none"}
_EXAMPLES = ("A dog barks.", "How do I find the texts that are nearest to a question?")


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

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None) -> dict[str, Any]:
        types = {} if token_type_ids is None else {TYPES: token_type_ids}
        return {"logits": self.model(input_ids=input_ids, attention_mask=attention_mask, **types).logits}


def read_modules(path: Path, trust: bool) -> TaskModel:
    """Read a folder of sentence-transformers, by the kind of model that it says that it has."""
    settings = path / _SETTINGS
    kind = json.loads(settings.read_text(encoding="utf-8")).get("model_type") if settings.is_file() else None
    if kind == "CrossEncoder":
        return _read_pairs(path, load_weights(transformers.AutoModelForSequenceClassification, path, trust), trust)
    if kind not in (None, "SentenceTransformer"):
        raise ImportModelError(f"{path.name} is a {kind} of sentence-transformers. {HOW_TO_EXPORT}.")
    return read_embedder(path, trust)


def read_embedder(path: Path, trust: bool) -> TaskModel:
    """Read a model of sentence-transformers, or an encoder without modules, whose tokens' mean is the embedding."""
    words = count_words(load_weights(transformers.AutoModel, path, trust))  # This also finds out what is missing.
    try:
        model = SentenceTransformer(
            str(path), device="cpu", local_files_only=True, model_kwargs=loading_options(trust)
        ).eval()
    except Exception as error:  # Its modules may be of any kind.
        raise ImportModelError(f"{path.name}: sentence-transformers cannot load it: {describe_error(error)}") from error
    if not all(getattr(module, "include_prompt", True) for module in model):
        raise ImportModelError(
            f"{path.name}: its pooling leaves out the prompt's tokens (include_prompt is false, as in INSTRUCTOR "
            f"models), which is not supported. {HOW_TO_EXPORT}."
        )
    longest = model.max_seq_length or LENGTHS[-1]
    task = make_text_task(_Embedder(model), model.tokenizer, words, longest, {"embedding": AnswerFacts("embedding")})
    return _add_prompts(task, model)


def read_classifier(path: Path, trust: bool) -> TaskModel:
    """Read a model that gives a text scores of classes, or numbers."""
    model = load_weights(transformers.AutoModelForSequenceClassification, path, trust)
    config = model.config
    if _takes_pairs(config):
        return _read_pairs(path, model, trust)
    return _make_classifier(path, model, choose_activation(config))


def _takes_pairs(config: Any) -> bool:
    """Return whether it is a cross-encoder's configuration, has labels of inference, or gives one number, as rerankers.

    A number that is trained by regression is of one text.
    """
    own = any(hasattr(config, name) for name in ("sentence_transformers", "sbert_ce_default_activation_function"))
    of_inference = any("entail" in label.lower() for label in list_labels(config))
    return own or of_inference or (config.num_labels == 1 and config.problem_type is None)


def _read_pairs(path: Path, model: Any, trust: bool) -> TaskModel:
    """Read a cross-encoder of the weights in ``model``, which gives a pair of texts a score, or scores of classes."""
    try:
        ranker = CrossEncoder(str(path), device="cpu", local_files_only=True, model_kwargs=loading_options(trust))
    except Exception as error:  # Its modules may be of any kind.
        raise ImportModelError(f"{path.name}: sentence-transformers cannot load it: {describe_error(error)}") from error
    activation = _ACTIVATIONS.get(type(ranker.activation_fn))
    if activation is None or len(ranker) != 1:
        parts = ", ".join(type(part).__name__ for part in (*ranker, ranker.activation_fn))
        raise ImportModelError(f"{path.name} has steps that are not known here, of {parts}. {HOW_TO_EXPORT}.")
    if model.config.num_labels == 1:
        facts = AnswerFacts("regression", activation)
    else:  # What has no activation of its own is softmaxed, as by the pipeline for the classification of texts.
        facts = AnswerFacts("classification", "softmax" if activation == "none" else activation)
    return _add_prompts(_make_classifier(path, model, facts, pairs=True), ranker)


def _add_prompts(task: TaskModel, model: Any) -> TaskModel:
    """Return ``task`` with the prompts of sentence-transformers' ``model``, which has empty ones in their absence."""
    if not any(model.prompts.values()):
        return task
    facts = replace(task.facts, prompts=dict(model.prompts), default_prompt=model.default_prompt_name)
    return replace(task, facts=facts)


def read_tagger(path: Path, trust: bool) -> TaskModel:
    """Read a model that gives every token of a text scores of classes."""
    model = load_weights(transformers.AutoModelForTokenClassification, path, trust)
    return _make_classifier(path, model, AnswerFacts("tokens", "softmax"))


TEXT_READERS: Mapping[str, Callable[[Path, bool], TaskModel]] = {
    "ForSequenceClassification": read_classifier,
    "ForTokenClassification": read_tagger,
    "Model": read_embedder,
}
"""The reader of each ending of an architecture's name."""


def _make_classifier(path: Path, model: Any, facts: AnswerFacts, pairs: bool = False) -> TaskModel:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:  # Tokenizers are of many kinds.
        raise ImportModelError(f"{path.name}: its tokenizer cannot be loaded: {describe_error(error)}") from error
    longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None) or LENGTHS[-1])
    typed = TYPES in tokenizer.model_input_names and getattr(model.config, "type_vocab_size", 0) > 1
    task = make_text_task(_Classifier(model), tokenizer, count_words(model), longest, {"logits": facts}, pairs, typed)
    return replace(task, labels=() if facts.kind == "regression" else list_labels(model.config))


def make_text_task(
    module: torch.nn.Module,
    tokenizer: Any,
    words: int,
    longest: int,
    answers: Mapping[str, AnswerFacts],
    pairs: bool = False,
    typed: bool = False,
) -> TaskModel:
    """Return the task of a ``module`` that looks ids up in ``words`` rows, and takes ``longest`` tokens as it says.

    ``pairs``: of pairs of texts. ``typed``: whether the text that each token is of makes a difference.
    """
    facts = GraphFacts(
        (),
        answers=answers,
        lengths=_list_lengths(module, tokenizer, longest),
        parameters=count_parameters(module),
        padding=tokenizer.pad_token_id,
        pairs=pairs,
    )
    shortest = min(LENGTHS[0], longest)
    examples = tokenizer(
        *[list(_EXAMPLES)] * (1 + pairs), padding=True, truncation=True, max_length=shortest, return_tensors="pt"
    )
    names = (IDS, MASK, *[TYPES] * (pairs and typed))
    _check_padding(module, {name: examples[name] for name in names})
    ids, *others = (make_port(feed, "int64", ["batch", "length"]) for feed in names)
    of_words = any(answer.kind == "tokens" for answer in answers.values())
    return TaskModel(
        module,
        (replace(ids, rows=words), *others),
        {name: examples[name] for name in names},
        ("batch", "length") if of_words else ("batch",),
        facts,
        encode_texts=partial(encode_texts, tokenizer, (IDS, TYPES) if typed else (IDS,)),
    )


def _check_padding(module: torch.nn.Module, examples: Mapping[str, torch.Tensor]) -> None:
    """Raise ImportModelError if the first text has another answer where it is filled up than it has alone.

    A library's programs are of fixed lengths. Where nothing masks what fills them up, all answers would be wrong.
    """
    kept = examples[MASK][0] > 0
    with torch.no_grad():
        (alone,) = module(**{name: value[:1, kept] for name, value in examples.items()}).values()
        (filled,) = module(**examples).values()
    filled = filled[:1, kept] if filled.ndim == 3 else filled[:1]
    if not torch.allclose(alone, filled, rtol=1e-3, atol=1e-3 * float(alone.abs().max()), equal_nan=True):
        raise ImportModelError(
            "The model gives a text another answer where it is filled up to a length, as ConvBERT and FNet do, and a "
            "function's texts are. Choose a model of another architecture."
        )


def count_words(model: Any) -> int:
    """Return the number of words that a model looks up."""
    return int(model.get_input_embeddings().num_embeddings)


def _list_lengths(module: torch.nn.Module, tokenizer: Any, longest: int) -> tuple[int, ...]:
    """Return the lengths for which programs are made, up to the longest that the model runs at.

    Some models count positions from behind the padding's id, and so take fewer than their configuration says.
    """
    longest = min(longest, LENGTHS[-1])
    for length in (longest, longest - 1 - (tokenizer.pad_token_id or 0)):
        ids = np.full((1, length), tokenizer.unk_token_id or 0, np.int64)
        try:
            run_module(module, [ids, np.ones_like(ids)])
        except (IndexError, RuntimeError):
            continue
        return (*(shorter for shorter in LENGTHS if shorter < length), length)
    raise ImportModelError(f"The model does not run for texts of {longest} tokens, which its tokenizer allows.")


def encode_texts(
    tokenizer: Any, names: Sequence[str], items: Sequence[tuple[str, ...]], length: int
) -> dict[str, Array]:
    """Return what the published tokenizer gives for texts or pairs, cut off or filled up to ``length``."""
    sides = map(list, zip(*items, strict=True))
    encoded = tokenizer(*sides, padding="max_length", truncation=True, max_length=length, return_tensors="np")
    return {name: np.asarray(encoded[name]) for name in names}
