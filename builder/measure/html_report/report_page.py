"""A model's report as one page of HTML: the data as JSON, and the scripts that draw it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.base.escape import escape_html
from builder.measure.html_report.document import format_document, read_page_part

SCRIPTS = ("base.js", "steps.js", "graph.js", "pictures.js")


def report_page(data: Mapping[str, Any]) -> str:
    """Return the page's HTML for ``data``, which ``gather_report`` returns."""
    title = f"{data['model']['name']} {data['model']['version']}"
    return format_document(
        title, read_page_part("report.html").replace("@TITLE@", escape_html(title)), data=data, scripts=SCRIPTS
    )
