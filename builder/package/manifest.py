"""manifest.json: the content of a bundle, its inputs and its measured accuracy.

The layer has the part that is the same wherever the bundle is built, so that a rebuild on another machine is not a new
layer version; the bundle's own manifest has the measurements as well.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import __version__
from builder.base.cache import file_digest
from builder.base.escape import escape_invisible
from builder.compiler.audit import AuditReport
from builder.compiler.link.toolchain import zig_version
from builder.compiler.lower.decisions import LoweringReport
from builder.compiler.weights_file import Layout
from builder.compiler.xla.compilation_result import read_tensorflow_version
from builder.config import ModelSpec
from builder.package.lambda_limits import SizeTable
from builder.verify.quantise.precision import PrecisionChoice
from builder.verify.verification import Verification

SCHEMA_VERSION = 1

_HOST_VERSIONS = ("python",)
"""Versions that depend on the build's machine, not on the result."""

_FACTS_LEFT_OUT = ("sections", "segments", "undefined")


@dataclass(frozen=True)
class FileEntry:
    """A file of the bundle, by its path in it."""

    path: str
    size: int
    sha256: str

    @classmethod
    def from_path(cls, root: Path, path: str) -> FileEntry:
        """Measure the file ``path`` below ``root``."""
        return cls(path, (root / path).stat().st_size, file_digest(root / path))


@dataclass(frozen=True)
class Manifest:
    """A manifest; ``description`` is model.json's content. In a layer, the fields from ``lowering`` on are None."""

    description: dict[str, Any]
    source: dict[str, str]
    targets: tuple[str, ...]
    versions: dict[str, str]
    xla_flags: str
    files: tuple[FileEntry, ...]
    weights: Layout | None = None  # of weights outside the library
    lowering: LoweringReport | None = None
    audit: AuditReport | None = None
    verification: Verification | None = None
    sizes: SizeTable | None = None
    choice: PrecisionChoice | None = None  # of the weights' type, where the spec said "auto"

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest for JSON."""
        about, measured = self.description, self.verification is not None
        content: dict[str, Any] = {
            "schema": SCHEMA_VERSION,
            "model": about["model"] | {"source": self.source},
            "abi": about["abi"],
            "targets": list(self.targets),
            "target": about["target"],
            "batch": about["batch"],
            **{key: about[key] for key in ("batches", "shapes", "pad", "signature", "signatures") if key in about},
            "feeds": about["feeds"],
            "fetches": about["fetches"],
            "image": about["image"],
            "outputs": about["outputs"],
            "built_with": {k: v for k, v in sorted(self.versions.items()) if measured or k not in _HOST_VERSIONS},
            "xla_flags": self.xla_flags,
            "files": {f.path: {"bytes": f.size, "sha256": f.sha256} for f in self.files},
        }
        parts = {
            "weights": self.weights,
            "lowering": self.lowering,
            "audit": self.audit,
            "verification": self.verification,
            "sizes": self.sizes,
            "auto": self.choice,
        }
        content |= {key: part.to_dict() for key, part in parts.items() if part is not None}
        if self.audit is not None:
            facts = content["audit"]["facts"]
            content["audit"]["facts"] = {key: facts[key] for key in facts if key not in _FACTS_LEFT_OUT}
        return content

    def to_json(self) -> str:
        """Return the text of manifest.json."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"


def list_tool_versions() -> dict[str, str]:
    """Return the installed versions of coldforge, Python, TensorFlow and zig."""
    return {
        "coldforge": __version__,
        "python": platform.python_version(),
        "tensorflow": read_tensorflow_version(),
        "zig": zig_version(),
    }


def manifest_head(spec: ModelSpec, digest: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, Any]:
    """Return the beginning of the manifest of anything made of a model; ``digest`` is the trained model's."""
    return {
        "model": {"name": spec.name, "version": spec.version},
        "source": source_entry(spec, digest),
        "versions": dict(versions),
    }


def source_entry(spec: ModelSpec, digest: Mapping[str, str], origin: str = "") -> dict[str, str]:
    """Describe the model's source, without any path of the machine that built it.

    ``digest``: its ``content_digest``; ``origin``: the programs that wrote and read it.
    """
    source = spec.source
    entry = {"format": str(source.format), **digest}
    if source.package:
        entry |= {"package": source.package, "file": source.file or ""}
    elif source.address is not None:
        entry |= {"uri": source.address.shown} | ({"file": source.file} if source.file else {})
    elif source.path is not None:
        entry["file"] = source.path.name
    return entry | ({"origin": escape_invisible(origin)} if origin else {})
