"""Bill of materials, notice and statement of several models' bundle, made from those of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder import __version__
from builder.base.cache import file_digest
from builder.package.bundle import LAYER_MANIFEST, LIBRARY, OPENAPI, Bundle
from builder.package.components import LAYERS
from builder.package.provenance import JOIN_TYPE, STATEMENT, Material, statement_json
from builder.package.sbom import COMPILED_INTO

SHARED = (LAYER_MANIFEST, *OPENAPI)
"""Files of which a layer of several models has one."""


def joined_bill(name: str, bundles: Sequence[Bundle], places: Sequence[str], layer: Path) -> str:
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


def joined_notice(name: str, bundles: Sequence[Bundle]) -> str:
    """Return the notices of all bundles, each text once."""
    texts = [bundle.notice.read_text(encoding="utf-8").partition("\n")[2] for bundle in bundles]
    return "\n".join([f"{name}: what this function is made of besides the trained models.", *dict.fromkeys(texts)])


def joined_statement(folder: Path, bundles: Sequence[Bundle], names: Sequence[str], target: str) -> str:
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
