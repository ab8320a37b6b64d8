"""``docs/abi.md``, generated from the header of the C ABI: ``python -m builder.cli.abi_page``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from builder.base.files import write_file
from builder.base.project import HOME, RUNTIME

HEADER = RUNTIME / "abi" / "model.h"
PAGE = HOME / "docs" / "abi.md"

_COMMENT = re.compile(r"\A/\*(.*?)\*/\n?", re.DOTALL)

_HEAD = """\
# The C ABI

<!-- Made by `python -m builder.cli.abi_page` from builder/runtime/abi/model.h; edit that. -->

"""

_RUN = """\
## run

Each model's own `model.h` declares one more function, `run`. It opens the model once for the process, and takes each
input and output as a pointer and its size in bytes. For the digits example:

```c
int run(const uint8_t *feed_image, size_t feed_image_size,
        float *fetch_logits, size_t fetch_logits_size);
```

The header also defines the sizes: `CF_FEED_IMAGE_SIZE`, `CF_FETCH_LOGITS_SIZE`. So this is a whole inference:

```c
uint8_t image[CF_FEED_IMAGE_SIZE];
float logits[CF_FETCH_LOGITS_SIZE / sizeof(float)];
int status = run(image, sizeof image, logits, sizeof logits);
```

[targets.md](targets.md#versions-and-what-they-promise) says what the ABI promises, and [bindings.md](bindings.md) has
packages for other languages.
"""


def format_abi_page() -> str:
    """Return the whole page as Markdown."""
    return _HEAD + "\n".join(_format_sections(HEADER.read_text(encoding="utf-8"))) + "\n" + _RUN


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
