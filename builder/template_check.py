"""Check a built template against Lambda's limits, before a deploy finds them one at a time.

Reads ``.aws-sam/build/template.yaml``, where every CodeUri and ContentUri is a folder, and fills in parameters'
defaults. Ranges: see ``builder.pack.limits``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from builder.audit.policy import target_of
from builder.errors import TemplateError
from builder.pack import limits
from builder.pack.layer import measure

RUNTIMES = ("python3.12", "python3.13", "python3.14")
"""Lambda's runtimes on Amazon Linux 2023, whose glibc is the library's floor."""

LAYER_RUNTIME = "python3.13"
"""What the dependencies layer's compiled modules are for."""


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short tags: ``!Ref x`` is {"Ref": x}, any other {"Fn::Tag": value}."""


def _tagged(loader: Any, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _tagged)


def require(path: Path, parameters: Mapping[str, str] | None = None) -> None:
    """Raise TemplateError listing everything in the built template at ``path`` that Lambda would refuse.

    ``parameters`` override the template's defaults, as ``sam deploy --parameter-overrides`` does.
    """
    found = list(problems(path, parameters or {}))
    if found:
        raise TemplateError(f"{path} cannot be deployed:\n  " + "\n  ".join(found))


def problems(path: Path, parameters: Mapping[str, str]) -> Iterator[str]:
    """Each problem as a sentence with what to do."""
    try:
        template = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, yaml.YAMLError) as error:
        yield f"it cannot be read ({error}): run `make sam-build`"
        return
    values = {name: row.get("Default") for name, row in template.get("Parameters", {}).items()} | dict(parameters)
    resources = template.get("Resources", {})
    layers = {n: r for n, r in resources.items() if r["Type"] == "AWS::Serverless::LayerVersion"}
    for name, resource in resources.items():
        if resource["Type"] == "AWS::Serverless::Function":
            yield from _function(name, resource.get("Properties", {}), values, layers, path.parent)


def _function(
    name: str, properties: Mapping[str, Any], values: Mapping[str, Any], layers: Mapping[str, Any], folder: Path
) -> Iterator[str]:
    def value(key: str, default: Any = None) -> Any:
        found = properties.get(key, default)
        return values.get(found["Ref"]) if isinstance(found, dict) and "Ref" in found else found

    for key, low, high, unit in (
        ("MemorySize", limits.MEMORY_MIN_MB, limits.MEMORY_MAX_MB, "MB"),
        ("Timeout", 1, limits.TIMEOUT_MAX_S, "s"),
    ):
        number = value(key)
        if number is not None and not low <= int(number) <= high:
            yield f"{name}: {key} {number} {unit}; Lambda takes {low} to {high}."
    storage = (properties.get("EphemeralStorage") or {}).get("Size")
    if storage is not None and not limits.TMP_MIN_MB <= int(storage) <= limits.TMP_MAX_MB:
        yield f"{name}: /tmp of {storage} MB; Lambda takes {limits.TMP_MIN_MB} to {limits.TMP_MAX_MB}."
    variables = (properties.get("Environment") or {}).get("Variables") or {}
    texts = [values.get(v["Ref"]) if isinstance(v, dict) and "Ref" in v else v for v in variables.values()]
    size = sum(len(str(text)) for text in [*variables, *texts])
    if size > limits.ENVIRONMENT:
        yield f"{name}: {size:,} bytes of environment variables; Lambda takes {limits.ENVIRONMENT:,}."
    if value("PackageType", "Zip") == "Image":
        return
    yield from _zip_function(name, value("Runtime"), value("CodeUri"), properties.get("Layers") or [], layers, folder)
    architecture = (properties.get("Architectures") or ["x86_64"])[0]
    if isinstance(architecture, dict) and "Ref" in architecture:
        architecture = values.get(architecture["Ref"])
    for layer, place in _folders(properties.get("Layers") or [], layers, folder).items():
        yield from _machines(name, architecture, layer, place)


def _folders(used: list[Any], layers: Mapping[str, Any], folder: Path) -> dict[str, Path]:
    """The folders of the layers among ``used`` that the template itself makes, by logical id."""
    return {
        layer["Ref"]: folder / str(layers[layer["Ref"]]["Properties"]["ContentUri"])
        for layer in used
        if isinstance(layer, dict) and layer.get("Ref") in layers
    }


def _machines(name: str, architecture: Any, layer: str, folder: Path) -> Iterator[str]:
    """The first library of a layer that is for another processor."""
    for path in sorted(folder.rglob("*.so")):
        found = target_of(path)
        if found not in (None, architecture):
            again = f"`make bundle TARGET={architecture}`, then `make deploy TARGET={architecture}`"
            yield (
                f"{name}: its architecture is {architecture}, but {path.relative_to(folder)} in {layer} "
                f"is for {found}: {again}."
            )
            return


def _zip_function(
    name: str, runtime: Any, code: Any, used: list[Any], layers: Mapping[str, Any], folder: Path
) -> Iterator[str]:
    if runtime not in RUNTIMES:
        yield f"{name}: runtime {runtime}; libmodel.so needs Amazon Linux 2023: {', '.join(RUNTIMES)}."
    elif runtime != LAYER_RUNTIME:
        yield f"{name}: runtime {runtime}, but the dependencies layer is built for {LAYER_RUNTIME}."
    if len(used) > limits.MAX_LAYERS:
        yield f"{name}: {len(used)} layers; Lambda takes {limits.MAX_LAYERS}."
    folders = {name: folder / str(code)} | _folders(used, layers, folder)
    total = sum(measure(part, place).unzipped for part, place in folders.items() if place.is_dir())
    if total > limits.LAMBDA_UNZIPPED:
        yield (
            f"{name}: {total:,} bytes unzipped with its layers, over {limits.LAMBDA_UNZIPPED:,}: "
            "use a smaller network, or PACKAGE=image."
        )
