"""Assemble a bundle: layer, zip, manifest and bill of materials, checked against Lambda's limits."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from builder.audit import AuditReport
from builder.audit import require as require_audit
from builder.cache import place_file
from builder.library.outside import Layout
from builder.lower.decisions import Lowering
from builder.pack.bundle import LAYER_MANIFEST, LIBRARY, Bundle
from builder.pack.layer import files_of, measure, source_date_epoch, write_zip
from builder.pack.limits import Component, check, require
from builder.pack.manifest import FileEntry, Manifest, source_entry
from builder.pack.sbom import read_lock, sbom_json
from builder.pack.swap import replacing
from builder.spec import ModelSpec
from builder.targets import DEFAULT, Target
from builder.verify.verdict import require as require_verification
from builder.verify.verification import Verification


def pack(
    *,
    spec: ModelSpec,
    target: Target = DEFAULT,
    library: Path,
    weights: Path | None = None,
    layout: Layout | None = None,
    header: Path,
    model_json: str,
    audit: AuditReport,
    verification: Verification,
    source_sha256: str,
    versions: Mapping[str, str],
    xla_flags: str,
    dist: Path,
    lowering: Lowering | None = None,
    dependencies: Path | None = None,
    dependencies_lock: Path | None = None,
    function: Path | None = None,
    epoch: int | None = None,
) -> Bundle:
    """Put ``dist/<model>/`` with the target's suffix together and let it take the place of the one before.

    ``library``, ``header``: libmodel.so and model.h; ``weights``: model.weights, where they are no part of the
    library, and ``layout`` what it wants them to be; ``model_json``: what cf_describe() returns;
    ``source_sha256``: of the trained model; ``versions``: coldforge, python, tensorflow, zig;
    ``xla_flags``: those that were in effect; ``lowering``: what the steps became; ``dependencies``,
    ``function``: the built dependencies layer and the function's code, measured when given;
    ``dependencies_lock``: the layer's hash-locked requirements, for the bill of materials; ``epoch``: the time
    of every file in the zip (SOURCE_DATE_EPOCH when None).

    Raises AuditError or VerifyError when the library did not pass, SizeLimitError when it all is larger
    than Lambda or the spec allows. Whatever is raised, the previous bundle stays as it was.
    """
    require_audit(audit)
    require_verification(verification)
    moment = source_date_epoch() if epoch is None else epoch
    packages = read_lock(dependencies_lock) if dependencies_lock else ()
    others = list(_measured(dependencies, function))
    description: dict[str, Any] = json.loads(model_json)
    folder = dist / f"{spec.name}{target.suffix}"
    with replacing(folder) as fresh:
        draft = Bundle(fresh, check(others, spec))
        draft.library.parent.mkdir(parents=True)
        shutil.copyfile(library, draft.library)
        draft.library.chmod(0o755)
        apart = f"{spec.name}.weights" if weights and spec.weights.place == "elsewhere" else ""
        if weights:
            place_file(weights, fresh / apart if apart else draft.weights)
        in_layer = tuple(FileEntry.of(draft.layer, name) for name, _ in files_of(draft.layer))
        manifest = Manifest(
            description=description,
            source=source_entry(spec, source_sha256),
            targets=(target.name,),
            versions=dict(versions),
            xla_flags=xla_flags,
            files=in_layer,
            weights=layout,
        )
        _write(draft.layer / LAYER_MANIFEST, manifest.to_json())
        inside = [name for name, _ in files_of(draft.layer)]
        unzipped = sum((draft.layer / name).stat().st_size for name in inside)
        zipped = 0  # an image has no zip
        if spec.weights.place != "image":
            write_zip(draft.layer, draft.archive, epoch=moment)
            zipped = draft.archive.stat().st_size
        model_layer = Component("model layer", unzipped, zipped)
        sizes = check([model_layer, *others], spec)
        require(sizes)
        _write(draft.header, header.read_text(encoding="utf-8"))
        _write(draft.description, model_json.rstrip("\n") + "\n")
        bill = sbom_json(
            description=description,
            source=manifest.source,
            library_sha256=next(f.sha256 for f in in_layer if f.path == LIBRARY),
            versions=versions,
            packages=packages,
        )
        _write(draft.sbom, bill)
        names = [f"layer/{name}" for name in inside]
        names += [*(["layer.zip"] if zipped else []), "model.h", "model.json", "sbom.cdx.json", *filter(None, [apart])]
        whole = Manifest(
            description=description,
            source=manifest.source,
            targets=(target.name,),
            versions=dict(versions),
            xla_flags=xla_flags,
            files=tuple(FileEntry.of(fresh, name) for name in names),
            weights=layout,
            lowering=lowering,
            audit=audit,
            verification=verification,
            sizes=sizes,
        )
        _write(draft.manifest, whole.to_json())
        _keep_wasm(folder, fresh, source_sha256)
    return Bundle(folder, sizes)


def _measured(dependencies: Path | None, function: Path | None) -> Iterator[Component]:
    if dependencies is not None and dependencies.is_dir():
        yield measure("dependencies layer", dependencies)
    if function is not None and function.is_dir():
        yield measure("function", function, layer=False, bytecode=False)


def _keep_wasm(before: Path, fresh: Path, source_sha256: str) -> None:
    """What `coldforge wasm` made of the same trained model stays in the bundle's folder."""
    try:
        made_of = json.loads((before / "wasm" / "manifest.json").read_text(encoding="utf-8"))["source"]["sha256"]
    except (OSError, ValueError, KeyError):
        return
    if made_of == source_sha256:
        shutil.copytree(before / "wasm", fresh / "wasm", copy_function=os.link)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
