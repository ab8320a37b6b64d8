"""Escapes text from a model so that no output format interprets it: one function for each format.

Names of tensors, variables, layers and outputs may contain anything. Printed text goes through the function of the
format in which it is printed; ordinary names do not change.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable

from builder.base.errors import LowerError

_LONGEST = 2000  # Characters of one C literal; a C99 compiler must accept only 4095.
_LINKED = re.compile(r"@|#(?=\d)|GH(?=-\d)|(?i:https?|ftp):(?=//)|(?i:www)(?=\.)")
"""Marks that turn plain text into links and mentions: https://github.github.com/gfm/#autolinks-extension- and
https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/autolinked-references-and-urls."""
_HALF_REASON = 2000  # Characters; TensorFlow's reason contains the whole graph that it rejects.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def escape_invisible(text: str) -> str:
    r"""Return ``text`` on one line, with Python's escapes (``\u202e``) for invisible characters."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def escape_terminal(text: str) -> str:
    """Return lines without escape sequences and marks that change a terminal or the order of characters."""
    return re.sub(r"[^\n\t]+", lambda line: escape_invisible(line[0]), text)


def describe_error(error: object) -> str:
    """Return the text of an error on one line, without colours; of a very long one the beginning and the end."""
    text = escape_invisible(" ".join(_COLOURS.sub("", str(error)).split()))
    return text if len(text) <= 2 * _HALF_REASON else f"{text[:_HALF_REASON]} [...] {text[-_HALF_REASON:]}"


def escape_comment(text: str) -> str:
    """Return one line for a comment of C, Rust, Go or JavaScript, which cannot end or begin one or form a trigraph."""
    text = escape_invisible(" ".join(text.split()))
    for mark, apart in (("*/", "* /"), ("/*", "/ *"), ("??", "? ?")):
        while mark in text:
            text = text.replace(mark, apart)
    return text


def escape_docstring(text: str) -> str:
    """Return one line for a docstring of Python, without backslashes and quotes that could end it."""
    return escape_comment(text).replace("\\", "/").replace('"', "'")


def c_string(text: str) -> str:
    """Return ASCII string literals of C, which the compiler joins, for ``text`` as UTF-8."""
    pieces = [text[i : i + _LONGEST] for i in range(0, len(text), _LONGEST)] or [""]
    literals = (_quote_text(piece, _escape_octal, ascii_only=True) for piece in pieces)
    return "\n        ".join(re.sub(r"\?(?=\?)", '?" "', literal) for literal in literals)  # "??" begins a trigraph.


def c_literal(text: str) -> str:
    """Return one string literal of C for a person to read, with every printable character as it is."""
    return _quote_text(text, _escape_octal).replace("?", "\\?")


def c_name(text: str) -> str:
    """Return ``text``, the name of a function of XLA. Raises LowerError if it is not an identifier."""
    if not re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII):
        raise LowerError(
            f"XLA calls a function {escape_invisible(text)!r}, which is not a valid name in C; report this model."
        )
    return text


def rust_string(text: str) -> str:
    """Return a string literal of Rust."""
    return _quote_text(_replace_surrogates(text), lambda c: f"\\u{{{ord(c):x}}}", short='"\\\n\r\t')


def go_string(text: str) -> str:
    """Return a string literal of Go."""
    return _quote_text(_replace_surrogates(text), _escape_unicode)


def python_string(text: str) -> str:
    """Return a string literal of Python."""
    return _quote_text(text, _escape_unicode)


def javascript_string(text: str) -> str:
    """Return a string literal of JavaScript and TypeScript, and of JSON that is written by hand."""
    return _quote_text(text, _escape_utf16)


def toml_string(text: str) -> str:
    """Return a basic string of TOML."""
    return _quote_text(_replace_surrogates(text), lambda c: f"\\U{ord(c):08x}")


def escape_markdown(text: str) -> str:
    """Return one line for a paragraph, heading or table cell, without HTML, links, code or further cells.

    GitHub finds no address, issue or mention in it either, because a space of zero width splits them.
    """
    escaped = re.sub(r"[\\`*\[\]|~]", r"\\\g<0>", escape_html(" ".join(text.split()), quote=False))
    return _LINKED.sub(r"\g<0>&#8203;", escaped)


def escape_html(text: str, *, quote: bool = True) -> str:
    """Return the text of an element; with ``quote``, also of an attribute in quotes."""
    text = escape_invisible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&#x27;") if quote else text


def quote_shell(text: str) -> str:
    """Return one word of a command in a POSIX shell, for display, without invisible characters."""
    return shlex.quote(escape_invisible(text))


def json_line(value: object) -> str:
    """Return JSON on one line, for display."""
    return escape_invisible(json.dumps(value, ensure_ascii=False))


def _quote_text(
    text: str, other: Callable[[str], str], *, ascii_only: bool = False, short: str = "".join(_SHORT)
) -> str:
    """Return ``text`` in quotes; ``other`` escapes unprintable characters that have no escape in ``short``."""
    return '"' + "".join(_escape_character(c, other, ascii_only, short) for c in text) + '"'


def _escape_character(c: str, other: Callable[[str], str], ascii_only: bool, short: str) -> str:
    if c in short:
        return _SHORT[c]
    return c if c.isprintable() and (c.isascii() or not ascii_only) else other(c)


def _replace_surrogates(text: str) -> str:
    """Return ``text`` with U+FFFD for each half of a surrogate pair, which these languages cannot write."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _escape_octal(c: str) -> str:
    """Return UTF-8 as three octal digits per byte, so that following digits cannot join them."""
    return "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "replace"))


def _escape_unicode(c: str) -> str:
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


def _escape_utf16(c: str) -> str:
    units = c.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
