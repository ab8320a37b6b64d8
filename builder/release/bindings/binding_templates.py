"""Templates of generated packages, and the values of a model that they name.

A line of a template has ``$name`` where a value goes. A line ``%% if name`` or ``%% for name`` begins a block, which a
line ``%% end`` ends and ``%% else`` may divide: lines that are there only where the value is true, or once for each
item of a list, whose own values they may name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from builder.base.escape import escape_comment
from builder.release.bindings.describe import BindingDescription, BindingTensor, OutputHead, to_camel_case

TEMPLATES = Path(__file__).with_name("templates")
SHOWN = 8
"""Number of values that an example prints of an output that is no classification."""

_MARK = re.compile(r"%% (if|for|else|end)\b *(\w*)")


@dataclass(frozen=True)
class LanguageSyntax:
    """How a language writes what differs from model to model.

    ``types``: its words for NumPy's dtypes. ``formats``: how an example prints a number, by the first letter of its
    dtype, with that of "i" for all others. ``images``: formats of images that an example reads, after PPM and PGM.
    """

    types: Mapping[str, str]
    quote: Callable[[str], str]
    images: str
    comment: Callable[[str], str] = escape_comment
    formats: Mapping[str, str] = field(default_factory=lambda: {"i": ""})
    indent: str = "    "


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """Return ``templates/<template>.in``, filled in; raises KeyError for a name without a value."""
    lines = (TEMPLATES / f"{template}.in").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(_fill_lines(iter(lines), values))


def _fill_lines(lines: Iterator[str], values: Mapping[str, Any]) -> Iterator[str]:
    for line in lines:
        mark = _MARK.match(line)
        if mark is None:
            yield Template(line).substitute(values)
            continue
        body, otherwise = _read_block(lines)
        value = values[mark[2]]
        if mark[1] == "if":
            yield from _fill_lines(iter(body if value else otherwise), values)
        else:
            for item in value:
                yield from _fill_lines(iter(body), {**values, **item})


def _read_block(lines: Iterator[str]) -> tuple[list[str], list[str]]:
    """Read to the end of a block, and return the lines before and after its ``else``."""
    body: list[str] = []
    otherwise: list[str] = []
    part, depth = body, 1
    for line in lines:
        mark = _MARK.match(line)
        word = mark[1] if mark else ""
        depth += {"if": 1, "for": 1, "end": -1}.get(word, 0)
        if not depth:
            break
        if word == "else" and depth == 1:
            part = otherwise
        else:
            part.append(line)
    return body, otherwise


def make_values(description: BindingDescription, syntax: LanguageSyntax) -> dict[str, Any]:
    """Return the values that every language's templates may name."""
    image = description.image
    feeds = [_make_tensor_values(description, feed, syntax, index) for index, feed in enumerate(description.feeds)]
    fetches = [
        _make_tensor_values(description, fetch, syntax, index) for index, fetch in enumerate(description.fetches)
    ]
    by_id = {row["id"]: row for row in fetches}
    plain = [head for head in description.heads if head not in description.classifications]
    values = {
        "title": syntax.comment(description.title),
        "name": description.name,
        "model": description.package,
        "MODEL": description.package.upper(),
        "quoted_name": syntax.quote(description.name),
        "quoted_version": syntax.quote(description.version),
        "batch": description.batch,
        "arch": description.arch,
        "arguments": " ".join(
            "photo.ppm" if description.takes_image(feed) else feed.identifier.upper() for feed in description.feeds
        ),
        "argument_count": len(feeds) + 1,
        "feed_count": len(feeds),
        "fetch_count": len(fetches),
        "feeds": feeds,
        "fetches": fetches,
        "dynamic": [row for row in fetches if row["sized_by"]],
        "heads": [_make_head_values(head, syntax) for head in description.classifications],
        "plain": [by_id[head.fetch.identifier] | _quote_head_name(head, syntax) for head in plain],
        "picture": image,
        "grey": image is not None and image.mode == "grey",
        "or_picture": f", or a picture of {image.width}x{image.height} as binary PPM or PGM" if image else "",
        "most": SHOWN,
    }
    if image:
        values |= {"width": image.width, "height": image.height, "mode": image.mode, "channels": image.channels}
    return values


def _make_tensor_values(
    description: BindingDescription, tensor: BindingTensor, syntax: LanguageSyntax, index: int
) -> dict[str, Any]:
    spec, takes_image = tensor.spec, description.takes_image(tensor)
    return {
        "id": tensor.identifier,
        "ID": tensor.identifier.upper(),
        "Id": to_camel_case(tensor.identifier),
        "quoted": syntax.quote(spec.name),
        "about": syntax.comment(_describe_tensor(description, tensor)),
        "type": syntax.types[spec.dtype],
        "zero": "0.0" if spec.dtype.startswith("float") else "0",
        "format": syntax.formats.get(spec.dtype[0], syntax.formats["i"]),
        "shape": list(spec.shape),
        "rank": len(spec.shape),
        "dtype": spec.dtype,
        "elements": spec.elements,
        "room": max(spec.elements, 1),
        "size": spec.size,
        "sized_by": tensor.sized_by,
        "Sized_by": to_camel_case(tensor.sized_by),
        "quoted_size": syntax.quote(spec.shape_fetch or ""),
        "index": index,
        "number": index + 1,
        "image": str(takes_image).lower(),
        "is_image": int(takes_image),
        "shown": min(spec.elements, SHOWN),
        "more": " ..." if spec.elements > SHOWN and not tensor.sized_by else "",
    }


def _quote_head_name(head: OutputHead, syntax: LanguageSyntax) -> dict[str, Any]:
    return {"quoted": syntax.quote(head.name), "heading": syntax.quote(f"{head.name}:")}


def _make_head_values(head: OutputHead, syntax: LanguageSyntax) -> dict[str, Any]:
    return _quote_head_name(head, syntax) | {
        "id": head.identifier,
        "ID": head.identifier.upper(),
        "Id": to_camel_case(head.identifier),
        "about": syntax.comment(head.name),
        "quoted_about": syntax.quote(syntax.comment(head.name)),
        "labels": wrap_items([syntax.quote(label) for label in head.labels], syntax.indent),
        "fetch": head.fetch.identifier,
        "Fetch": to_camel_case(head.fetch.identifier),
        "type": syntax.types[head.fetch.spec.dtype],
        "rows": f"{head.items} row{'s' if head.items > 1 else ''} of {head.length} classes",
        "one": head.items == 1,
        "items": head.items,
        "length": head.length,
        "top": head.top,
    }


def _describe_tensor(description: BindingDescription, tensor: BindingTensor) -> str:
    """Describe a tensor as ``float32 [1, 10]``, with the model's own name where that is another one."""
    text = tensor.shape + (f", as large as {tensor.sized_by} says" if tensor.sized_by else "")
    if tensor.spec.name != tensor.identifier:
        text += f', "{tensor.spec.name}" in the model'
    if description.image and description.takes_image(tensor):
        text += f": {description.image.sentence}"
    return text


def wrap_items(items: list[str], indent: str, width: int = 116, after: str = ",") -> str:
    """Join ``items``, with ``after`` behind each, on lines of at most ``width`` columns where the items allow it."""
    lines, line = [], ""
    for item in items:
        if line and len(indent) + len(line) + len(item) + 2 > width:
            lines.append(line)
            line = ""
        line += f"{' ' if line else ''}{item}{after}"
    return "\n".join(indent + line for line in [*lines, line] if line)
