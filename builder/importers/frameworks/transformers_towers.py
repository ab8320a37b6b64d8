"""The towers of CLIP and SigLIP, each a model of its own: they give images and texts vectors in one space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from builder.base.errors import ImportModelError
from builder.base.escape import describe_error, escape_invisible
from builder.config.schema import IDS
from builder.importers.frameworks.framework_model import make_port
from builder.importers.frameworks.transformers_images import make_image_task
from builder.importers.frameworks.transformers_task import TaskModel, count_parameters, load_weights
from builder.importers.frameworks.transformers_texts import MODULES, count_words, encode_texts, make_text_task
from builder.importers.ports import AnswerFacts, GraphFacts

IMAGE, TEXT = "image", "text"
"""The signatures of a folder of two towers."""

TOWERS: Mapping[str, tuple[str, ...]] = {
    "CLIPModel": (IMAGE, TEXT),
    "CLIPTextModelWithProjection": (TEXT,),
    "CLIPVisionModelWithProjection": (IMAGE,),
    "SiglipModel": (IMAGE, TEXT),
}
"""The towers that models of each architecture have; the first is the one of a folder for which none is named."""

_ANSWERS = {"embedding": AnswerFacts("embedding")}


class _Tower(torch.nn.Module):  # type: ignore[misc]
    """Vectors of length 1, as the model compares them: their products are cosines."""

    def __init__(self, encoder: Any, projection: Any) -> None:
        super().__init__()
        self.encoder, self.projection = encoder, projection

    def embed_inputs(self, **inputs: Any) -> dict[str, Any]:
        vectors = self.projection(self.encoder(**inputs).pooler_output)
        return {"embedding": torch.nn.functional.normalize(vectors, dim=-1)}


class _TextTower(_Tower):
    def forward(self, input_ids: Any, attention_mask: Any = None) -> dict[str, Any]:
        return self.embed_inputs(input_ids=input_ids, attention_mask=attention_mask)


class _ImageTower(_Tower):
    def forward(self, pixel_values: Any) -> dict[str, Any]:
        return self.embed_inputs(pixel_values=pixel_values)


def list_towers(config: Any) -> tuple[str, ...]:
    """Return the towers of a model of this architecture; none of any other one."""
    return TOWERS.get(next(iter(config.architectures or ()), ""), ())


def read_tower(path: Path, trust: bool, config: Any, signature: str | None) -> TaskModel:
    """Read the tower ``signature``, the first by default. Raises ImportModelError."""
    towers, architecture = list_towers(config), config.architectures[0]
    if signature not in (None, *towers):
        shown = escape_invisible(signature or "")
        raise ImportModelError(f'{path.name} has no signature "{shown}": write {" or ".join(towers)}.')
    if (path / MODULES).is_file():
        raise ImportModelError(
            f"{path.name} is a {architecture} with modules of sentence-transformers, which may change its vectors. "
            "Name the repository of transformers that it was made of, such as openai/clip-vit-base-patch32."
        )
    model = load_weights(getattr(transformers, architecture), path, trust)
    task = _make_task(path, model, signature or towers[0])
    return replace(task, signature=signature or towers[0], signatures=towers) if len(towers) > 1 else task


def _make_task(path: Path, model: Any, tower: str) -> TaskModel:
    if tower == IMAGE:
        return make_image_task(
            path, _ImageTower(model.vision_model, _find_projection(model, "visual_projection")), _ANSWERS, ()
        )
    module = _TextTower(model.text_model, _find_projection(model, "text_projection"))
    tokenizer, longest = _load_tokenizer(path), model.text_model.config.max_position_embeddings
    if not isinstance(model, transformers.SiglipModel):
        return make_text_task(module, tokenizer, count_words(model.text_model), longest, _ANSWERS)
    return _make_full_task(module, tokenizer, longest)


def _find_projection(model: Any, projection: str) -> torch.nn.Module:
    return getattr(model, projection, None) or torch.nn.Identity()


def _make_full_task(module: _TextTower, tokenizer: Any, length: int) -> TaskModel:
    """Return the task of a tower that reads the last place, and was trained with texts filled up to it, and no mask."""
    parameters, padding = count_parameters(module), tokenizer.pad_token_id
    facts = GraphFacts((), answers=_ANSWERS, lengths=(length,), parameters=parameters, padding=padding)
    return TaskModel(
        module,
        (replace(make_port(IDS, "int64", ["batch", length]), rows=count_words(module.encoder)),),
        {IDS: torch.zeros(2, length, dtype=torch.int64)},
        ("batch",),
        facts,
        encode_texts=partial(encode_texts, tokenizer, (IDS,)),
    )


def _load_tokenizer(path: Path) -> Any:
    """Return the tokenizer of tokenizer.json where its own class needs SentencePiece, as SigLIP's does."""
    try:
        try:
            return transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
        except ImportError:
            return transformers.PreTrainedTokenizerFast.from_pretrained(path, local_files_only=True)
    except Exception as error:  # Tokenizers are of many kinds.
        raise ImportModelError(f"{path.name}: its tokenizer cannot be loaded: {describe_error(error)}") from error
