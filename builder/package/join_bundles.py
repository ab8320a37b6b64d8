"""Several models' bundles joined into one, whose layer a function opens by name: ``dist/<first>-<second>/``.

layer/lib/libmodel.so             the first, which answers where a request names none
layer/lib/<name>/libmodel.so      each other; model.weights, model.text and model.words beside either
layer/model/manifest.json         {"schema": 1, "models": [<each layer's own>, …]}
layer.zip  manifest.json          as of one model; sizes and limits are of all together
sbom.cdx.json  NOTICE  provenance.json
<name>.weights                    of each whose weights are elsewhere
<name>/                           each one's header, description, manifest, bill of materials, notice and statement
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.base.cache import file_digest, place_file
from builder.base.errors import UsageError
from builder.base.files import replace_folder
from builder.base.project import Project
from builder.base.targets import Target
from builder.package.bundle import LAYER_MANIFEST, LIBRARY, Bundle, activate_layer
from builder.package.joined_documents import joined_bill, joined_notice, joined_statement
from builder.package.lambda_limits import LAMBDA_UNZIPPED, SizeTable, require_sizes
from builder.package.layer import files_of, measure_zip, source_date_epoch, write_readable, write_zip
from builder.package.openapi import write_openapi

SCHEMA_VERSION = 1
MODEL_LAYER = "model layer"


def join_names(names: Sequence[str]) -> str:
    """Return the name of the bundle of these models. Raises UsageError when one is named twice."""
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{twice[0]} is named twice; give one of the two another name in its model.toml.")
    return "-".join(names)


def read_identity(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of a bundle or layer, as under dist/, and its models' versions with + between them.

    Raises ValueError, KeyError, TypeError or AttributeError for an invalid manifest.
    """
    models = [entry["model"] for entry in manifest.get("models", [manifest])]
    name, version = "-".join(model["name"] for model in models), "+".join(model["version"] for model in models)
    if not re.fullmatch(r"[a-z0-9_][a-z0-9_-]* [\w.+-]+", f"{name} {version}", re.ASCII):
        raise ValueError(f"no model is called {name!r} {version!r}")
    return name, version


def combine_bundles(bundles: Sequence[Bundle], dist: Path, *, suffix: str = "", epoch: int | None = None) -> Bundle:
    """Join several bundles, the first of which is the function's default; return a single one as it is.

    ``suffix``: the target's, which ends all their names. ``epoch``: the time of every file in the zip
    (SOURCE_DATE_EPOCH when None). Raises UsageError and SizeLimitError; after any error, the previous bundle of the
    same models stays as it was.
    """
    if len(bundles) == 1:
        return bundles[0]
    moment = source_date_epoch() if epoch is None else epoch
    names = [bundle.folder.name.removesuffix(suffix) for bundle in bundles]
    folder = dist / f"{join_names(names)}{suffix}"
    with replace_folder(folder) as fresh:
        draft = Bundle(fresh, bundles[0].sizes)
        paths = [LIBRARY, *(f"lib/{name}/{Path(LIBRARY).name}" for name in names[1:])]
        for name, bundle, place in zip(names, bundles, paths, strict=True):
            (draft.layer / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(bundle.library, draft.layer / place)
            (draft.layer / place).chmod(0o755)
            for file in (bundle.weights, bundle.text, bundle.tokenizers, bundle.words):
                if file.exists():
                    place_file(file, (draft.layer / place).with_name(file.name))
            for weights in bundle.folder.glob("*.weights"):
                place_file(weights, fresh / weights.name)
            (fresh / name).mkdir()
            papers = bundle.header, bundle.description, bundle.manifest, bundle.sbom, bundle.notice, bundle.statement
            for path in papers:
                shutil.copyfile(path, fresh / name / path.name)
        manifests = [_relocate_manifest(bundle, place) for bundle, place in zip(bundles, paths, strict=True)]
        _write_json(draft.layer / LAYER_MANIFEST, {"schema": SCHEMA_VERSION, "models": manifests})
        write_openapi(draft.layer, [bundle.description.read_text(encoding="utf-8") for bundle in bundles])
        write_readable(draft.sbom, joined_bill(folder.name, bundles, paths, draft.layer))
        write_readable(draft.notice, joined_notice(folder.name, bundles))
        # If one bundle is for a container image, the joined one is too.
        image = any(bundle.sizes.max_unzipped > LAMBDA_UNZIPPED for bundle in bundles)
        if not image:
            write_zip(draft.layer, draft.archive, epoch=moment)
        sizes = SizeTable(
            (
                measure_zip(MODEL_LAYER, draft.layer),
                *(part for part in bundles[0].sizes.components if part.name != MODEL_LAYER),
            ),
            (max if image else min)(bundle.sizes.max_unzipped for bundle in bundles),
            max(bundle.sizes.max_zipped for bundle in bundles),
        )
        require_sizes(sizes)
        manifest: dict[str, Any] = {
            "schema": SCHEMA_VERSION,
            "models": [json.loads(bundle.manifest.read_text(encoding="utf-8")) for bundle in bundles],
            "files": {
                name: {"bytes": path.stat().st_size, "sha256": file_digest(path)} for name, path in files_of(fresh)
            },
            "sizes": sizes.to_dict(),
        }
        _write_json(draft.manifest, manifest)
        target = str(manifest["models"][0]["target"]["arch"])
        write_readable(draft.statement, joined_statement(fresh, bundles, names, target))
    return Bundle(folder, sizes)


def join_active(bundles: Sequence[Bundle], project: Project, target: Target) -> Bundle:
    """Join ``bundles`` in ``dist/``, and make the result the active bundle for ``target``."""
    bundle = combine_bundles(bundles, project.dist, suffix=target.suffix)
    activate_layer(bundle, project.layers, target)
    return bundle


def _relocate_manifest(bundle: Bundle, place: str) -> dict[str, Any]:
    """Return the manifest of a bundle's layer, with its library where it is now."""
    manifest: dict[str, Any] = json.loads((bundle.layer / LAYER_MANIFEST).read_text(encoding="utf-8"))
    folder = place.removesuffix(Path(LIBRARY).name)
    files = {folder + Path(path).name: entry for path, entry in manifest["files"].items()}
    return manifest | {"files": files}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_readable(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
