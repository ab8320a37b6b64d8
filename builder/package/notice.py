"""NOTICE: the authors of all parts of a bundle, their licences, and the licences' texts."""

from __future__ import annotations

from collections.abc import Sequence

from builder.package.components import LicensedPart

_RULE = "=" * 100


def format_notice(name: str, version: str, parts: Sequence[LicensedPart]) -> str:
    """Return the text for a function that serves ``name`` and is made of ``parts``. A shared text appears once."""
    pieces = [
        f"{name} {version}: what this function is made of besides the trained model, with the licence of each part.\n"
        "The licence of the trained model is its author's to say.\n"
    ]
    pieces += [f"{_format_title(part)}\n    licence: {part.licence}\n" + _format_details(part) for part in parts]
    owners: dict[str, list[str]] = {}
    for part in parts:
        for text in part.texts:
            owners.setdefault(text.strip(), []).append(_format_title(part))
    for text, names in owners.items():
        pieces.append(f"{_RULE}\nThe licence of {', '.join(names)}:\n{_RULE}\n\n{text}\n")
    return "\n".join(pieces)


def _format_title(part: LicensedPart) -> str:
    return f"{part.name} {part.version}".strip()


def _format_details(part: LicensedPart) -> str:
    lines = [f"    compiled into {path}\n" for path in part.inside]
    return "".join([f"    {part.about}\n" if part.about else "", *lines])
