"""The rules on which the keys of one [[outputs]] must agree."""

from __future__ import annotations

from collections.abc import Mapping

from builder.config.schema import BEGINNINGS, FORMATS, OutputKind
from builder.config.toml_tables import SpecTable
from builder.config.value_types import quote_options

_LABELLED: tuple[OutputKind, ...] = ("classification", "detection", "label", "segmentation", "tokens")
_KINDS: Mapping[str, tuple[OutputKind, ...]] = {
    "fetch": ("raw", "classification", "regression", "embedding", "label", "segmentation", "tokens"),
    "labels": _LABELLED,
    "labels_file": _LABELLED,
    "top_k": ("classification", "detection"),
    "format": tuple(FORMATS),
    **dict.fromkeys(("boxes", "scores", "classes", "count", "box_format", "box_units", "threshold"), ("detection",)),
    **dict.fromkeys(("dimensions", "normalise"), ("embedding",)),
    **dict.fromkeys(("join", "ignore"), ("tokens",)),
}
"""Kinds of keys that only some kinds have, the most usual first."""

COMPILED = ("activation", "dimensions", "normalise")
"""The keys that are compiled into the graph after a fetch, once for each fetch."""


FETCHES = ("fetch", "boxes", "scores", "classes", "count")
"""Keys that name a fetch."""


def find_activated_fetch(output: SpecTable) -> str | None:
    """Return the fetch to which the keys in COMPILED apply; None for the only one."""
    fetch: str | None = output.values.get("scores" if output.get("kind") == "detection" else "fetch")
    return fetch


def check_output(output: SpecTable, image: bool, text: bool) -> None:
    """Note mistakes of ``output`` on its own; ``image``, ``text``: whether the model takes images or texts."""
    kind = output.get("kind")
    labelled = output.present & {"labels", "labels_file"}
    if len(labelled) == 2:
        output.note_mistake("labels_file", "cannot be used together with labels; keep one of them")
    for key, kinds in _KINDS.items():
        if key in output.present and kind and kind not in kinds:
            right = f'delete it, or write kind = "{kinds[0]}" instead of "{kind}"'
            has = f'a "{kind}" has none' if key == "fetch" else f"only {_format_kinds(kinds)} has one"
            output.note_mistake(key, f"{has}; {right}")
    _check_format(output, kind)
    if kind == "detection":
        _check_detection(output, image)
    if kind == "segmentation" and not image:
        output.note_mistake("kind", "a segmentation is of an image's pixels, and the model takes none; add [image]")
    if kind == "tokens" and not text:
        output.note_mistake("kind", "labels of words are of a text, and the model takes none; add [text]")
    if kind in ("label", "tokens") and not labelled:
        output.note_mistake("kind", f'"{kind}" is without labels; name them: labels, or labels_file')
    if kind == "label" and output.values.get("activation", "none") != "none":
        output.note_mistake("activation", 'a class\'s number has none; write "none", or kind = "classification"')
    if kind == "tokens":
        _check_tokens(output)
    labels = output.values.get("labels")
    activation = output.get("activation")
    if kind in ("regression", "embedding") and activation == "softmax":
        right = 'use "none" or "sigmoid", or kind = "classification"'
        output.note_mistake("activation", f"softmax makes class probabilities; {right}")
    if labels and len(labels) == 1 and activation == "softmax":
        key = "labels" if "labels" in output.present else "labels_file"
        output.note_mistake(
            key, 'is one label, and softmax over one class is always 1; name every class, or use "sigmoid"'
        )
    top_k = output.values.get("top_k")
    if labels and top_k and top_k > len(labels) and kind == "classification":
        output.note_mistake("top_k", f"is {top_k}, but there are {len(labels)} labels; use at most {len(labels)}")


def _check_format(output: SpecTable, kind: OutputKind | None) -> None:
    written, possible = output.values.get("format"), FORMATS.get(kind, ()) if kind else ()
    if written and possible and written not in possible:
        output.note_mistake(
            "format", f'"{written}" is no format of kind = "{kind}"; use one of {quote_options(possible)}'
        )


def _check_detection(output: SpecTable, image: bool) -> None:
    for key in ("boxes", "scores", "box_format"):
        if key not in output.present:
            output.note_mistake(key, f"is missing; a detection needs it: {output.section.keys[key].kind.says}")
    if not image:
        output.note_mistake("kind", "boxes are places in an image, and the model takes none; add [image]")
    if output.get("activation") == "softmax" and "classes" in output.present:
        output.note_mistake(
            "activation", 'softmax is over a score for each class, and classes tell them; use "sigmoid"'
        )


def _check_tokens(output: SpecTable) -> None:
    labels, ignored = output.values.get("labels") or (), output.values.get("ignore") or ()
    answered = labels
    if output.values.get("join", any(label.startswith(BEGINNINGS) for label in labels)):
        answered = tuple(dict.fromkeys(label[2:] if label.startswith(BEGINNINGS) else label for label in labels))
    if unknown := [label for label in ignored if labels and label not in answered]:
        output.note_mistake("ignore", f'"{unknown[0]}" is none of the labels; use some of {quote_options(answered)}')


def _format_kinds(kinds: tuple[OutputKind, ...]) -> str:
    *most, last = (f"{'an ' if kind[0] == 'e' else '' if kind == 'tokens' else 'a '}{kind}" for kind in kinds)
    return f"{', '.join(most)} or {last}" if most else last
