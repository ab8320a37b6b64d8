"""Comparison of two bundles by what their files state (sizes, steps, errors, packages), and by speed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
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
class BundleFacts:
    """Facts that a bundle's own files state, by name. Nothing of the bundle runs.

    ``sizes`` are in bytes; ``errors`` are the worst ones against TensorFlow.
    """

    bundle: Bundle
    manifest: Mapping[str, Any]
    title: str
    library_digest: str
    interface: Mapping[str, str]
    sizes: Mapping[str, int]
    steps: Mapping[str, str]
    errors: Mapping[str, float]
    packages: Mapping[str, str]

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
        try:
            model = manifest["model"]
            return cls(
                bundle,
                manifest,
                title=f"{model['name']} {model['version']}, {manifest['target']['arch']}",
                library_digest=manifest["files"]["layer/lib/libmodel.so"]["sha256"],
                interface=_read_interface(manifest),
                sizes=_read_sizes(bundle, manifest),
                steps=_read_steps(manifest["lowering"]),
                errors=_read_errors(manifest["verification"]["outputs"]),
                packages=_read_packages(parse_json(bundle.sbom.read_text(encoding="utf-8"))),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BundleError(f"the bundle in {folder} cannot be read ({error!r}); build it again.") from error


def _read_interface(manifest: Mapping[str, Any]) -> dict[str, str]:
    model = manifest["model"]
    interface = {"model": f"{model['name']} {model['version']}", "processor": " ".join(manifest["target"]["isa"])}
    interface["trained model"] = " ".join(f"{key} {value}" for key, value in sorted(model["source"].items()))
    for kind, ports in (("feed", manifest["feeds"]), ("fetch", manifest["fetches"])):
        interface |= {f"{kind} {port['name']}": f"{port['dtype']} {port['shape']}" for port in ports}
    interface |= {"ABI": str(manifest["abi"]), "lowering": manifest["lowering"]["path"]}
    return interface | {f"built with {tool}": version for tool, version in manifest["built_with"].items()}


def _read_sizes(bundle: Bundle, manifest: Mapping[str, Any]) -> dict[str, int]:
    """Read the sizes that Lambda counts, then the library's parts, from its ELF header, and its weights."""
    sizes = {"function and layers, zipped": bundle.sizes.zipped, "function and layers, unzipped": bundle.sizes.unzipped}
    for part in bundle.sizes.components:
        sizes |= {f"{part.name}, zipped": part.zipped, f"{part.name}, unzipped": part.unzipped}
    facts = read_facts(bundle.library)
    sections = dict(facts.sections)
    code, constants = sections.get(".text", 0), sections.get(".rodata", 0)
    parts = {"code": code, "constants": constants, "tables": facts.size - code - constants}
    sizes |= {f"libmodel.so: {name}": count for name, count in parts.items()}
    return sizes | {"weights": manifest["lowering"]["weights"]["bytes"]}


def _read_steps(lowering: Mapping[str, Any]) -> dict[str, str]:
    """Describe each fused step, by its layer's name in the model or else its own; equal names get a number."""
    layers = {layer["step"]: layer for layer in lowering["weights"]["layers"]}
    counts: Counter[str] = Counter()
    steps = {}
    for step in lowering["fused_steps"]:
        layer = layers.get(step["step"], {})
        name = layer.get("layer") or step["step"]
        counts[name] += 1
        parts = (step["kind"], step["algorithm"], " + ".join(step["fused"]), step.get("geometry"), layer.get("type"))
        steps[name if counts[name] == 1 else f"{name} ({counts[name]})"] = ", ".join(filter(None, parts))
    return steps


def _read_errors(outputs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    errors = {f"{output['output']}, worst absolute": output["max_absolute"] for output in outputs}
    errors |= {f"{output['output']}, worst relative": output["max_relative"] for output in outputs}
    classes = (output for output in outputs if output["top1_rows"])
    return errors | {f"{output['output']}, top-1 unlike the model's own": output["top1_wrong"] for output in classes}


def _read_packages(bill: Mapping[str, Any]) -> dict[str, str]:
    """Read version and licence of the packages, without the model and its library, which are the bundle's own."""
    packages = {}
    for component in bill["components"]:
        if "licenses" in component:
            licence = " AND ".join(entry["expression"] for entry in component["licenses"])
            packages[component["name"]] = f"{component.get('version') or 'no version'}, {licence or 'no licence'}"
    return packages


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
    return BundleDifference(
        before=before.title,
        after=after.title,
        same_library=before.library_digest == after.library_digest,
        interface=_list_changes(before.interface, after.interface),
        sizes=_list_figures(before.sizes, after.sizes, "bytes"),
        steps=_list_changes(before.steps, after.steps),
        same_steps=sum(what == after.steps.get(name) for name, what in before.steps.items()),
        errors=_list_figures(before.errors, after.errors, "error"),
        packages=_list_changes(before.packages, after.packages),
        speed=speed,
    )


def _list_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    names = dict.fromkeys([*before, *after])
    return tuple(Change(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n))


def _list_figures(before: Mapping[str, float], after: Mapping[str, float], unit: Unit) -> tuple[Figure, ...]:
    names = dict.fromkeys([*before, *after])
    return tuple(Figure(name, unit, before.get(name), after.get(name)) for name in names)


MIN_ROUNDS, MAX_ROUNDS = 20, 20_000


@dataclass(frozen=True)
class SpeedComparison:
    """The median ``ratio``, over the rounds, of the second library's time by the first's.

    ``low`` and ``high``: 80 % of the rounds are between them.
    """

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
