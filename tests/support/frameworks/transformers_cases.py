"""Writes folders of transformers with random weights, and says whether they are read as what the libraries compute.

Run in the environment of PyTorch: ``python transformers_cases.py FOLDER``. The answers of the published pipelines to
TEXTS lie beside those folders that tests build, as ``answers.json`` in them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
import tokenizers
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from builder.importers.frameworks.architectures import TESTED
from builder.importers.frameworks.transformers_model import open_transformers
from builder.importers.samples.golden_inputs import TEXTS as SENTENCES
from tests.support.frameworks.agreement import report_agreement, run_in_folder

TEXTS = (
    "A dog barks.",
    "Ein Hund bellt in Zürich!",
    "犬が吠える。",
    "Angela Merkel lives in Berlin, doesn't she? " * 4,
    "🐕 ok",
)
PAIRS = [*zip(TEXTS, reversed(TEXTS), strict=True), (TEXTS[3], TEXTS[3] * 2)]
VOCABULARY = 400
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "initializer_range": 0.2,
}
DISTIL = {
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 16,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "position_biased_input": False,
    "type_vocab_size": 0,
}
MODERN = {"global_attn_every_n_layers": 2, "local_attention": 8}
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("wordpiece", SIZES),
    "distilbert": ("wordpiece", DISTIL),
    "electra": ("wordpiece", SIZES | {"embedding_size": 16}),
    "mpnet": ("wordpiece", SIZES),
    "albert": ("unigram", SIZES | {"embedding_size": 16}),
    "roberta": ("bytes", SIZES),
    "xlm-roberta": ("unigram", SIZES),
    "camembert": ("unigram", SIZES),
    "deberta-v2": ("unigram", SIZES | DEBERTA),
    "modernbert": ("bytes", SIZES | MODERN),
    "nomic_bert": ("wordpiece", SIZES),
}
"""The tokenizer and the configuration of each architecture."""
REFUSED = {"convbert": ("wordpiece", SIZES | {"embedding_size": 32})}

TASKS = {
    "embedding": transformers.AutoModel,
    "classes": transformers.AutoModelForSequenceClassification,
    "entities": transformers.AutoModelForTokenClassification,
}
LABELS = {"classes": ["sad", "so-so", "glad"], "entities": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]}
PROMPTS = {"query": "How do I find: ", "passage": "passage\n"}


def make_tokenizer(kind: str, first_pad: bool) -> Any:
    """Return a tokenizer that is trained on this project's sentences; RoBERTa and its kin have the padding second."""
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"] if first_pad else ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]
    options = {"vocab_size": VOCABULARY, "special_tokens": special, "show_progress": False}
    if kind == "wordpiece":
        made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        made.decoder, trainer = decoders.WordPiece(), trainers.WordPieceTrainer(**options)
    elif kind == "bytes":
        made = tokenizers.Tokenizer(models.BPE())
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(**options, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    else:
        made = tokenizers.Tokenizer(models.Unigram())
        made.normalizer, made.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
        made.decoder, trainer = decoders.Metaspace(), trainers.UnigramTrainer(**options, unk_token="[UNK]")
    made.train([str(SENTENCES)], trainer)
    ends = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    given = ["input_ids", "attention_mask", *["token_type_ids"] * (kind == "wordpiece")]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, model_max_length=64, model_input_names=given, **names
    )


def write_folder(folder: Path, encoder: str, task: str, **settings: Any) -> None:
    """Write a model of random weights, with its tokenizer; an embedding's with sentence-transformers' modules."""
    include_prompt = settings.pop("include_prompt", True)
    kind, sizes = (ENCODERS | REFUSED)[encoder]
    tokenizer = make_tokenizer(kind, first_pad=encoder not in ("roberta", "xlm-roberta", "camembert", "mpnet"))
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad")}
    named = dict(enumerate(settings.pop("labels", LABELS.get(task, ["?"]))))
    settings |= {"id2label": named, "label2id": {name: number for number, name in named.items()}}
    torch.manual_seed(len(encoder) + len(task))
    config = transformers.AutoConfig.for_model(encoder, vocab_size=len(tokenizer), **sizes, **ids, **settings)
    model = TASKS[task].from_config(config).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if task == "embedding" and encoder != "electra":  # Without modules, the mean of the tokens is meant.
        parts = [
            modules.Transformer(str(folder)),
            modules.Pooling(model.config.hidden_size, "cls" if encoder == "roberta" else "mean"),
        ]
        parts[1].include_prompt = include_prompt
        whole = [*parts, modules.Normalize()]
        SentenceTransformer(modules=whole, device="cpu", prompts=PROMPTS, default_prompt_name="passage").save(
            str(folder)
        )


def write_changed(folder: Path, name: str, like: str, file: str, **changes: Any) -> None:
    """Write the model ``like`` without modules as ``name``, with other settings in its ``file``."""
    shutil.copytree(folder / like, folder / name, ignore=shutil.ignore_patterns("modules.json"))
    settings = json.loads((folder / name / file).read_text()) | changes
    (folder / name / file).write_text(json.dumps(settings))


def ask_published(folder: Path, task: str) -> Any:
    """Return the answers of the libraries' own pipelines to TEXTS."""
    if task == "embedding":
        model = SentenceTransformer(str(folder), device="cpu")
        return [model.encode(list(TEXTS), prompt_name=name).tolist() for name in (None, "query")]
    name, options = {
        "classes": ("text-classification", {"top_k": None, "truncation": True}),
        "entities": ("token-classification", {"aggregation_strategy": "first"}),
    }[task]
    pipeline = transformers.pipeline(name, model=str(folder), device="cpu", dtype=torch.float32)
    answers = pipeline(list(TEXTS), **options)
    return json.loads(json.dumps(answers, default=float))


def write_ranker(folder: Path, encoder: str, name: str, **settings: Any) -> None:
    """Write a cross-encoder, and beside it what it says itself of PAIRS, and of a text with each of TEXTS."""
    write_folder(folder, encoder, "classes", **settings)
    model = CrossEncoder(str(folder), device="cpu")
    if name == "inference":
        model.save(str(folder))
        answers = [model.predict(PAIRS, apply_softmax=True).tolist(), []]
    else:
        ranked = sorted(model.rank(TEXTS[1], list(TEXTS)), key=lambda row: row["corpus_id"])
        answers = [model.predict(PAIRS).tolist(), [row["score"] for row in ranked]]
    (folder / "answers.json").write_text(json.dumps([PAIRS, *answers], default=float))


def split_tokenizer(folder: Path) -> None:
    """Leave the two files of GPT-2's tokenizers in the place of tokenizer.json, as old folders have them."""
    pieces = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(pieces["vocab"]))
    (folder / "merges.txt").write_text("\n".join(map(" ".join, pieces["merges"])))
    (folder / "tokenizer.json").unlink()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "RobertaTokenizer", "bos_token": "[CLS]", "eos_token": "[SEP]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"mask_token": "[UNK]"}))


def agrees(folder: Path) -> bool:
    """Say whether the JAX function gives what the library's own module gives, for texts of several lengths."""
    model = open_transformers(folder)
    function = model.make_function()
    assert model.encode_texts
    assert model.ports.facts
    items = PAIRS if model.ports.facts.pairs else [(text,) for text in TEXTS]
    encoded = dict(model.encode_texts(items, 48))
    ids = encoded["input_ids"]
    mask = encoded["attention_mask"] = (ids != read_padding(folder)).astype(np.int64)
    feeds = [encoded[port.name] for port in model.ports.feeds]
    (wanted,), (answer,) = model.answer(feeds), jax.jit(function)(*feeds)
    rows = mask.astype(bool) if wanted.ndim == 3 else np.full(len(ids), True)
    return np.allclose(wanted[rows], np.asarray(answer)[rows], rtol=1e-4, atol=1e-5)


def read_padding(folder: Path) -> int:
    return int(transformers.AutoTokenizer.from_pretrained(folder).pad_token_id)


BUILT = {"sentences": ("bert", "embedding"), "moods": ("xlm-roberta", "classes"), "names": ("distilbert", "entities")}
"""The folders that tests build."""


def main(folder: Path) -> None:
    transformers.logging.set_verbosity_error()
    for name, (encoder, task) in BUILT.items():
        write_folder(folder / name, encoder, task)
        (folder / name / "answers.json").write_text(json.dumps([TEXTS, ask_published(folder / name, task)]))
    write_folder(folder / "many", "distilbert", "classes", problem_type="multi_label_classification")
    write_folder(folder / "number", "bert", "classes", problem_type="regression", labels=["value"])
    raw = {"activation_fn": "torch.nn.modules.linear.Identity"}
    write_ranker(folder / "pairs", "bert", "pairs", labels=["score"], sentence_transformers=raw)
    inference = ["contradiction", "entailment", "neutral"]
    write_ranker(folder / "inference", "xlm-roberta", "inference", labels=inference, type_vocab_size=1)
    odd = {"activation_fn": "torch.nn.modules.activation.Tanh"}
    write_folder(folder / "odd", "bert", "classes", labels=["score"], sentence_transformers=odd)
    write_folder(folder / "sparse", "bert", "embedding")
    settings = folder / "sparse" / "config_sentence_transformers.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model_type": "SparseEncoder"}))
    write_folder(folder / "instructor", "bert", "embedding", include_prompt=False)
    write_folder(folder / "unmasked", "convbert", "classes")
    write_folder(folder / "merges", "roberta", "classes")
    split_tokenizer(folder / "merges")
    write_changed(folder, "headless", "sentences", "config.json", architectures=["BertForTokenClassification"])
    write_changed(folder, "writer", "sentences", "config.json", architectures=["GPT2LMHeadModel"])
    write_changed(folder, "gaps", "moods", "config.json", id2label={"0": "sad", "2": "so-so", "5": "glad"})
    same = {name: agrees(folder / name) for name in (*BUILT, "many", "number", "pairs", "inference")}
    with TemporaryDirectory() as scratch:
        for encoder in ENCODERS:
            for task in TASKS if encoder == "bert" else ["embedding"]:
                write_folder(Path(scratch) / encoder / task, encoder, task)
                same[f"{encoder} {task}"] = agrees(Path(scratch) / encoder / task)
    assert ENCODERS.keys() == TESTED["texts"].keys()
    report_agreement(same)


if __name__ == "__main__":
    run_in_folder(main)
