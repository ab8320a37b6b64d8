"""What the keys of one [[outputs]] must agree on."""

from __future__ import annotations

from collections.abc import Mapping

from builder.config.model_spec import BEGINNINGS, FORMATS, OutputKind
from builder.config.toml_tables import Table
from builder.config.value_types import quoted

_KINDS: Mapping[str, tuple[OutputKind, ...]] = {
    "fetch": ("raw", "classification", "regression", "embedding", "label", "segmentation", "tokens"),
    "labels": ("classification", "detection", "label", "segmentation", "tokens"),
    "labels_file": ("classification", "detection", "label", "segmentation", "tokens"),
    "top_k": ("classification", "detection"),
    "boxes": ("detection",),
    "scores": ("detection",),
    "classes": ("detection",),
    "count": ("detection",),
    "box_format": ("detection",),
    "box_units": ("detection",),
    "threshold": ("detection",),
    "format": tuple(FORMATS),
    "dimensions": ("embedding",),
    "normalise": ("embedding",),
    "join": ("tokens",),
    "ignore": ("tokens",),
}
"""Which kinds have a key that not all have, the most usual first."""

COMPILED = ("activation", "dimensions", "normalise")
"""What is compiled into the graph behind a fetch, of which it has one."""


FETCHES = ("fetch", "boxes", "scores", "classes", "count")
"""Keys that name a fetch."""


def activated(output: Table) -> str | None:
    """The fetch that the keys in COMPILED are for; None for the only one."""
    fetch: str | None = output.values.get("scores" if output.get("kind") == "detection" else "fetch")
    return fetch


def check_output(output: Table, image: bool, text: bool) -> None:
    """Note what is wrong with ``output`` on its own; ``image``, ``text``: whether the model takes pictures or texts."""
    kind = output.get("kind")
    labelled = output.present & {"labels", "labels_file"}
    if len(labelled) == 2:
        output.wrong("labels_file", "cannot be used together with labels; keep one of them")
    for key, kinds in _KINDS.items():
        if key in output.present and kind and kind not in kinds:
            right = f'delete it, or write kind = "{kinds[0]}" instead of "{kind}"'
            has = f'a "{kind}" has none' if key == "fetch" else f"only {_listed(kinds)} has one"
            output.wrong(key, f"{has}; {right}")
    _format(output, kind)
    if kind == "detection":
        _detection(output, image)
    if kind == "segmentation" and not image:
        output.wrong("kind", "a segmentation is of a picture's pixels, and the model takes none; add [image]")
    if kind == "tokens" and not text:
        output.wrong("kind", "labels of words are of a text, and the model takes none; add [text]")
    if kind in ("label", "tokens") and not labelled:
        output.wrong("kind", f'"{kind}" is without labels; name them: labels, or labels_file')
    if kind == "label" and output.values.get("activation", "none") != "none":
        output.wrong("activation", 'a class\'s number has none; write "none", or kind = "classification"')
    if kind == "tokens":
        _tokens(output)
    labels = output.values.get("labels")
    activation = output.get("activation")
    if kind in ("regression", "embedding") and activation == "softmax":
        right = 'use "none" or "sigmoid", or kind = "classification"'
        output.wrong("activation", f"softmax makes class probabilities; {right}")
    if labels and len(labels) == 1 and activation == "softmax":
        key = "labels" if "labels" in output.present else "labels_file"
        output.wrong(key, 'is one label, and softmax over one class is always 1; name every class, or use "sigmoid"')
    top_k = output.values.get("top_k")
    if labels and top_k and top_k > len(labels) and kind == "classification":
        output.wrong("top_k", f"is {top_k}, but there are {len(labels)} labels; use at most {len(labels)}")


def _format(output: Table, kind: OutputKind | None) -> None:
    written, possible = output.values.get("format"), FORMATS.get(kind, ()) if kind else ()
    if written and possible and written not in possible:
        output.wrong("format", f'"{written}" is no format of kind = "{kind}"; use one of {quoted(possible)}')


def _detection(output: Table, image: bool) -> None:
    for key in ("boxes", "scores", "box_format"):
        if key not in output.present:
            output.wrong(key, f"is missing; a detection needs it: {output.section.field(key).kind.says}")
    if not image:
        output.wrong("kind", "boxes are places in a picture, and the model takes none; add [image]")
    if output.get("activation") == "softmax" and "classes" in output.present:
        output.wrong("activation", 'softmax is over a score for each class, and classes tell them; use "sigmoid"')


def _tokens(output: Table) -> None:
    labels, ignored = output.values.get("labels") or (), output.values.get("ignore") or ()
    answered = labels
    if output.values.get("join", any(label.startswith(BEGINNINGS) for label in labels)):
        answered = tuple(dict.fromkeys(label[2:] if label.startswith(BEGINNINGS) else label for label in labels))
    if unknown := [label for label in ignored if labels and label not in answered]:
        output.wrong("ignore", f'"{unknown[0]}" is none of the labels; use some of {quoted(answered)}')


def _listed(kinds: tuple[OutputKind, ...]) -> str:
    *most, last = (f"{'an ' if kind[0] == 'e' else '' if kind == 'tokens' else 'a '}{kind}" for kind in kinds)
    return f"{', '.join(most)} or {last}" if most else last
