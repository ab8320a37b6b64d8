"""Choices that an earlier build measured, for another build of the same model that has to come out alike."""

from __future__ import annotations

from pathlib import Path

from builder.base.records import parse_json
from builder.release.statement import read_plain, require_form
from builder.verify.quantise.precision import PrecisionChoice


def recorded_choice(folder: Path) -> PrecisionChoice | None:
    """Return what "auto" chose for the bundle in ``folder``; None where its model.toml did not say "auto".

    Raises BundleError for an invalid manifest.
    """
    with require_form("manifest.json", "manifest"):
        choice = parse_json(read_plain(folder, "manifest.json")).get("auto")
        return None if choice is None else PrecisionChoice.from_dict(choice)
