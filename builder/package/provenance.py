"""provenance.json: a record of how a bundle was built, as an in-toto statement with SLSA's predicate.

The statement names every file of the bundle with its SHA-256, every input with its digest, the flags, and the tools
with their versions. It has no time but SOURCE_DATE_EPOCH, so that the same inputs give the same statement.

Sources: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md, https://slsa.dev/spec/v1.0/provenance.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.base.cache import file_digest
from builder.package.layer import EPOCH, files_of, read_epoch

STATEMENT = "provenance.json"
ENVELOPE = "provenance.intoto.jsonl"
"""Signed copy of the statement, where a key was given."""

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE, JOIN_TYPE = "coldforge:bundle/v1", "coldforge:joined/v1"
"""Build types: made from a model.toml by ``coldforge bundle``, and joined by it from the bundles of several models."""

BASE, CHECKOUT = "COLDFORGE_BASE", "COLDFORGE_CHECKOUT"
"""Environment variables of a build in a container: its base image, and the checkout's path outside."""

APART = ("wasm",)
"""Folders of a bundle that other commands fill."""


@dataclass(frozen=True)
class Material:
    """An input that a build read. ``digest``: kind to hex, as in-toto names the kinds; ``notes`` are annotations."""

    name: str
    digest: Mapping[str, str] = field(default_factory=dict)
    uri: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of the statement."""
        entry = {"name": self.name, "uri": self.uri, "digest": dict(self.digest), "annotations": dict(self.notes)}
        return {key: value for key, value in entry.items() if value}


def statement_json(
    folder: Path,
    *,
    build_type: str,
    external: Mapping[str, Any],
    internal: Mapping[str, Any],
    materials: Sequence[Material],
    builder: str,
    versions: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
) -> str:
    """Return the statement of the bundle in ``folder``, whose other files are all written.

    ``external``: the choices of whoever built it; ``internal``: values that followed from them; ``builder``: the place
    of the build. Raises EnvironmentSetupError for a SOURCE_DATE_EPOCH that is no whole number.
    """
    metadata, parameters = {}, dict(internal)
    if (epoch := read_epoch(environment)) is not None:
        parameters[EPOCH] = epoch
        moment = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
        metadata["metadata"] = {"finishedOn": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": sha}} for name, sha in _list_subjects(folder).items()],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": build_type,
                "externalParameters": dict(external),
                "internalParameters": parameters,
                "resolvedDependencies": [material.to_dict() for material in materials],
            },
            "runDetails": {
                "builder": {"id": builder, "version": dict(sorted(versions.items()))},
                **metadata,
            },
        },
    }
    return json.dumps(statement, indent=2, allow_nan=False) + "\n"


def _list_subjects(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file that the statement of the bundle in ``folder`` covers, by its name."""
    return {
        name: file_digest(path)
        for name, path in files_of(folder)
        if name not in (STATEMENT, ENVELOPE) and name.split("/")[0] not in APART
    }
