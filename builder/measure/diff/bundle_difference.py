"""Comparison of two bundles: size, steps, error against TensorFlow, packages; and speed, where that was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from builder.measure.diff.bundle_facts import BundleFacts
from builder.measure.diff.compare_speed import SpeedComparison

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
