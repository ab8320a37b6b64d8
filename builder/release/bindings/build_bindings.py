"""Bindings of a bundled model: find the parts, make libmodel.a where it is wanted, and write the package."""

from __future__ import annotations

from pathlib import Path

from builder.base.errors import UsageError
from builder.base.escape import escape_markdown
from builder.package.bundle import find_bundle
from builder.pipeline.workspace import Workspace
from builder.release.bindings.binding_files import BindingSources, write_package_files
from builder.release.bindings.binding_templates import fill_template, make_values
from builder.release.bindings.describe import BindingDescription, parse_description
from builder.release.bindings.language_packages import LANGUAGES, STATIC, SYNTAX, name_go_package


def build_bindings(
    ws: Workspace,
    language: str,
    *,
    static: bool = False,
    out: Path | None = None,
    named: str = "",
) -> Path:
    """Write the package and return its folder, ``out`` or ``dist/bindings/<bundle>/<language>``.

    ``static``: whether it includes libmodel.a, for which a missing bundle is built. ``named``: the name that a person
    gives the model. Raises UsageError where there is no bundle, and as ``generate_binding`` and ``build_archive`` do.
    """
    archive = None
    if static:
        from builder.pipeline import build_bundle  # This import needs a build's packages.

        if language not in STATIC:
            raise UsageError(f"--static is for {', '.join(STATIC)}: {language} loads the model at run time.")
        archive = build_bundle.build_archive(ws, build_bundle.build_bundle(ws).library)
    bundle = find_bundle(ws.project.dist, ws.spec.name, ws.target, named)
    wasm = ws.project.dist / ws.spec.name / "wasm"
    modules = wasm if (wasm / "manifest.json").is_file() else None
    folder = out or ws.project.dist / "bindings" / bundle.folder.name / language
    generate_binding(
        language,
        BindingSources(bundle.description, bundle.header, bundle.library, bundle.notice, archive, modules),
        folder,
    )
    return folder


def generate_binding(language: str, parts: BindingSources, folder: Path) -> BindingDescription:
    """Write the package for ``language`` to ``folder`` and return the description that it was made from.

    Raises UsageError for an unknown language, for one that lacks a part, and for a folder that holds other files.
    """
    if language not in LANGUAGES:
        raise UsageError(f"there are no bindings for {language!r}: {', '.join(LANGUAGES)}.")
    description = parse_description(parts.description.read_text(encoding="utf-8"))
    files = {
        **LANGUAGES[language](description, parts),
        "README.md": _format_readme(language, description),
        "NOTICE": parts.notice,
    }
    write_package_files(files, folder, language, description)
    return description


def _format_readme(language: str, description: BindingDescription) -> str:
    image, feeds, syntax = description.image, description.feeds, SYNTAX[language]
    files = [
        f"the raw bytes of {escape_markdown(feed.spec.name)} ({feed.shape})"
        for feed in feeds
        if not description.takes_image(feed)
    ]
    if image:
        files.insert(0, f"a picture of {image.width}×{image.height}, binary PPM or PGM ({image.mode}){syntax.images}")
    if language == "node":
        example = ", ".join(f"{syntax.quote(feed.spec.name)}: ..." for feed in feeds)
    else:
        example = ", ".join(f"{feed.identifier}=..." for feed in feeds)
    values = make_values(description, syntax) | name_go_package(description)
    values |= {"title": escape_markdown(description.title), "reads": " and ".join(files), "doc_feeds": example}
    return fill_template(f"{language}/README.md", values)
