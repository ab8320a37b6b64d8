"""Writes folders of CLIP and SigLIP with random weights, and says whether their towers are read as what they compute.

Run in the environment of PyTorch: ``python transformers_tower_cases.py FOLDER``. The vectors of the published models
for TEXTS and for a photograph lie beside the folders, as ``answers.json`` in them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from builder.config.schema import IDS, MASK
from builder.importers.frameworks.architectures import TESTED
from builder.importers.frameworks.transformers_model import open_transformers
from builder.importers.samples.golden_inputs import TEXTS as SENTENCES
from tests.support.frameworks.agreement import report_agreement, run_in_folder
from tests.support.frameworks.transformers_cases import make_tokenizer

PHOTOGRAPH = Path(__file__).parents[2] / "data" / "coffee.jpg"
TEXTS = (
    "A photo of a dog.",
    "EIN HUND in Zürich!",
    "犬が吠える。",
    "A cup of coffee, and a spoon beside it. " * 9,
    "🐕 ok",
)
SIDE, LENGTH = 32, 64
LAYERS = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = LAYERS | {"max_position_embeddings": LENGTH, "initializer_range": 0.2, "projection_size": 32}
VISION = LAYERS | {"image_size": SIDE, "patch_size": 8, "initializer_range": 0.2}
SPACE = {"projection_dim": 24}


def make_clip_tokenizer() -> Any:
    """Return a tokenizer of CLIP's class, trained on this project's sentences; its padding is the end of a text."""
    made = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    made.normalizer = transformers.CLIPTokenizer()._tokenizer.normalizer
    made.pre_tokenizer = transformers.CLIPTokenizer()._tokenizer.pre_tokenizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=800, initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False
    )
    made.train([str(SENTENCES)], trainer)
    learned = json.loads(made.to_str())["model"]
    pieces = dict.fromkeys([*learned["vocab"], *alphabet, *(f"{byte}</w>" for byte in alphabet)])
    vocabulary = {piece: number for number, piece in enumerate([*pieces, "<|startoftext|>", "<|endoftext|>"])}
    merges = [tuple(pair) for pair in learned["merges"]]
    return transformers.CLIPTokenizer(vocabulary, merges, model_max_length=LENGTH)


def name_siglip_tokenizer(path: Path) -> None:
    """Write the published class into a tokenizer's settings: it needs SentencePiece, and gives no mask."""
    settings = json.loads(path.read_text()) | {"tokenizer_class": "SiglipTokenizer", "model_input_names": ["input_ids"]}
    path.write_text(json.dumps(settings))


def write_folder(folder: Path, kind: str) -> None:
    """Write a model of random weights, with its tokenizer and image processor."""
    tokenizer = make_clip_tokenizer() if kind == "clip" else make_tokenizer("unigram", first_pad=True)
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    text = TEXT | SPACE | {"vocab_size": len(tokenizer)} | {name: id for name, id in ids.items() if id is not None}
    torch.manual_seed(len(kind))
    if kind == "clip":
        config = transformers.CLIPConfig(text_config=text, vision_config=VISION | SPACE, **SPACE)
        processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=SIDE)
    else:
        config = transformers.SiglipConfig(text_config=text, vision_config=VISION)
        processor = transformers.SiglipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if kind == "siglip":
        name_siglip_tokenizer(folder / "tokenizer_config.json")
    processor.save_pretrained(folder)


def ask_published(folder: Path) -> dict[str, Any]:
    """Return the vectors that the whole model compares, of TEXTS and of PHOTOGRAPH."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    encoded = tokenizer(list(TEXTS), padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt")
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    pixels = processor(images=[Image.open(PHOTOGRAPH).convert("RGB")], return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        answer = model(**encoded, pixel_values=pixels)
    return {"texts": [TEXTS, answer.text_embeds.tolist()], "image": answer.image_embeds[0].tolist()}


def agrees(folder: Path, tower: str, wanted: Any) -> bool:
    """Say whether the tower's JAX function gives the whole model's vectors for TEXTS, or for noise its own."""
    model = open_transformers(folder, signature=tower)
    function = jax.jit(model.make_function())
    if tower == "image":
        noise = np.random.default_rng(0).standard_normal((2, 3, SIDE, SIDE)).astype(np.float32)
        return np.allclose(model.answer([noise])[0], function(noise)[0], atol=1e-5)
    assert model.encode_texts
    ids = model.encode_texts([(text,) for text in TEXTS], LENGTH)[IDS]
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder, model_input_names=[IDS, MASK])
    mask = tokenizer(list(TEXTS), padding="max_length", truncation=True, max_length=LENGTH)["attention_mask"]
    feeds = [ids, np.array(mask)][: len(model.ports.feeds)]
    return all(np.allclose(wanted, vectors, atol=1e-5) for vectors in (model.answer(feeds)[0], function(*feeds)[0]))


def main(folder: Path) -> None:
    transformers.logging.set_verbosity_error()
    same = {}
    for kind in TESTED["texts and images"]:
        write_folder(folder / kind, kind)
        answers = ask_published(folder / kind)
        (folder / kind / "answers.json").write_text(json.dumps(answers))
        for tower in ("image", "text"):
            same[f"{kind} {tower}"] = agrees(folder / kind, tower, answers["texts"][1])
    alone = folder / "alone"
    shutil.copytree(folder / "clip", alone)
    transformers.CLIPTextModelWithProjection.from_pretrained(folder / "clip").save_pretrained(alone)
    same["clip text alone"] = agrees(alone, "text", json.loads((alone / "answers.json").read_text())["texts"][1])
    report_agreement(same)


if __name__ == "__main__":
    run_in_folder(main)
