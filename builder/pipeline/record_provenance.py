"""The provenance statement next to a bundle, about its inputs, its tools and the place of its build."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import builder
from builder.base.cache import content_digest
from builder.config import Source
from builder.package.components import LicensedPart
from builder.package.dependencies import read_lock
from builder.package.provenance import BASE, BUILD_TYPE, CHECKOUT, Material, statement_json
from builder.pipeline.build_inputs import list_named_files
from builder.pipeline.fallbacks import VerifiedLibrary
from builder.pipeline.workspace import Workspace
from builder.sources import fetched_digest

TOOLS = {"tensorflow-cpu": "tensorflow", "ziglang": "zig"}
"""The packages that make the library, with the names that the manifest has for their versions."""


def make_bundle_statement(ws: Workspace, library: VerifiedLibrary, folder: Path, parts: Sequence[LicensedPart]) -> str:
    """Return the statement of the bundle in ``folder``; ``parts`` are those of its bill of materials."""
    internal: dict[str, object] = {"xla_flags": library.compiled.first.kernels.flags}
    return statement_json(
        folder,
        build_type=BUILD_TYPE,
        external={"model": _find_relative_path(ws), "target": ws.target.name, "package": ws.spec.packaging},
        internal=internal,
        materials=[*_list_materials(ws, library, parts)],
        builder="coldforge:container" if os.environ.get(BASE) else "coldforge:host",
        versions=library.versions,
    )


def _find_relative_path(ws: Workspace) -> str:
    """Return model.toml's path in the checkout, or its name alone, and never an absolute path."""
    path, root = ws.spec.path.resolve(), Path(os.environ.get(CHECKOUT) or ws.project.root.resolve())
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _list_materials(ws: Workspace, library: VerifiedLibrary, parts: Sequence[LicensedPart]) -> Iterator[Material]:
    source, project = ws.spec.source, ws.project
    for name, path in list_named_files(ws.spec):
        yield Material(name, content_digest(path))
    yield from list_model_materials(source, library.compiled.path, ws.cache)
    for name, folder in (
        ("coldforge/builder", Path(builder.__file__).parent),
        ("coldforge/handler", project.function),
        ("coldforge/layers/dependencies", project.dependencies),
    ):
        if folder.is_dir():
            yield Material(name, content_digest(folder))
    yield from _list_package_materials(project.lock, library.versions)
    for part in parts:
        if part.wheel:
            yield Material(part.wheel.file, {"sha256": part.wheel.sha256}, f"{part.purl}?file_name={part.wheel.file}")
    if base := os.environ.get(BASE):
        name, _, digest = base.partition("@sha256:")
        yield Material("base image", {"sha256": digest} if digest else {}, f"docker://{name}")


def list_model_materials(source: Source, path: Path, cache: Path) -> Iterator[Material]:
    """Yield the model at ``path``, after the archive that contained it, each with its address, without secrets."""
    uri = f"pkg:pypi/{source.package.replace('==', '@')}#{source.file}" if source.package else ""
    if source.address:
        uri = source.address.shown
    if source.archived:
        yield Material("archive of the trained model", fetched_digest(source, cache), uri)
        uri = ""
    yield Material(f"trained model {path.name}", content_digest(path), uri)


def _list_package_materials(lock: Path, versions: Mapping[str, str]) -> Iterator[Material]:
    """Yield the lock of the build's own packages, and those of them that make the library."""
    locked = {}
    if lock.is_file():
        yield Material("requirements/build.txt", content_digest(lock))
        locked = {package.name: package for package in read_lock(lock)}
    for name, key in TOOLS.items():
        package = locked.get(name)
        # The lock has a hash for each platform's wheel, and pip accepts only those; the installed one is unknown.
        hashes = {"locked_sha256": list(package.hashes)} if package and package.version == versions[key] else {}
        yield Material(name, uri=f"pkg:pypi/{name}@{versions[key]}", notes=hashes)
