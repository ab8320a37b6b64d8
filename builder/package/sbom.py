"""sbom.cdx.json, a CycloneDX 1.6 bill of materials of everything in Lambda, and NOTICE, the licences of all its parts.

Each file is in one component. A component without files names the file that it is compiled into. The bill has neither
serial number nor time: the same bundle has the same bill. cyclonedx-python-lib is not used: it has no model cards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from builder.package.components import LicensedPart, ShippedFile, Wheel

COMPILED_INTO = "coldforge:compiled-into"
"""Property of a component that has no file of its own."""

_TOOLS = {"coldforge": "", "tensorflow": "tensorflow-cpu", "zig": "ziglang"}
"""Names of the packages of the tools whose versions in the manifest decide what the library is."""

_RULE = "=" * 100


def sbom_json(
    *,
    description: Mapping[str, Any],
    source: Mapping[str, str],
    files: Sequence[ShippedFile],
    parts: Sequence[LicensedPart],
    versions: Mapping[str, str],
) -> str:
    """Return the bill as JSON.

    ``description``: model.json's content; ``source``: the manifest's entry; ``files``: the model layer's, the library
    first; ``parts``: all others, and those compiled into the library; ``versions``: the manifest's.
    """
    model, target = description["model"], description["target"]
    name, version = model["name"], model["version"]
    bundle, library, network = f"bundle:{name}", f"lib:{name}/libmodel.so", f"model:{name}"
    compiled_in = [part.ref for part in parts if files[0].path in part.inside]
    separate = [part for part in parts if part.ref not in compiled_in]
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": list(_list_tools(versions))},
            "component": {"type": "application", "bom-ref": bundle, "name": name, "version": version},
        },
        "components": [
            {
                "type": "machine-learning-model",
                "bom-ref": network,
                "name": name,
                "version": version,
                **({"hashes": [_make_hash(source["sha256"])]} if "sha256" in source else {}),
                "modelCard": {
                    "modelParameters": {
                        "inputs": [{"format": _format_port(port)} for port in description["feeds"]],
                        "outputs": [{"format": _format_port(port)} for port in description["fetches"]],
                    }
                },
                "properties": [
                    {"name": COMPILED_INTO, "value": files[0].path},
                    *(
                        {"name": f"coldforge:source:{key}", "value": value}
                        for key, value in sorted(source.items())
                        if key != "sha256"
                    ),
                ],
            },
            {
                "type": "library",
                "bom-ref": library,
                "name": "libmodel.so",
                "version": version,
                "hashes": [_make_hash(files[0].sha256)],
                "components": [_make_file_component(file) for file in files],
                "properties": [
                    {"name": "coldforge:target", "value": target["arch"]},
                    {"name": "coldforge:isa", "value": " ".join(target["isa"])},
                ],
            },
            *(_make_component(part) for part in parts),
        ],
        "dependencies": [
            {"ref": bundle, "dependsOn": [library, *(part.ref for part in separate)]},
            {"ref": library, "dependsOn": [network, *compiled_in]},
        ],
    }
    return json.dumps(bill, indent=2) + "\n"


def _format_port(port: Mapping[str, Any]) -> str:
    return f"{port['dtype']}{port['shape']}"


def _list_tools(versions: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the tools that made the library; not the Python that ran it, which would make the bill differ elsewhere."""
    for key, package in _TOOLS.items():
        tool = {"type": "application", "name": package or key, "version": versions[key]}
        yield tool | ({"purl": f"pkg:pypi/{package}@{versions[key]}"} if package else {})


def _make_component(part: LicensedPart) -> dict[str, Any]:
    component = {
        "type": part.kind,
        "bom-ref": part.ref,
        "name": part.name,
        "version": part.version,
        "description": part.about,
        "licenses": [{"expression": part.licence}],
        "purl": part.purl,
        "externalReferences": [_make_wheel_reference(part, part.wheel)] if part.wheel else [],
        "components": [_make_file_component(file) for file in part.files],
        "properties": [{"name": COMPILED_INTO, "value": path} for path in part.inside],
    }
    return {key: value for key, value in component.items() if value}


def _make_wheel_reference(part: LicensedPart, wheel: Wheel) -> dict[str, Any]:
    url = f"https://pypi.org/project/{part.name}/{part.version}/#{wheel.file}"
    return {"type": "distribution", "url": url, "hashes": [_make_hash(wheel.sha256)]}


def _make_file_component(file: ShippedFile) -> dict[str, Any]:
    return {"type": "file", "name": file.path, "hashes": [_make_hash(file.sha256)]}


def _make_hash(sha256: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": sha256}


def format_notice(name: str, version: str, parts: Sequence[LicensedPart]) -> str:
    """Return the text for a function that serves ``name`` and is made of ``parts``. A shared text appears once."""
    pieces = [
        f"{name} {version}: what this function is made of besides the trained model, with the licence of each part.\n"
        "The licence of the trained model is its author's to say.\n"
    ]
    owners: dict[str, list[str]] = {}
    for part in parts:
        title = f"{part.name} {part.version}".strip()
        lines = [title, f"    licence: {part.licence}", *([f"    {part.about}"] if part.about else [])]
        pieces.append("\n".join([*lines, *(f"    compiled into {path}" for path in part.inside), ""]))
        for text in part.texts:
            owners.setdefault(text.strip(), []).append(title)
    for text, names in owners.items():
        pieces.append(f"{_RULE}\nThe licence of {', '.join(names)}:\n{_RULE}\n\n{text}\n")
    return "\n".join(pieces)
