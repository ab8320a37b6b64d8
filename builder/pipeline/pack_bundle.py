"""Packing: layer, zip, manifest and bill of materials, checked against Lambda's limits."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import builder
from builder.base.cache import code_digest, compute_digest, content_digest, place_file, run_cached
from builder.base.files import replace_folder
from builder.compiler.audit import require_portable as require_audit
from builder.config import ModelSpec, Source
from builder.importers.onnx_data import list_source_files
from builder.importers.strings.string_ops import join_recipes
from builder.importers.text import needs_package, prepare_tokenizer
from builder.package.bundle import LAYER_MANIFEST, LIBRARY, Bundle
from builder.package.components import LAYERS, LicensedPart, function_part, library_parts, list_shipped_files
from builder.package.dependencies import dependencies_folder, read_lock
from builder.package.lambda_limits import Component, make_size_table, require_sizes
from builder.package.layer import files_of, measure_zip, source_date_epoch, write_readable, write_zip
from builder.package.manifest import FileEntry, Manifest, source_entry
from builder.package.openapi import write_openapi
from builder.package.provenance import BASE, BUILD_TYPE, CHECKOUT, Material, statement_json
from builder.package.sbom import format_notice, sbom_json
from builder.package.tokenizers_library import PLACE, fetch_tokenizers, tokenizers_parts
from builder.package.wheels import wheel_parts
from builder.pipeline.compile_graph import CompiledModel
from builder.pipeline.fallbacks import VerifiedLibrary
from builder.pipeline.workspace import Workspace
from builder.sources import fetched_digest, list_named_files
from builder.verify.verification import require_passed as require_verification

_TOOLS = {"tensorflow-cpu": "tensorflow", "ziglang": "zig"}
"""The packages that make the library, with the names that the manifest has for their versions."""


def _make_bundle_statement(ws: Workspace, library: VerifiedLibrary, folder: Path, parts: Sequence[LicensedPart]) -> str:
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
    model, *data = list_source_files(source, path)
    yield Material(f"trained model {model.name}", content_digest(model), uri)
    for file in data:
        yield Material(f"weights {file.name}", content_digest(file))


def _list_package_materials(lock: Path, versions: Mapping[str, str]) -> Iterator[Material]:
    """Yield the lock of the build's own packages, and those of them that make the library."""
    locked = {}
    if lock.is_file():
        yield Material("requirements/build.txt", content_digest(lock))
        locked = {package.name: package for package in read_lock(lock)}
    for name, key in _TOOLS.items():
        package = locked.get(name)
        # The lock has a hash for each platform's wheel, and pip accepts only those; the installed one is unknown.
        hashes = {"locked_sha256": list(package.hashes)} if package and package.version == versions[key] else {}
        yield Material(name, uri=f"pkg:pypi/{name}@{versions[key]}", notes=hashes)


_SIZE = "size.json"


def write_bundle(ws: Workspace, library: VerifiedLibrary) -> Bundle:
    """Put ``ws.bundle`` together in a new folder, which then replaces the bundle before it.

    The dependencies layer and the function's code count towards the limits if they exist, and are in the bill of
    materials, with all that is compiled into the library. Every file in the zip has the time SOURCE_DATE_EPOCH. Raises
    AuditError or VerifyError when the library did not pass, SizeLimitError when all is larger than Lambda or the spec
    allows, EnvironmentSetupError for a file of unknown origin. On any error, the previous bundle stays as it was.
    """
    require_audit(library.audit)
    require_verification(library.verification)
    spec, sources, moment = ws.spec, library.sources, source_date_epoch()
    others = list(_measure_other_parts(ws))
    model_json = sources.description.read_text(encoding="utf-8")
    source_digest = content_digest(library.compiled.path)
    with replace_folder(ws.bundle) as fresh:
        draft = Bundle(fresh, make_size_table(others, spec))
        draft.library.parent.mkdir(parents=True)
        shutil.copyfile(library.path, draft.library)
        draft.library.chmod(0o755)
        weights_file = f"{spec.name}.weights" if sources.outside and spec.weights.place == "elsewhere" else ""
        if sources.outside:
            place_file(sources.outside, fresh / weights_file if weights_file else draft.weights)
        if words := _collect_string_graphs(spec, library.compiled):
            draft.words.write_bytes(words)
            draft.words.chmod(0o644)
        if spec.text:
            draft.text.write_bytes(prepare_tokenizer(spec.text))
            draft.text.chmod(0o644)
        package = fetch_tokenizers(ws.cache, ws.target) if needs_package(spec.text) else None
        if package:
            shutil.copyfile(package.library, draft.tokenizers)
            draft.tokenizers.chmod(0o755)
        manifest = Manifest(
            description=json.loads(model_json),
            source=source_entry(spec, source_digest, library.compiled.first.graph.origin),
            targets=(ws.target.name,),
            versions=dict(library.versions),
            xla_flags=library.compiled.first.kernels.flags,
            files=tuple(FileEntry.from_path(draft.layer, name) for name, _ in files_of(draft.layer)),
            weights=sources.layout,
        )
        write_readable(draft.layer / LAYER_MANIFEST, manifest.to_json())
        write_openapi(draft.layer, [model_json])
        layer_files = [name for name, _ in files_of(draft.layer)]
        unzipped = sum((draft.layer / name).stat().st_size for name in layer_files)
        zipped = 0  # an image has no zip
        if spec.weights.place != "image":
            write_zip(draft.layer, draft.archive, epoch=moment)
            zipped = draft.archive.stat().st_size
        sizes = make_size_table([Component("model layer", unzipped, zipped), *others], spec)
        require_sizes(sizes)
        write_readable(draft.header, sources.header.read_text(encoding="utf-8"))
        write_readable(draft.description, model_json.rstrip("\n") + "\n")
        sound = spec.audio is not None
        parts = [*library_parts(f"{LAYERS}/{LIBRARY}", library.versions, sound=sound), *_list_parts(ws)]
        parts += tokenizers_parts(package) if package else ()
        own = sorted(set(layer_files) - {PLACE}, key=lambda name: (name != LIBRARY, name))
        files = [(name, draft.layer / name) for name in own]
        weights_files = [(weights_file, fresh / weights_file)] if weights_file else []
        bill = sbom_json(
            description=manifest.description,
            source=manifest.source,
            files=[*list_shipped_files(LAYERS, files), *list_shipped_files("", weights_files)],
            parts=parts,
            versions=manifest.versions,
        )
        write_readable(draft.sbom, bill)
        write_readable(draft.notice, format_notice(spec.name, spec.version, parts))
        names = [f"layer/{name}" for name in layer_files]
        names += [*(["layer.zip"] if zipped else []), "model.h", "model.json", "sbom.cdx.json", "NOTICE"]
        names += [weights_file] if weights_file else []
        measured = replace(
            manifest,
            files=tuple(FileEntry.from_path(fresh, name) for name in names),
            lowering=library.lowering,
            audit=library.audit,
            verification=library.verification,
            sizes=sizes,
            choice=library.choice,
        )
        write_readable(draft.manifest, measured.to_json())
        write_readable(draft.statement, _make_bundle_statement(ws, library, fresh, parts))
        _keep_wasm(ws.bundle, fresh, source_digest)
    return Bundle(ws.bundle, sizes)


def _collect_string_graphs(spec: ModelSpec, compiled: CompiledModel) -> bytes:
    """Return the graphs that turn the strings of every signature into numbers; empty if there are none."""
    graphs = compiled.list_signature_graphs(spec.variants)
    names = (spec.source.signature or "", *(signature.name for signature in spec.signatures))
    recipes = {name: graph.words_path.read_bytes() for name, graph in zip(names, graphs, strict=True) if graph.strings}
    return join_recipes(recipes) if spec.signatures and recipes else b"".join(recipes.values())


def _measure_other_parts(ws: Workspace) -> Iterator[Component]:
    """Measure the parts of the function other than the model's layer; keep the sizes while the content is the same.

    Zipping it all for its size takes as long as linking the model.
    """
    if (dependencies := dependencies_folder(ws.project, ws.target)).is_dir():
        yield _measure_folder(ws, "dependencies layer", dependencies, compute_digest(dependencies))
    if (function := ws.project.function).is_dir():
        yield _measure_folder(ws, "function", function, *content_digest(function).values(), layer=False, bytecode=False)


def _measure_folder(ws: Workspace, name: str, folder: Path, *content: str, **options: bool) -> Component:
    """Measure ``folder``, or take the earlier result for the same ``content``."""

    def make(fresh: Path) -> None:
        (fresh / _SIZE).write_text(json.dumps(asdict(measure_zip(name, folder, **options))))

    kept = ws.project.build / f"size-of-{name.replace(' ', '-')}{ws.target.suffix}"
    run_cached(kept, compute_digest(code_digest(), *content), make, ws.progress.show_lines)
    return Component(**json.loads((kept / _SIZE).read_text()))


def _list_parts(ws: Workspace) -> Iterator[LicensedPart]:
    """Yield the parts of the function other than the model's layer."""
    if (dependencies := dependencies_folder(ws.project, ws.target)).is_dir():
        yield from wheel_parts(dependencies)
    if ws.project.function.is_dir():
        yield function_part(ws.project.function)


def _keep_wasm(before: Path, fresh: Path, digest: Mapping[str, str]) -> None:
    """Keep the files in the bundle's folder that `coldforge wasm` made of the same trained model."""
    try:
        made_of = json.loads((before / "wasm" / "manifest.json").read_text(encoding="utf-8"))["source"]
    except (OSError, ValueError, KeyError):
        return
    if digest.items() <= made_of.items():
        shutil.copytree(before / "wasm", fresh / "wasm", copy_function=os.link)
