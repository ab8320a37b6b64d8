"""Tasks of transformers and sentence-transformers whose models take texts, as ids of tokens and a mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.config.schema import IDS, MASK
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

    def forward(self, input_ids: Any, attention_mask: Any) -> dict[str, Any]:
        return {"logits": self.model(input_ids=input_ids, attention_mask=attention_mask).logits}


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
    if not any(model.prompts.values()):  # Without its own, the library has empty ones.
        return task
    return replace(
        task, facts=replace(task.facts, prompts=dict(model.prompts), default_prompt=model.default_prompt_name)
    )


def read_classifier(path: Path, trust: bool) -> TaskModel:
    """Read a model that gives a text scores of classes, or numbers."""
    model = load_weights(transformers.AutoModelForSequenceClassification, path, trust)
    config = model.config
    if hasattr(config, "sentence_transformers"):  # Only a cross-encoder's configuration has it.
        raise ImportModelError(f"{path.name} is a cross-encoder, which takes pairs of texts. {HOW_TO_EXPORT}.")
    return _make_classifier(path, model, choose_activation(config))


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


def _make_classifier(path: Path, model: Any, facts: AnswerFacts) -> TaskModel:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:  # Tokenizers are of many kinds.
        raise ImportModelError(f"{path.name}: its tokenizer cannot be loaded: {describe_error(error)}") from error
    longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None) or LENGTHS[-1])
    task = make_text_task(_Classifier(model), tokenizer, count_words(model), longest, {"logits": facts})
    return replace(task, labels=() if facts.kind == "regression" else list_labels(model.config))


def make_text_task(
    module: torch.nn.Module, tokenizer: Any, words: int, longest: int, answers: Mapping[str, AnswerFacts]
) -> TaskModel:
    """Return the task of a ``module`` that looks ids up in ``words`` rows, and takes ``longest`` tokens as it says."""
    facts = GraphFacts(
        (),
        answers=answers,
        lengths=_list_lengths(module, tokenizer, longest),
        parameters=count_parameters(module),
        padding=tokenizer.pad_token_id,
    )
    examples = tokenizer(list(_EXAMPLES), padding=True, return_tensors="pt")
    ids, mask = (make_port(feed, "int64", ["batch", "length"]) for feed in (IDS, MASK))
    of_words = any(answer.kind == "tokens" for answer in answers.values())
    return TaskModel(
        module,
        (replace(ids, rows=words), mask),
        {name: examples[name] for name in (IDS, MASK)},
        ("batch", "length") if of_words else ("batch",),
        facts,
        encode_texts=partial(encode_texts, tokenizer),
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


def encode_texts(tokenizer: Any, texts: Sequence[str], length: int) -> Array:
    """Return the ids [texts, length] that the published tokenizer gives, cut off or filled up to ``length``."""
    encoded = tokenizer(list(texts), padding="max_length", truncation=True, max_length=length, return_tensors="np")
    return np.asarray(encoded["input_ids"])
