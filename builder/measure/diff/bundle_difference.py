"""Comparison of two bundles by what their files state (sizes, steps, errors, packages), and by speed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from builder.base.errors import BundleError, UsageError
from builder.base.records import parse_json
from builder.compiler.audit.elf_facts import read_facts
from builder.measure.bench import WARM_UP, Spread, open_call
from builder.measure.machine import cpu_name
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


Unit = Literal["bytes", "steps", "error"]


@dataclass(frozen=True)
class Change:
    """Something that is another in the second bundle. None: it is not there."""

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Figure:
    """A number of both bundles. None: one of them has no such number."""

    what: str
    unit: Unit
    before: float | None
    after: float | None

    @property
    def changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class BundleDifference:
    """The differences between two bundles."""

    before: str
    """The first bundle."""
    after: str
    """The second bundle."""
    same_library: bool
    """True if libmodel.so is the same, byte for byte."""
    interface: tuple[Change, ...]
    """The source, inputs, outputs and tools."""
    sizes: tuple[Figure, ...]
    steps: tuple[Change, ...]
    """Fused steps."""
    same_steps: int
    """The number of fused steps that both have alike."""
    errors: tuple[Figure, ...]
    """Against TensorFlow."""
    packages: tuple[Change, ...]
    speed: SpeedComparison | None = None
    """None where it was not measured."""


def compare_facts(before: BundleFacts, after: BundleFacts, speed: SpeedComparison | None = None) -> BundleDifference:
    """Return the differences of ``after`` from ``before``."""
    steps, same_count = _compare_steps(before, after)
    return BundleDifference(
        before=before.title,
        after=after.title,
        same_library=_read_library_digest(before) == _read_library_digest(after),
        interface=tuple(_list_changes(_collect_interface(before.manifest), _collect_interface(after.manifest))),
        sizes=tuple(_list_figures(_collect_sizes(before), _collect_sizes(after), "bytes")),
        steps=tuple(steps),
        same_steps=same_count,
        errors=tuple(_list_figures(_collect_errors(before), _collect_errors(after), "error")),
        packages=tuple(_list_changes(_collect_packages(before), _collect_packages(after))),
        speed=speed,
    )


def _read_library_digest(facts: BundleFacts) -> str:
    return str(facts.manifest["files"]["layer/lib/libmodel.so"]["sha256"])


def _collect_sizes(facts: BundleFacts) -> dict[str, int]:
    """Return bytes by name: first the sizes that Lambda counts, then the library's parts."""
    sizes = facts.bundle.sizes
    sizes_by_name = {"function and layers, zipped": sizes.zipped, "function and layers, unzipped": sizes.unzipped}
    for part in sizes.components:
        sizes_by_name |= {f"{part.name}, zipped": part.zipped, f"{part.name}, unzipped": part.unzipped}
    sizes_by_name |= {f"libmodel.so: {name}": count for name, count in facts.sections.items()}
    return sizes_by_name | {"weights": facts.manifest["lowering"]["weights"]["bytes"]}


def _collect_errors(facts: BundleFacts) -> dict[str, float]:
    """Return the worst error of each output against TensorFlow, as the manifest records it."""
    outputs = facts.manifest["verification"]["outputs"]
    errors = {f"{output['output']}, worst absolute": output["max_absolute"] for output in outputs}
    errors |= {f"{output['output']}, worst relative": output["max_relative"] for output in outputs}
    wrong = {
        f"{output['output']}, top-1 unlike TensorFlow's": output["top1_wrong"]
        for output in outputs
        if output["top1_rows"]
    }
    return errors | wrong


def _collect_interface(manifest: Mapping[str, Any]) -> dict[str, str]:
    model = manifest["model"]
    interface = {"model": f"{model['name']} {model['version']}", "processor": " ".join(manifest["target"]["isa"])}
    interface["trained model"] = " ".join(f"{key} {value}" for key, value in sorted(model["source"].items()))
    for kind in ("feed", "fetch"):
        ports = manifest["feeds" if kind == "feed" else "fetches"]
        interface |= {f"{kind} {port['name']}": f"{port['dtype']} {port['shape']}" for port in ports}
    interface["ABI"] = str(manifest["abi"])
    interface["lowering"] = manifest["lowering"]["path"]
    return interface | {f"built with {tool}": version for tool, version in manifest["built_with"].items()}


def _collect_packages(facts: BundleFacts) -> dict[str, str]:
    return {package.name: str(package) for package in facts.packages}


def _compare_steps(before: BundleFacts, after: BundleFacts) -> tuple[list[Change], int]:
    """Return the steps that differ, and the number of equal ones. Steps of one name are compared in order."""
    old, new = _number_steps(before), _number_steps(after)
    changes = list(_list_changes(old, new))
    return changes, sum(old[name] == new.get(name) for name in old)


def _number_steps(facts: BundleFacts) -> dict[str, str]:
    counts: Counter[str] = Counter()
    numbered = {}
    for step in facts.steps:
        counts[step.name] += 1
        numbered[step.name if counts[step.name] == 1 else f"{step.name} ({counts[step.name]})"] = step.what
    return numbered


def _list_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in _merge_names(before, after):
        if before.get(name) != after.get(name):
            yield Change(name, before.get(name), after.get(name))


def _list_figures(before: Mapping[str, float], after: Mapping[str, float], unit: Unit) -> Iterator[Figure]:
    for name in _merge_names(before, after):
        yield Figure(name, unit, before.get(name), after.get(name))


def _merge_names(before: Iterable[str], after: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys([*before, *after])


MIN_ROUNDS, MAX_ROUNDS = 20, 20_000


@dataclass(frozen=True)
class SpeedComparison:
    """``ratio``: the median over the rounds of the second library's time by the first's; ``low`` and ``high``: between
    which 80 % of the rounds are."""

    cpu: str
    threads: int
    before: Spread
    after: Spread
    ratio: float
    low: float
    high: float


def time_bundles(before: BundleFacts, after: BundleFacts, *, threads: int = 1, seconds: float = 3.0) -> SpeedComparison:
    """Run both for about ``seconds`` together. Raises VerifyError where this machine cannot run one of them."""
    with (
        open_call(before.bundle, before.manifest, threads) as first,
        open_call(after.bundle, after.manifest, threads) as second,
    ):
        calls = (first, second)
        for call in calls * WARM_UP:
            call()
        times: list[tuple[float, float]] = []
        end = time.monotonic() + seconds
        while len(times) < MIN_ROUNDS or (time.monotonic() < end and len(times) < MAX_ROUNDS):
            took = [0.0, 0.0]
            for which in (0, 1) if len(times) % 2 else (1, 0):  # the first one finds the other's data in the caches
                begin = time.perf_counter()
                calls[which]()
                took[which] = (time.perf_counter() - begin) * 1000
            times.append((took[0], took[1]))
    old, new = zip(*times, strict=True)
    low, ratio, high = (float(v) for v in np.percentile(np.divide(new, old), (10, 50, 90)))
    return SpeedComparison(cpu_name(), threads, Spread.from_times(old), Spread.from_times(new), ratio, low, high=high)
