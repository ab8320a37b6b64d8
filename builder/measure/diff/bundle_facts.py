"""Facts that a bundle's own files state, read for a comparison. Nothing of the bundle runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.base.errors import BundleError, UsageError
from builder.base.records import parse_json
from builder.compiler.audit.elf_facts import read_facts
from builder.package.bundle import Bundle


@dataclass(frozen=True)
class BundleStep:
    """One fused step, identified as for a person. ``name``: the layer's in the model, or else the step's."""

    name: str
    what: str


@dataclass(frozen=True)
class BundlePackage:
    """A third-party part of the function, from the bill of materials."""

    name: str
    version: str
    licence: str

    def __str__(self) -> str:
        return f"{self.version or 'no version'}, {self.licence or 'no licence'}"


@dataclass(frozen=True)
class BundleFacts:
    """``sections``: bytes of the library by part, from its ELF header; ``manifest``: manifest.json's content."""

    bundle: Bundle
    manifest: Mapping[str, Any]
    sections: Mapping[str, int]
    packages: tuple[BundlePackage, ...]

    @property
    def title(self) -> str:
        """The model, its version and its processor."""
        model = self.manifest["model"]
        return f"{model['name']} {model['version']}, {self.manifest['target']['arch']}"

    @property
    def steps(self) -> tuple[BundleStep, ...]:
        """Fused steps in the order they run."""
        lowering = self.manifest["lowering"]
        layers = {layer["step"]: layer for layer in lowering["weights"]["layers"]}
        return tuple(_read_step(step, layers.get(step["step"], {})) for step in lowering["fused_steps"])

    @classmethod
    def from_folder(cls, folder: Path) -> BundleFacts:
        """Read a folder. Raises UsageError without a bundle of one model, and BundleError for a damaged one."""
        try:
            bundle = Bundle.load(folder)
            manifest = parse_json(bundle.manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"there is no bundle in {folder}: name a folder such as dist/emotion, or a model."
            ) from error
        if "models" in manifest:
            raise UsageError(f"{folder} is a bundle of several models: name the bundle of one, such as dist/emotion.")
        sections = _measure_sections(bundle.library)
        try:
            bill = parse_json(bundle.sbom.read_text(encoding="utf-8"))
            facts = cls(bundle, manifest, sections, tuple(_read_packages(bill)))
            _ = facts.title, facts.steps  # Reading both finds a damaged file now.
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BundleError(f"the bundle in {folder} cannot be read ({error!r}); build it again.") from error
        return facts


def _measure_sections(library: Path) -> dict[str, int]:
    """Return the bytes of the library: its code, its constants with the weights, and all the rest."""
    facts = read_facts(library)
    sizes = dict(facts.sections)
    code, constants = sizes.get(".text", 0), sizes.get(".rodata", 0)
    return {"code": code, "constants": constants, "tables": facts.size - code - constants}


def _read_step(step: Mapping[str, Any], layer: Mapping[str, Any]) -> BundleStep:
    weights = layer.get("type", "")
    parts = [step["kind"], step["algorithm"], " + ".join(step["fused"]), step.get("geometry", ""), weights]
    return BundleStep(layer.get("layer") or step["step"], ", ".join(filter(None, parts)))


def _read_packages(bill: Mapping[str, Any]) -> Iterator[BundlePackage]:
    """Yield all packages but the model and its library, which are the bundle's own."""
    for component in bill["components"]:
        if "licenses" in component:
            licences = " AND ".join(licence["expression"] for licence in component["licenses"])
            yield BundlePackage(component["name"], component.get("version", ""), licences)
