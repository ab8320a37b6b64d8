"""Packages for other languages, generated from a bundle, one per model and language: `coldforge bindings` writes them.

Each language is a module here with ``files(description, parts)``, and its templates are in ``templates/<language>``.
"""

from __future__ import annotations

from pathlib import Path

from builder.base.errors import UsageError
from builder.base.escape import escape_markdown, javascript_string
from builder.release.bindings import c_package, go_package, node_package, python_package, rust_package
from builder.release.bindings.binding_files import (
    BindingSources,
    Files,
    fill_template,
    format_usage,
    write_package_files,
)
from builder.release.bindings.describe import BindingDescription, parse_description

LANGUAGES = {
    "c": c_package.make_c_files,
    "rust": rust_package.make_rust_files,
    "go": go_package.make_go_files,
    "node": node_package.make_node_files,
    "python": python_package.make_python_files,
}

STATIC = ("c", "rust", "go")
"""Languages whose programs can link the library statically."""


def generate_binding(language: str, parts: BindingSources, folder: Path) -> BindingDescription:
    """Write the package for ``language`` to ``folder`` and return the description that it was made from.

    Raises UsageError for an unknown language, for one that lacks a part, and for a folder that holds other files.
    """
    if language not in LANGUAGES:
        raise UsageError(f"there are no bindings for {language!r}: {', '.join(LANGUAGES)}.")
    description = parse_description(parts.description.read_text(encoding="utf-8"))
    files = {
        **LANGUAGES[language](description, parts),
        "README.md": format_readme(language, description),
        "NOTICE": parts.notice,
    }
    write_package_files(files, folder, language, description)
    return description


def format_readme(language: str, description: BindingDescription) -> str:
    picture = description.picture
    files = " and ".join(f"the raw bytes of {escape_markdown(f.spec.name)} ({f.shape})" for f in description.feeds)
    if picture:
        photo = f"a picture of {picture.width}×{picture.height}, binary PPM or PGM ({picture.mode}){_DECODED[language]}"
        plain = [f for f in description.feeds if not description.takes_image(f)]
        files = " and ".join([photo, *(f"the raw bytes of {escape_markdown(f.spec.name)} ({f.shape})" for f in plain)])
    feeds = description.feeds
    example = {
        "python": ", ".join(f"{f.identifier}=..." for f in feeds),
        "node": ", ".join(f"{javascript_string(f.spec.name)}: ..." for f in feeds),
    }
    return fill_template(
        f"{language}/README.md",
        title=escape_markdown(description.title),
        name=description.name,
        model=description.package,
        package=go_package.package_name(description),
        module=go_package.module_path(description),
        arch=description.arch,
        arguments=format_usage(description),
        reads=files,
        doc_feeds=example.get(language, ""),
        pictures=_PICTURES if picture else "",
    )


_DECODED = {
    "c": ", or JPEG or PNG where `make` finds libjpeg and libpng by pkg-config",
    "rust": ", or JPEG or PNG in `pictures/`",
    "go": ", JPEG or PNG",
    "node": ", or JPEG or PNG after `npm install sharp`",
    "python": ", or whatever Pillow reads, where it is installed",
}
"""Image formats that an example also accepts; the model's package needs nothing for them."""

_PICTURES = """ That is the same example as a crate of its
own, which has a decoder (the crate image):

```console
$ cargo run --release --manifest-path pictures/Cargo.toml -- photo.jpg
```"""


__all__ = ["LANGUAGES", "STATIC", "BindingSources", "Files", "generate_binding", "parse_description"]
