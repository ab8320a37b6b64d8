"""What an earlier build measured and decided by, for one of the same model that is to come out alike."""

from __future__ import annotations

import json
from pathlib import Path

from builder.deliver.statement import NEXT, read_plain
from builder.errors import BundleError
from builder.escape import visible
from builder.quantise.choice import Choice


def recorded_choice(folder: Path) -> Choice | None:
    """What "auto" chose for the bundle in ``folder``, by its manifest; None where its model.toml did not say "auto".

    Raises BundleError for a manifest that is none.
    """
    try:
        found = json.loads(read_plain(folder, "manifest.json")).get("auto")
        return None if found is None else Choice.of_dict(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = visible(f"{type(error).__name__}: {error}")
        raise BundleError(f"manifest.json is not a bundle's manifest ({what}). {NEXT}") from error
