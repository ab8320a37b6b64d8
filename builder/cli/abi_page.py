"""Declarations of the C ABI in ``docs/abi.md``, from its header: ``python -m builder.cli.abi_page`` writes them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from builder.base.documentation import fill_blocks
from builder.base.files import write_file
from builder.base.project import HOME, RUNTIME

HEADER = RUNTIME / "abi" / "model.h"
PAGE = HOME / "docs" / "abi.md"

_COMMENT = re.compile(r"\A/\*(.*?)\*/\n?", re.DOTALL)


def format_abi_page() -> str:
    """Return the whole page as Markdown."""
    return fill_blocks(PAGE, header="\n".join(_format_sections(HEADER.read_text(encoding="utf-8"))))


def _format_sections(header: str) -> Iterator[str]:
    """Yield a section for each group of adjacent declarations, with the comment before them."""
    top = _COMMENT.match(header)
    assert top
    yield _format_prose(top[1])
    body = header[header.index("#define CF_ABI_VERSION") : header.index("/*@FLAT@*/")]
    for chunk in re.split(r"\n{2,}", body.strip()):
        comment = _COMMENT.match(chunk)
        code = chunk[comment.end() :] if comment else chunk
        if names := _find_declared_names(code):
            yield f"## {', '.join(names)}\n"
        if comment:
            yield _format_prose(comment[1])
        if code.strip():
            yield f"```c\n{code.strip()}\n```\n"


def _find_declared_names(code: str) -> list[str]:
    """Return the names that ``code`` declares."""
    macros = re.findall(r"^#define (\w+)", code, re.MULTILINE)
    types = re.findall(r"(?:^typedef .*|^\} )\b(cf_\w+);", code, re.MULTILINE)
    return [*macros, *types, *re.findall(r"\b(cf_\w+)\(", code)]


def _format_prose(comment: str) -> str:
    """Return the text of a comment as paragraphs of Markdown."""
    text = re.sub(r"^ ?\*? ?", "", comment.strip(), flags=re.MULTILINE)
    text = re.sub(r"(?<!`)(\*\w+|\bcf_\w+|\bCF_\w+|\bNULL)\b(?!`)", r"`\1`", text)
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return "\n\n".join(textwrap.fill(p, 120, break_long_words=False) for p in paragraphs) + "\n"


if __name__ == "__main__":
    write_file(PAGE, format_abi_page())
