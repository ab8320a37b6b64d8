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

from builder import __version__
from builder.base.cache import file_digest, place_file
from builder.base.errors import UsageError
from builder.base.files import replace_folder
from builder.base.project import Project
from builder.base.targets import Target
from builder.config import LAMBDA_UNZIPPED
from builder.package.bundle import LAYER_MANIFEST, LIBRARY, OPENAPI, Bundle, activate_layer
from builder.package.components import LAYERS
from builder.package.lambda_limits import SizeTable, require_sizes
from builder.package.layer import files_of, measure_zip, source_date_epoch, write_readable, write_zip
from builder.package.openapi import write_openapi
from builder.package.provenance import JOIN_TYPE, STATEMENT, Material, statement_json
from builder.package.sbom import COMPILED_INTO

SCHEMA_VERSION = 1
_MODEL_LAYER = "model layer"


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
        write_readable(draft.sbom, _joined_bill(folder.name, bundles, paths, draft.layer))
        write_readable(draft.notice, _joined_notice(folder.name, bundles))
        # If one bundle is for a container image, the joined one is too.
        image = any(bundle.sizes.max_unzipped > LAMBDA_UNZIPPED for bundle in bundles)
        if not image:
            write_zip(draft.layer, draft.archive, epoch=moment)
        sizes = SizeTable(
            (
                measure_zip(_MODEL_LAYER, draft.layer),
                *(part for part in bundles[0].sizes.components if part.name != _MODEL_LAYER),
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
        write_readable(draft.statement, _joined_statement(fresh, bundles, names, target))
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


SHARED = (LAYER_MANIFEST, *OPENAPI)
"""Files of which a layer of several models has one."""


def _joined_bill(name: str, bundles: Sequence[Bundle], places: Sequence[str], layer: Path) -> str:
    """Return the bill of the bundle ``name``, in whose ``layer`` each library has moved to its path of ``places``.

    A component of several bills is listed once, and is compiled into the libraries of all.
    """
    bills = [
        _relocate_bill(json.loads(bundle.sbom.read_text(encoding="utf-8")), path)
        for bundle, path in zip(bundles, places, strict=True)
    ]
    components: dict[str, dict[str, Any]] = {}
    for bill in bills:
        for component in bill["components"]:
            known = components.setdefault(component["bom-ref"], component)
            mine = known.get("properties", [])
            more = [p for p in component.get("properties", []) if p["name"] == COMPILED_INTO and p not in mine]
            if more:
                known["properties"] = [*mine, *more]
    _replace_shared_files(list(components.values()), layer)
    root = {"type": "application", "bom-ref": f"bundle:{name}", "name": name, "version": "joined"}
    needed = [entry for bill in bills for entry in bill["dependencies"]]
    mine, others = [e for e in needed if e["ref"].startswith("bundle:")], [e for e in needed if e["ref"][:4] == "lib:"]
    depends = {"ref": root["bom-ref"], "dependsOn": list(dict.fromkeys(ref for e in mine for ref in e["dependsOn"]))}
    joined = bills[0] | {"components": list(components.values()), "dependencies": [depends, *others]}
    joined["metadata"] = bills[0]["metadata"] | {"component": root}
    return json.dumps(joined, indent=2) + "\n"


def _joined_notice(name: str, bundles: Sequence[Bundle]) -> str:
    """Return the notices of all bundles, each text once."""
    texts = [bundle.notice.read_text(encoding="utf-8").partition("\n")[2] for bundle in bundles]
    return "\n".join([f"{name}: what this function is made of besides the trained models.", *dict.fromkeys(texts)])


def _joined_statement(folder: Path, bundles: Sequence[Bundle], names: Sequence[str], target: str) -> str:
    """Return the statement of the bundle in ``folder``, whose inputs are the bundles with their own statements."""
    return statement_json(
        folder,
        build_type=JOIN_TYPE,
        external={"models": list(names), "target": target},
        internal={},
        materials=[
            Material(f"{name}/{STATEMENT}", {"sha256": file_digest(bundle.statement)})
            for name, bundle in zip(names, bundles, strict=True)
        ],
        builder="coldforge:host",  # Each bundle's own statement says where that was built.
        versions={"coldforge": __version__},
    )


def _relocate_bill(bill: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return a bill with its library, and the weights beside it, where they are now."""
    before, after = (f"{LAYERS}/{Path(path).parent.as_posix()}/" for path in (LIBRARY, place))

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: moved(item) for key, item in value.items()}
        if isinstance(value, list):
            return [moved(item) for item in value]
        return after + value.removeprefix(before) if isinstance(value, str) and value.startswith(before) else value

    result: dict[str, Any] = moved(bill)
    return result


def _replace_shared_files(components: Sequence[dict[str, Any]], layer: Path) -> None:
    """Replace the files that the layer has once by files of the first library; those of each bundle are not in it."""
    names = {Path(path).name for path in SHARED}
    libraries = [c for c in components if c["bom-ref"].startswith("lib:")]
    for library in libraries:
        library["components"] = [file for file in library["components"] if Path(file["name"]).name not in names]
    for path in SHARED:
        digest = {"alg": "SHA-256", "content": file_digest(layer / path)}
        libraries[0]["components"].append({"type": "file", "name": f"{LAYERS}/{path}", "hashes": [digest]})
