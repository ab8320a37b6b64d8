"""The difference of two bundles as a page."""

from __future__ import annotations

from builder.base.escape import html
from builder.measure.diff.bundle_difference import Difference
from builder.measure.diff.diff_markdown import Table, summary, tables
from builder.measure.html_report.document import document


def diff_page(found: Difference) -> str:
    """The page's HTML."""
    title = f"{found.before} → {found.after}"
    parts = [f"<header><h1>{html(title)}</h1><p>{html(summary(found))}</p></header>", "<main>"]
    parts += [_section(table) for table in tables(found)]
    return document(title, "\n".join([*parts, "</main>"]))


def _section(table: Table) -> str:
    heads = "".join(f'<th scope="col"{_right(table, i)}>{html(head)}</th>' for i, head in enumerate(table.headers))
    rows = "\n".join(
        "<tr>" + "".join(f"<td{_right(table, i)}>{html(cell)}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    title = html(table.title)
    return (
        f'<section><h2>{title}</h2><div class="wide" tabindex="0" role="region" aria-label="{title}"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table></div></section>"
    )


def _right(table: Table, column: int) -> str:
    return ' class="n"' if column in table.right else ""
