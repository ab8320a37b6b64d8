"""What commands print with --json, read as docs/results.schema.json describes it."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from builder.cli.results import RESULTS


def printed(command: str, text: str) -> Any:
    """The result of ``command`` in ``text``. Raises ValidationError where it is not as its schema says."""
    found = json.loads(text)
    Draft202012Validator(RESULTS[command]).validate(found)
    return found
