"""Tables of ``docs/errors.md`` from the catalogues of errors: ``python -m builder.cli.errors_page`` writes them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from builder.base.documentation import fill_blocks
from builder.base.errors import INTERRUPTED, PIPE_CLOSED, ColdforgeError
from builder.base.files import write_file
from builder.base.project import HOME
from handler.errors import HandlerError

PAGE = HOME / "docs" / "errors.md"


def format_errors_page() -> str:
    """Return the whole page as Markdown."""
    codes = "| code | status | again | |\n|---|---|---|---|\n" + "".join(map(_format_row, _list_errors()))
    exits = "| exit code | |\n|---|---|\n" + "".join(_format_exit_codes())
    return fill_blocks(PAGE, codes=codes, exits=exits)


def _list_errors() -> Iterator[tuple[int, str, bool, str]]:
    """Yield (status, code, whether to try again, meaning) of each error, by status."""
    rows = [(e.status, e.code, e.retryable, inspect.getdoc(e) or "") for e in HandlerError.__subclasses__()]
    failed = "The function failed, not the request. The message names the request's id; the log has more under that id."
    yield from sorted([*rows, (500, "internal", True, failed)])


def _format_exit_codes() -> Iterator[str]:
    """Yield a row for each exit code that a program may want to distinguish."""
    for error in sorted(ColdforgeError.__subclasses__(), key=lambda error: error.exit_code):
        yield f"| {error.exit_code} | {' '.join((inspect.getdoc(error) or '').replace('``', '`').split())} |\n"
    yield f"| {INTERRUPTED} | Ctrl-C ended the command. |\n"
    yield f"| {PIPE_CLOSED} | Whoever read the result stopped, as `head` does. |\n"


def _format_row(error: tuple[int, str, bool, str]) -> str:
    status, code, retryable, meaning = error
    return f"| `{code}` | {status} | {'yes' if retryable else ''} | {' '.join(meaning.split())} |\n"


if __name__ == "__main__":
    write_file(PAGE, format_errors_page())
