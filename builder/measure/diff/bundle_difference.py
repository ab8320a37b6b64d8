"""Two bundles compared: size, steps, error against TensorFlow, packages; and speed, where that was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from builder.measure.diff.bundle_facts import Facts
from builder.measure.diff.compare_speed import Speed

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
class Difference:
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
    """How many fused steps both have alike."""
    errors: tuple[Figure, ...]
    """Against TensorFlow."""
    packages: tuple[Change, ...]
    speed: Speed | None = None
    """None where it was not measured."""


def compare(before: Facts, after: Facts, speed: Speed | None = None) -> Difference:
    """What is different in ``after``."""
    steps, same = _steps(before, after)
    return Difference(
        before=before.title,
        after=after.title,
        same_library=_library(before) == _library(after),
        interface=tuple(_changes(_interface(before.manifest), _interface(after.manifest))),
        sizes=tuple(_figures(_sizes(before), _sizes(after), "bytes")),
        steps=tuple(steps),
        same_steps=same,
        errors=tuple(_figures(_errors(before), _errors(after), "error")),
        packages=tuple(_changes(_packages(before), _packages(after))),
        speed=speed,
    )


def _library(facts: Facts) -> str:
    return str(facts.manifest["files"]["layer/lib/libmodel.so"]["sha256"])


def _sizes(facts: Facts) -> dict[str, int]:
    """Bytes by name: what Lambda counts first, then the library's parts."""
    sizes = facts.bundle.sizes
    found = {"function and layers, zipped": sizes.zipped, "function and layers, unzipped": sizes.unzipped}
    for part in sizes.components:
        found |= {f"{part.name}, zipped": part.zipped, f"{part.name}, unzipped": part.unzipped}
    found |= {f"libmodel.so: {name}": count for name, count in facts.sections.items()}
    return found | {"weights": facts.manifest["lowering"]["weights"]["bytes"]}


def _errors(facts: Facts) -> dict[str, float]:
    """The worst error of each output against TensorFlow, as the manifest records it."""
    outputs = facts.manifest["verification"]["outputs"]
    found = {f"{output['output']}, worst absolute": output["max_absolute"] for output in outputs}
    found |= {f"{output['output']}, worst relative": output["max_relative"] for output in outputs}
    wrong = {
        f"{output['output']}, top-1 unlike TensorFlow's": output["top1_wrong"]
        for output in outputs
        if output["top1_rows"]
    }
    return found | wrong


def _interface(manifest: Mapping[str, Any]) -> dict[str, str]:
    model = manifest["model"]
    found = {"model": f"{model['name']} {model['version']}", "processor": " ".join(manifest["target"]["isa"])}
    found["trained model"] = " ".join(f"{key} {value}" for key, value in sorted(model["source"].items()))
    for kind in ("feed", "fetch"):
        ports = manifest["feeds" if kind == "feed" else "fetches"]
        found |= {f"{kind} {port['name']}": f"{port['dtype']} {port['shape']}" for port in ports}
    found["ABI"] = str(manifest["abi"])
    found["lowering"] = manifest["lowering"]["path"]
    return found | {f"built with {tool}": version for tool, version in manifest["built_with"].items()}


def _packages(facts: Facts) -> dict[str, str]:
    return {package.name: str(package) for package in facts.packages}


def _steps(before: Facts, after: Facts) -> tuple[list[Change], int]:
    """Steps that are another, and how many are the same. Of one name, the first goes with the first."""
    old, new = _numbered(before), _numbered(after)
    changes = list(_changes(old, new))
    return changes, sum(old[name] == new.get(name) for name in old)


def _numbered(facts: Facts) -> dict[str, str]:
    seen: Counter[str] = Counter()
    found = {}
    for step in facts.steps:
        seen[step.name] += 1
        found[step.name if seen[step.name] == 1 else f"{step.name} ({seen[step.name]})"] = step.what
    return found


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in _names(before, after):
        if before.get(name) != after.get(name):
            yield Change(name, before.get(name), after.get(name))


def _figures(before: Mapping[str, float], after: Mapping[str, float], unit: Unit) -> Iterator[Figure]:
    for name in _names(before, after):
        yield Figure(name, unit, before.get(name), after.get(name))


def _names(before: Iterable[str], after: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys([*before, *after])
