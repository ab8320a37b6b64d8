"""One self-contained page: its style and scripts are inside, and its policy permits them by their hashes alone."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from builder.base.escape import escape_html

PARTS = Path(__file__).parent
"""Folder of the stylesheet, the scripts and the markup that pages are made of."""


def format_document(title: str, body: str, *, data: object = None, scripts: Sequence[str] = ()) -> str:
    """Return the page of the markup ``body``; ``data``: JSON for the scripts; ``scripts``: names of files in PARTS."""
    style = read_page_part("page.css")
    script = "\n".join(read_page_part(name) for name in scripts)
    policy = "; ".join(
        [
            "default-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            f"style-src {_hash_source(style)}",
            *([f"script-src {_hash_source(script)}"] if script else []),
        ]
    )
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape_html(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape_html(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        body,
    ]
    if data is not None:
        lines.append(f'<script type="application/json" id="data">{inline_json(data)}</script>')
    if script:
        lines.append(f"<script>{script}</script>")
    return "\n".join([*lines, "</body>", "</html>", ""])


def read_page_part(name: str) -> str:
    """Return the text of a file in PARTS."""
    return (PARTS / name).read_text(encoding="utf-8")


def inline_json(data: object) -> str:
    """Return JSON that no parser of HTML takes for markup: ASCII, with ``<`` escaped."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash_source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
