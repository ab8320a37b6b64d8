"""What an earlier build measured and decided by, for one of the same model that is to come out alike."""

from __future__ import annotations

from pathlib import Path

from builder.base.json_input import parse_json
from builder.release.statement import read_plain, require_form
from builder.verify.quantise.choice import PrecisionChoice


def recorded_choice(folder: Path) -> PrecisionChoice | None:
    """What "auto" chose for the bundle in ``folder``, by its manifest; None where its model.toml did not say "auto".

    Raises BundleError for a manifest that is none.
    """
    with require_form("manifest.json", "manifest"):
        found = parse_json(read_plain(folder, "manifest.json")).get("auto")
        return None if found is None else PrecisionChoice.from_dict(found)
