"""sbom.cdx.json: a CycloneDX 1.6 bill of materials of what goes into Lambda.

The model, libmodel.so, and the packages of the dependencies layer. It has neither serial number nor
time: the same bundle has the same bill.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.errors import EnvironmentSetupError

_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[^\]]*\])?\s*==\s*(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")
_TOOLS = {"tensorflow": "tensorflow-cpu", "zig": "ziglang"}


@dataclass(frozen=True)
class Package:
    """A pinned package of the dependencies layer; ``hashes`` are SHA-256 (hex) of its wheels."""

    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def url(self) -> str:
        """Its package URL (purl)."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(path: Path) -> tuple[Package, ...]:
    """The packages of a hash-locked requirements file, by name.

    Raises EnvironmentSetupError when a line is not a pin.
    """
    packages = []
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text or text.startswith("-"):
            continue
        match = _PIN.match(text)
        if match is None:
            raise EnvironmentSetupError(f"{path.name}: {text!r} is not pinned as name==version; lock it again.")
        name = re.sub(r"[-_.]+", "-", match["name"]).lower()
        packages.append(Package(name, match["version"], tuple(sorted(set(_HASH.findall(text))))))
    return tuple(sorted(packages, key=lambda p: p.name))


def sbom_json(
    *,
    description: Mapping[str, Any],
    source: Mapping[str, str],
    library_sha256: str,
    versions: Mapping[str, str],
    packages: tuple[Package, ...],
) -> str:
    """The bill as JSON. ``description``: model.json's content; ``source``: the manifest's entry."""
    model, target = description["model"], description["target"]
    name, version = model["name"], model["version"]
    bundle, library, network = f"bundle:{name}", f"lib:{name}/libmodel.so", f"model:{name}"
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": list(_tools(versions))},
            "component": {"type": "application", "bom-ref": bundle, "name": name, "version": version},
        },
        "components": [
            {
                "type": "machine-learning-model",
                "bom-ref": network,
                "name": name,
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": source["sha256"]}],
                "modelCard": {
                    "modelParameters": {
                        "inputs": [{"format": _format(port)} for port in description["feeds"]],
                        "outputs": [{"format": _format(port)} for port in description["fetches"]],
                    }
                },
                "properties": [
                    {"name": f"coldforge:source:{key}", "value": value}
                    for key, value in sorted(source.items())
                    if key != "sha256"
                ],
            },
            {
                "type": "library",
                "bom-ref": library,
                "name": "libmodel.so",
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": library_sha256}],
                "properties": [
                    {"name": "coldforge:target", "value": target["arch"]},
                    {"name": "coldforge:isa", "value": " ".join(target["isa"])},
                ],
            },
            *(_package(package) for package in packages),
        ],
        "dependencies": [
            {"ref": bundle, "dependsOn": [library, *(package.url for package in packages)]},
            {"ref": library, "dependsOn": [network]},
        ],
    }
    return json.dumps(bill, indent=2) + "\n"


def _format(port: Mapping[str, Any]) -> str:
    return f"{port['dtype']}{port['shape']}"


def _tools(versions: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for key, version in sorted(versions.items()):
        name = _TOOLS.get(key, key)
        tool = {"type": "application", "name": name, "version": version}
        yield tool | ({"purl": f"pkg:pypi/{name}@{version}"} if key in _TOOLS else {})


def _package(package: Package) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.url,
        "name": package.name,
        "version": package.version,
        "purl": package.url,
    }
    if package.hashes:
        # A component has one hash of a kind; a lock lists one for each wheel that may be chosen.
        component["externalReferences"] = [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{package.name}/{package.version}/",
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in package.hashes],
            }
        ]
    return component
