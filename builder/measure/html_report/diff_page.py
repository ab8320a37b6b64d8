"""Difference of two bundles as a page of HTML."""

from __future__ import annotations

from builder.base.escape import escape_html
from builder.measure.diff.bundle_difference import BundleDifference
from builder.measure.diff.diff_markdown import DiffTable, format_summary, make_tables
from builder.measure.html_report.document import format_document


def diff_page(found: BundleDifference) -> str:
    """Return the page's HTML."""
    title = f"{found.before} → {found.after}"
    parts = [f"<header><h1>{escape_html(title)}</h1><p>{escape_html(format_summary(found))}</p></header>", "<main>"]
    parts += [_format_section(table) for table in make_tables(found)]
    return format_document(title, "\n".join([*parts, "</main>"]))


def _format_section(table: DiffTable) -> str:
    heads = "".join(
        f'<th scope="col"{_format_alignment(table, i)}>{escape_html(head)}</th>' for i, head in enumerate(table.headers)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(f"<td{_format_alignment(table, i)}>{escape_html(cell)}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for row in table.rows
    )
    title = escape_html(table.title)
    return (
        f'<section><h2>{title}</h2><div class="wide" tabindex="0" role="region" aria-label="{title}"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table></div></section>"
    )


def _format_alignment(table: DiffTable, column: int) -> str:
    return ' class="n"' if column in table.right else ""
