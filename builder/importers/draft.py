"""A first ``model.toml``, drafted from the description of the model, for a person to check."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from builder.base.commands import docs_command
from builder.base.errors import ImportModelError
from builder.config import (
    FeedSpec,
    FetchSpec,
    Format,
    ImageSpec,
    ModelSpec,
    OutputSpec,
    Source,
    TextSpec,
    Weights,
    render_spec,
)
from builder.config.address import Address
from builder.config.checkpoints import explain_if_weights
from builder.config.rules import (
    CODE,
    EXTENSIONS,
    NO_FOLDER,
    guess_folder_format,
    guess_format,
    guess_model_format,
    may_run_code,
    name_whole_model,
)
from builder.config.schema import WeightType
from builder.importers.draft_image import draft_image
from builder.importers.loaded import Shape
from builder.importers.ports import ASSUMED_DIM, AnswerFacts, ModelPorts, PortInfo
from builder.importers.text import read_padding

Describe = Callable[[Source, Path], ModelPorts]

TOP_K = 5
_FLOATS = {"float16", "bfloat16", "float32", "float64"}
_PLACES = re.compile("box|landmark|keypoint|coord")
_WHOLE = {"bool", "int32", "int64"}
_HEAD = 4096
"""The bytes at the beginning of a JSON file that tell a Keras architecture from a model of XGBoost."""
_TABLE_BATCHES = (1, 64)
"""Batches of a model that takes rows of a table: 64 are a block of the kernel of trees."""
_TEXT_BATCHES, _WORD_BATCHES = (1, 4, 16), (1, 12)
"""Batches of a model that takes texts. A library tells its programs apart by the bytes that go in and out: if answers
are of words, four texts of 16 tokens are like one of 64."""
_WEIGHT_BYTES: Mapping[WeightType, int] = {"float32": 4, "float16": 2, "int8": 1}
_LAYER = 240_000_000
"""The bytes of weights that fit into a layer beside the function: Lambda's limit is 250 MB, unzipped."""
_EXACT_WINDOW = (
    "The model was made for recordings of this length: shorter ones are filled up with zeros, as it expects."
)
_ANY_WINDOW = (
    "Check: the model takes recordings of any length, and a library one. Write how long those were that it was trained "
    "on: longer ones are cut into windows, shorter ones filled up with zeros, which the model hears as silence."
)
_NO_LABELS = "The model's files name no classes: add labels = [\"...\", ...] in the model's order, or labels_file."
_IDS = {"int32", "int64", "float32"}


@dataclass(frozen=True)
class DraftedSpec:
    """A first ``spec`` of a model, and comments on what to check, by the place at which ``render_spec`` puts them."""

    spec: ModelSpec
    notes: Mapping[str, str]

    def format_toml(self) -> str:
        """Return the text of a model.toml."""
        return render_spec(self.spec, self.notes)


def with_raw_outputs(drafted: ModelSpec) -> ModelSpec:
    """Return ``drafted`` without its guesses of the outputs' kinds, which the model may not permit."""
    outputs = (
        OutputSpec(output.name if fetch == output.fetch else str(fetch), fetch, activation=output.activation)
        for output in drafted.outputs
        for fetch in output.fetches
    )
    return replace(drafted, outputs=tuple(outputs))


def draft_spec(
    model_path: Path,
    describe: Describe,
    *,
    toml: Path | None = None,
    trust: bool = False,
    signature: str | None = None,
    origin: Source | None = None,
    name: str = "",
) -> DraftedSpec:
    """Draft a spec with sensible defaults for a model file or SavedModel folder.

    ``describe`` reads the model's ports. ``toml`` is the future path of the spec, by default ``model.toml`` beside the
    model; nothing is written. ``signature``: the one to draft it for, of a model that has several. ``origin`` is the
    address that the model was fetched from, named instead of its path. ``name``: the model's name; made from the
    file's where it is empty. Raises ImportModelError when the path holds no model of a known format, or holds a file
    that may run code without ``trust``, as reading its ports loads it.
    """
    model_path = model_path.resolve()
    toml = toml.resolve() if toml else model_path.parent / "model.toml"
    form = origin.format if origin else _detect_format(model_path)
    if may_run_code(form, model_path.name) and not trust:
        kind, instead = CODE[form]
        raise ImportModelError(
            f"{model_path.name}: a {kind} file may run code when it is loaded. If you trust where this one comes from, "
            f"add --trust{instead and f'; else {instead}'}."
        )
    weights = _weights_beside(model_path) if form == "h5" and model_path.suffix == ".json" else None
    source = replace(origin or Source(form, model_path, weights=weights), trust=trust, signature=signature)
    if not name:
        name = _name_remote(origin.address) if origin and origin.address else name_of(model_path)
        name = _clean_name(f"{name}_{signature}") if signature else name
    ports = describe(source, model_path)
    notes: dict[str, str] = {}
    if origin and origin.address and origin.address.text != origin.address.shown:
        notes["model.source"] = "Check: whoever reads this file sees the query, too; take out what is secret in it."
    if trust:
        notes["model.trust"] = "You said so: code in the model may run when it is loaded."
    if len(ports.signatures) > 1:
        source = replace(source, signature=ports.signature)
        notes["model.signature"] = f"The model has {', '.join(ports.signatures)}."
        if form == "transformers":
            notes["model.signature"] += f" {docs_command('hugging-face')} says how one function answers both."
    if ports.have_strings:
        notes["model.source"] = (
            "It takes or gives strings: the build finds out what the model does with them, and says it. "
            "`coldforge inspect` does, too."
        )
    audio = ports.facts.audio if ports.facts else None
    if audio:
        fixed = ports.feeds[0].shape and ports.feeds[0].shape[1]
        notes["audio.length"] = _EXACT_WINDOW if fixed else _ANY_WINDOW
    image = None if audio else draft_image(ports, name_of(model_path), notes)
    beside = model_path if form == "transformers" else model_path.parent
    text = None if image or ports.have_strings else _draft_text_input(ports, beside, notes)
    if text and text.file and origin and (origin.archived or form == "transformers"):
        # The folder of unpacked files is in a folder that is named after the archive's digest.
        parents = (folder for folder in model_path.parents if folder.parent.name == origin.sha256)
        unpacked = next(parents, model_path)
        key = "tokenizer" if text.tokenizer else "vocabulary"
        inside = key, text.file.relative_to(unpacked).as_posix()
        text = replace(text, tokenizer=None, vocabulary=None, inside=inside)
    if text and ports.facts and ports.facts.prompts:
        text = replace(text, prompts=tuple(ports.facts.prompts.items()), default_prompt=ports.facts.default_prompt)
        notes["text.prompts"] = (
            'As the model\'s own files say. A request chooses one: {"text": "...", "prompt": "NAME"}.'
        )
    if text and ports.facts and ports.facts.pairs:
        text = replace(text, pairs=True)
        notes["text.pairs"] = (
            'Requests are like {"text": "...", "text_pair": "..."}. Delete the line if it takes one text.'
        )
    feeds = () if audio else _draft_feeds(ports, form, image, notes)
    batches: tuple[int, ...] = ()
    if any(feed.columns for feed in ports.feeds):
        batches = _TABLE_BATCHES
        notes["model.batch"] = "A request may have any number of rows: many run together, a single one alone."
    unknown = ports.have_strings and not ports.labels
    if text and ports.facts and ports.facts.lengths:
        of_words = any(facts.kind == "tokens" for facts in ports.facts.answers.values())
        batches = _WORD_BATCHES if of_words else _TEXT_BATCHES
        notes["model.batch"] = "A request may have any number of texts: those of about one length run together."
    stored = _choose_weights(ports.facts.parameters if ports.facts else 0, notes)
    spec = ModelSpec(
        path=toml,
        name=name,
        version="1",
        source=source,
        batch=_choose_batch(ports),
        batches=batches,
        feeds=feeds,
        fetches=tuple(FetchSpec(fetch.name) for fetch in ports.fetches) if form == "graph_def" else (),
        image=image,
        audio=audio,
        text=text,
        weights=stored,
        outputs=() if unknown else _draft_outputs(ports, name, notes, image is not None),
    )
    if spec.fetches:
        notes["fetches.0"] = "Found as what nothing else in the graph reads: keep those you want."
    return DraftedSpec(spec, notes)


def _detect_format(path: Path) -> Format:
    if why := name_whole_model(path):
        raise ImportModelError(f"{path} {why}, {path.parent}.")
    if why := explain_if_weights(path):
        raise ImportModelError(why)
    if not path.exists():
        raise ImportModelError(f"{path}: no such file or folder; name a trained model.")
    if path.is_dir():
        if form := guess_folder_format(path):
            return form
        raise ImportModelError(f"{path} is {NO_FOLDER}; name a model's file, or the folder of a whole model.")
    if path.suffix == ".json" and b'"class_name"' in path.read_bytes()[:_HEAD]:  # Keras' own, of any layer.
        return "h5"
    if form := guess_model_format(path.name):
        return form
    raise ImportModelError(f"{path.name}: not a known kind of model; use a SavedModel's folder or one of {EXTENSIONS}.")


def _weights_beside(architecture: Path) -> Path:
    """Return the file with the weights of a Keras model whose architecture is in JSON."""
    weights = sorted(path for path in architecture.parent.iterdir() if guess_format(path.name) == "h5")
    own = [path for path in weights if path.name.partition(".")[0] == architecture.stem] or weights
    if len(own) == 1:
        return own[0]
    listed = ", ".join(path.name for path in own) or "no .h5 file"
    raise ImportModelError(
        f"{architecture.name} has its weights in another file, and beside it there is {listed}. Write a model.toml "
        f'with `source = "{architecture.name}"` and `weights = "..."` under [model].'
    )


def name_of(path: Path) -> str:
    """Return a model's name: that of its file, or of a folder around it if that is only a number or ``model``."""
    stem = path.stem if path.is_file() else path.name
    if _is_general(stem):
        stem = next((folder.name for folder in path.parents if not _is_general(folder.name)), stem)
    return _clean_name(stem)


def _is_general(stem: str) -> bool:
    """Return whether any model's file or folder may have this name, such as ``model`` or a version."""
    return stem.lower() in ("", "model", "saved_model") or stem.isdecimal()


def _name_remote(address: Address) -> str:
    """Return the file's name, or that of the repository or registered model where it says nothing."""
    stem = re.sub(r"(\.tar)?\.\w+$", "", PurePosixPath(address.path).name)
    if _is_general(stem) and address.kind != "https":
        stem = address.place.split("/")[1 if "/" in address.place else 0]
    return _clean_name(stem)


def _clean_name(text: str) -> str:
    name = re.sub(r"[^a-z0-9_-]+", "_", text.lower()).strip("_-")[:64]
    return name or "model"


def _draft_text_input(ports: ModelPorts, folder: Path, notes: dict[str, str]) -> TextSpec | None:
    """Return the [text] section, if a tokenizer is beside the model and a feed looks like ids."""
    tokenizer, vocabulary = folder / "tokenizer.json", folder / "vocab.txt"
    named = TextSpec(tokenizer).with_feed_names([feed.name for feed in ports.feeds])
    ids = next((feed for feed in ports.feeds if feed.name == named.ids), None)
    if ids is None or ids.shape is None or len(ids.shape) != 2 or ids.dtype not in _IDS:
        return None
    known = ports.facts.padding if ports.facts else None
    if tokenizer.is_file():
        notes["text"] = f"Found beside the model: {tokenizer.name}. Callers send strings."
        text = TextSpec(tokenizer)
        if known is None or known == read_padding(text):
            return text
        notes["text.pad"] = "As the model's own files say: tokenizer.json names no padding."
        return replace(text, pad=known)
    if vocabulary.is_file():
        notes["text"] = f"Found beside the model: {vocabulary.name}. Check lowercase: a cased model wants false."
        return TextSpec(None, vocabulary, lowercase=_reads_lowercase(folder))
    if known is not None:
        raise ImportModelError(
            f"{folder.name} has no tokenizer.json, which is what the function reads texts by. transformers writes it: "
            'call AutoTokenizer.from_pretrained(folder).save_pretrained(folder), with "folder" the path of the model.'
        )
    return None


def _reads_lowercase(folder: Path) -> bool:
    """Return what a model's own files say of the tokenizer of its vocab.txt; BERT's default is True."""
    try:
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        return settings.get("do_lower_case", True) is not False
    except (OSError, ValueError, AttributeError, RecursionError):
        return True


def _choose_weights(count: int, notes: dict[str, str]) -> Weights:
    """Return the largest type with which ``count`` weights fit into a layer, which is nearly all of the function."""
    kind: WeightType = next((kind for kind, size in _WEIGHT_BYTES.items() if size * count < _LAYER), "int8")
    if kind != "float32":
        notes["weights.type"] = (
            f"float32 would be {4 * count / 1e6:.0f} MB, and Lambda's limit is 250 MB. `coldforge accuracy` says what "
            f"{kind} costs; {docs_command('large-models')} has other ways."
        )
    return Weights(type=kind)


def _choose_batch(ports: ModelPorts) -> int:
    """Return the first feed's leading dimension where the model fixes it, and the batch is no other one."""
    first = next((feed.shape for feed in ports.feeds if ports.batch_names.isdisjoint(feed.dimensions[1:])), None)
    size = first[0] if first and len(first) > 1 else None
    return size if size is not None and 1 <= size <= 4096 else 1


def _draft_feeds(
    ports: ModelPorts, form: Format, image: ImageSpec | None, notes: dict[str, str]
) -> tuple[FeedSpec, ...]:
    """List the feeds to name: all of a frozen graph, or those with open dimensions besides the batch."""
    feeds: list[FeedSpec] = []
    for port in ports.feeds:
        is_image = image is not None and image.feed in (port.name, None)
        leading = _choose_batch(ports)
        fixed = ports.fix_batch(port, leading).shape
        open_dims = fixed is not None and None in fixed[1:] and not is_image
        place = f"feeds.{len(feeds)}"
        if port.value is not None:
            notes[f"{place}.value"] = (
                "Check: it seems only to choose a branch, as for inference and not for training. Delete the line if "
                "callers are to pass it."
            )
            feeds.append(FeedSpec(port.name, value=(port.value,)))
            continue
        missing = ports.facts is not None and port.name in ports.facts.missing and not is_image
        number = port.shape == () and port.dtype in _WHOLE
        if form != "graph_def" and not open_dims and port.shape is not None and not missing and not number:
            continue
        shape: Shape | None = None
        shapes: tuple[Shape, ...] = ()
        if ports.facts and ports.facts.lengths and open_dims:
            shapes = tuple((leading, length) for length in ports.facts.lengths)
            notes[f"{place}.shapes"] = "Texts of so many tokens: each run takes the shortest that holds its texts."
        elif port.shape is None and not is_image:
            notes[place] = f"Add the shape {port.name} is called with, batch first: the model leaves its rank open."
        elif open_dims and fixed is not None:
            known = ports.facts.shapes.get(port.name, ()) if ports.facts else ()
            sizes = known or tuple(leading if i == 0 else ASSUMED_DIM for i in range(len(fixed)))
            shape = tuple(dim or size for dim, size in zip(fixed, sizes, strict=True))
            notes[f"{place}.shape"] = f"Check: the model says {port.describe_shape()}" + (
                "; it runs at these sizes." if known else f"; each open size is taken as {ASSUMED_DIM}."
            )
        if number:
            notes[place] = (
                "Callers pass one number. If it only chooses a branch, such as a rate, and is always the same, add "
                "`value`: the other branches are then left out."
            )
        if missing:
            notes[f"{place}.nan"] = "The graph looks for NaN here, as for a missing number: callers may send it."
        feeds.append(FeedSpec(port.name, shape, shapes, nan=missing))
    return tuple(feeds)


def _draft_outputs(ports: ModelPorts, name: str, notes: dict[str, str], takes_image: bool) -> tuple[OutputSpec, ...]:
    several = len(ports.fetches) > 1
    any_batch = any(port.shape is None or port.shape[:1] == (None,) for port in ports.feeds)
    outputs = []
    detection = _draft_detection(ports) if takes_image else None
    if detection:
        outputs.append(detection)
        notes["outputs.0"] = "Named as TensorFlow's detection models do: add labels, the first for class 0."
    for port in ports.fetches:
        if any(port.name in output.fetches for output in outputs):
            continue
        i = len(outputs)
        if facts := ports.facts and ports.facts.answers.get(port.name):
            outputs.append(_make_output(port, name, several, facts, ports.labels))
            unnamed = facts.kind == "classification" and not ports.labels
            notes[f"outputs.{i}"] = _NO_LABELS if unnamed else "As the model's own files say."
            continue
        if port.shape and port.shape[0] is None and not any_batch:  # The data decides the number of rows.
            port = replace(port, shape=None)
        ending = ports.facts.endings.get(port.name) if ports.facts else None
        scores = _are_scores(port, ending, ports)
        outputs.append(_draft_output(port, name, several, scores, ending == "LogSoftmax"))
        place = f"outputs.{i}"
        if outputs[-1].kind == "classification":
            count = (port.shape or ())[-1]
            if len(ports.labels) == count:
                outputs[-1] = replace(outputs[-1], labels=ports.labels)
            else:
                notes[place] = f'Add labels = ["...", ...] in the model\'s order, all {count} of them, or labels_file.'
            notes[f"{place}.activation"] = (
                f"The graph ends in {ending} already."
                if ending in ("Sigmoid", "Softmax")
                else "Named like raw scores, so softmax is added. Check the model's last layer."
                if outputs[-1].activation == "softmax"
                else 'Check: "softmax" (or "sigmoid") if the model ends in raw scores.'
            )
        elif outputs[-1].kind == "embedding":
            notes[f"{place}.kind"] = (
                f"Named like a vector that stands for the input; see {docs_command('answers')} for `normalise` and "
                "`format`."
            )
        elif outputs[-1].kind == "regression":
            notes[place] = "One number, so taken for a regression; a yes/no score may rather be a classification."
        elif not scores and (port.dtype in _FLOATS or port.quantised) and len(port.shape or ()) == 2:
            notes[place] = (
                f"Taken for plain numbers, as the graph ends in {ending}. For scores of classes, write "
                'kind = "classification", and activation = "softmax" if they are raw.'
            )
    return tuple(outputs)


def _make_output(port: PortInfo, name: str, several: bool, facts: AnswerFacts, labels: tuple[str, ...]) -> OutputSpec:
    """Return the output that the model's files describe."""
    if facts.kind == "detection":
        return OutputSpec("objects", port.name, facts.kind, labels, scores=facts.scores, box_format="cxcywh")
    raw = OutputSpec(port.name, port.name) if several else OutputSpec(name, None)
    top_k = min(TOP_K, len(labels) or (port.shape or ())[-1] or TOP_K) if facts.kind == "classification" else None
    return replace(raw, kind=facts.kind, labels=labels, activation=facts.activation, top_k=top_k)


def _draft_detection(ports: ModelPorts) -> OutputSpec | None:
    """Return the detection output of a model that names its outputs as TensorFlow's Object Detection API does."""
    boxes, *others = names = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
    if not {fetch.name for fetch in ports.fetches}.issuperset(names):
        return None
    scores, classes, count = others
    return OutputSpec("objects", boxes, "detection", scores=scores, classes=classes, count=count, box_format="yxyx")


def _are_scores(port: PortInfo, ending: str | None, ports: ModelPorts) -> bool:
    """Return whether an output vector has scores of classes, by its name and the op that computes it."""
    if ending == "Sigmoid":  # Autoencoders end in one, too.
        sizes = {math.prod(dim or 0 for dim in feed.shape[1:]) for feed in ports.feeds if feed.shape}
        return (port.shape or ())[-1:] not in {(size,) for size in sizes} and not _PLACES.search(port.name.lower())
    return ending in (None, "Softmax", "LogSoftmax") or "logit" in port.name.lower()


def _draft_output(port: PortInfo, name: str, several: bool, are_scores: bool, logarithms: bool) -> OutputSpec:
    raw = OutputSpec(port.name, port.name) if several else OutputSpec(name, None)
    shape = port.shape
    numbers = port.dtype in _FLOATS or port.quantised is not None
    if not numbers or shape is None or len(shape) not in (1, 2):
        return raw
    if len(shape) == 1 or shape[1] == 1:
        return replace(raw, kind="regression")
    if (classes := shape[1]) is None:
        return raw
    if re.search("embed|pool|feature", port.name.lower()):
        return replace(raw, kind="embedding")
    if not are_scores:
        return raw
    softmax = logarithms or "logit" in port.name.lower()
    return replace(raw, kind="classification", activation="softmax" if softmax else "none", top_k=min(TOP_K, classes))
