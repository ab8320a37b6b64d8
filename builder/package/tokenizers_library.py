"""Library of Hugging Face's ``tokenizers``, from a wheel that a lock pins and that is never installed.

It lies beside ``libmodel.so`` in the bundle of a model whose tokenizer needs it.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builder.base.cache import compute_digest, file_digest, run_cached
from builder.base.errors import EnvironmentSetupError
from builder.base.files import scratch_folder
from builder.base.project import HOME
from builder.base.targets import Target, host_target
from builder.config import ModelSpec
from builder.importers.text import needs_package
from builder.package.bundle import LIBRARY, TOKENIZERS
from builder.package.components import LAYERS, LICENCES, LicensedPart, Wheel, join_licences, list_shipped_files
from builder.package.dependencies import read_lock
from builder.sources.pypi_package import download_wheel

LOCK = HOME / "requirements" / "tokenizers.txt"
PLACE = f"{LIBRARY.rpartition('/')[0]}/{TOKENIZERS}"
"""Path of the library in the layer."""

_BILL, _WHEEL = "bill.json", "wheel.json"


@dataclass(frozen=True)
class TokenizersPackage:
    """The package; ``folder`` has the library for one processor, its bill of materials, and the wheel's name."""

    folder: Path

    @property
    def library(self) -> Path:
        """The library itself."""
        return self.folder / TOKENIZERS

    @property
    def version(self) -> str:
        """The version, as locked."""
        return read_lock(LOCK)[0].version

    @property
    def components(self) -> list[dict[str, Any]]:
        """Components of the wheel's own bill of materials: crates of Rust."""
        crates: list[dict[str, Any]] = json.loads((self.folder / _BILL).read_text(encoding="utf-8"))["components"]
        return crates

    @property
    def wheel(self) -> tuple[str, str]:
        """The wheel's file name and its SHA-256."""
        name, sha256 = json.loads((self.folder / _WHEEL).read_text(encoding="utf-8"))
        return name, sha256


def fetch_tokenizers(cache: Path, target: Target) -> TokenizersPackage:
    """Return the package for ``target``, which is fetched once. Raises EnvironmentSetupError."""
    folder = cache / "tokenizers" / target.name
    run_cached(folder, compute_digest(LOCK, *target.wheels), lambda fresh: _download_wheel(target, fresh))
    return TokenizersPackage(folder)


def add_tokenizers_package(spec: ModelSpec, cache: Path) -> ModelSpec:
    """Return ``spec`` with the package if its tokenizer needs that on this machine. Raises EnvironmentSetupError."""
    if spec.text is None or not needs_package(spec.text):
        return spec
    return replace(spec, text=replace(spec.text, package=fetch_tokenizers(cache, host_target()).folder))


def _download_wheel(target: Target, folder: Path) -> None:
    options = ["--require-hashes", "--python-version", "3.13", "--implementation", "cp", "--abi", "abi3"]
    options += [option for tag in target.wheels for option in ("--platform", tag)]
    with scratch_folder(folder / "download") as scratch:
        wheel, messages = download_wheel(scratch, *options, "-r", str(LOCK))
        if wheel is None:
            raise EnvironmentSetupError(
                f"the tokenizers package for {target.name} could not be fetched:\n{messages[-2000:]}\n"
                "Check that the package index can be reached, then run the same command again."
            )
        with zipfile.ZipFile(wheel) as archive:
            (folder / TOKENIZERS).write_bytes(archive.read(f"tokenizers/{TOKENIZERS}"))
            (bill,) = (name for name in archive.namelist() if name.endswith(".cyclonedx.json"))
            (folder / _BILL).write_bytes(archive.read(bill))
        (folder / _WHEEL).write_text(json.dumps([wheel.name, file_digest(wheel)]), encoding="utf-8")


def tokenizers_parts(package: TokenizersPackage) -> Iterator[LicensedPart]:
    """Yield the parts of the package in the layer, by the wheel's own bill of materials."""
    purl = f"pkg:pypi/tokenizers@{package.version}"
    yield LicensedPart(
        ref=purl,
        name="tokenizers",
        version=package.version,
        licence="Apache-2.0",
        files=list_shipped_files(LAYERS, [(PLACE, package.library)]),
        purl=purl,
        about="makes ids of texts; only in bundles of models whose tokenizer needs it",
        wheel=Wheel(*package.wheel),
        texts=((LICENCES / "Apache-2.0.txt").read_text(encoding="utf-8"),),
    )
    for crate in package.components:
        name, version = str(crate["name"]), str(crate["version"])
        ref = f"pkg:cargo/{name}@{version}"
        licence = " ".join(join_licences(crate).split())
        yield LicensedPart(
            ref=ref, name=name, version=version, licence=licence, inside=(f"{LAYERS}/{PLACE}",), purl=ref
        )
