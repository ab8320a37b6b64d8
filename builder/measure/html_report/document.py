"""One self-contained page: its style and scripts are inside, and its policy permits them by their hashes alone."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.base.escape import escape_html
from builder.measure.diff.bundle_difference import BundleDifference
from builder.measure.diff.diff_markdown import DiffTable, format_summary, make_tables

PARTS = Path(__file__).parent
"""Folder of the stylesheet, the scripts and the markup that pages are made of."""


def format_document(title: str, body: str, *, data: object = None, scripts: Sequence[str] = ()) -> str:
    """Return the page of the markup ``body``; ``data``: JSON for the scripts; ``scripts``: names of files in PARTS."""
    style = _read_page_part("page.css")
    script = "\n".join(_read_page_part(name) for name in scripts)
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {_hash_source(style)}"
    policy += f"; script-src {_hash_source(script)}" if script else ""
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


def _read_page_part(name: str) -> str:
    """Return the text of a file in PARTS."""
    return (PARTS / name).read_text(encoding="utf-8")


def inline_json(data: object) -> str:
    """Return JSON that no parser of HTML takes for markup: ASCII, with ``<`` escaped."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash_source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


SCRIPTS = ("base.js", "steps.js", "graph.js", "pictures.js")


def report_page(data: Mapping[str, Any]) -> str:
    """Return the page's HTML for ``data``, which ``gather_report`` returns."""
    title = f"{data['model']['name']} {data['model']['version']}"
    return format_document(
        title, _read_page_part("report.html").replace("@TITLE@", escape_html(title)), data=data, scripts=SCRIPTS
    )


def diff_page(difference: BundleDifference) -> str:
    """Return the page's HTML."""
    title, summary = f"{difference.before} → {difference.after}", escape_html(format_summary(difference))
    parts = [f"<header><h1>{escape_html(title)}</h1><p>{summary}</p></header>", "<main>"]
    parts += [_format_section(table) for table in make_tables(difference)]
    return format_document(title, "\n".join([*parts, "</main>"]))


def _format_section(table: DiffTable) -> str:
    aligned = [' class="n"' if column in table.right else "" for column in range(len(table.headers))]
    heads = "".join(
        f'<th scope="col"{a}>{escape_html(head)}</th>' for a, head in zip(aligned, table.headers, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(f"<td{a}>{escape_html(cell)}</td>" for a, cell in zip(aligned, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    title = escape_html(table.title)
    return (
        f'<section><h2>{title}</h2><div class="wide" tabindex="0" role="region" aria-label="{title}"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table></div></section>"
    )
