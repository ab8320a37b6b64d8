"""Check of a template and the values of its parameters before a deploy uploads anything.

It reads ``.aws-sam/build/template.yaml``, where every CodeUri and ContentUri is a folder. cfn-lint does the checks that
need neither values nor files. No zip is too large here: `sam deploy` goes through S3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from builder.base.commands import choose_command
from builder.base.errors import TemplateError
from builder.compiler.audit.audit_library import find_target
from builder.config import LAMBDA_UNZIPPED
from builder.package.lambda_limits import QUEUE_TIMEOUTS
from builder.package.layer import files_of
from builder.release.activate_bundle import read_active_bundle
from builder.release.compose import ADDONS

LAYERS = "AWS::Serverless::LayerVersion"
AT_LEAST = (
    ("QueueVisibilityTimeout", QUEUE_TIMEOUTS, "Timeout", "a message would come again while it is worked on"),
    ("ReservedConcurrency", 1, "QueueMaximumConcurrency", "a message that is turned away loses one of its attempts"),
    ("ReservedConcurrency", 1, "ExistingQueueMaximumConcurrency", "a message that is turned away loses an attempt"),
    ("ReservedConcurrency", 1, "ProvisionedConcurrency", "what is always started is taken from what is reserved"),
    ("MemorySize", 1024, "MemoryPerProcessor", "an environment has one whole processor at least"),
    ("MostEnvironments", 1, "LeastEnvironments", "the least is no more than the most"),
)
"""Rows of (parameter, factor, other, reason): the parameter is at least ``factor`` times the other.

ReservedConcurrency may also be 0, which stops the function.
"""


class TemplateLoader(yaml.SafeLoader):
    """A loader of YAML with CloudFormation's short tags: ``!Ref x`` is {"Ref": x}, any other {"Fn::Tag": value}."""


def _construct_tagged(loader: Any, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}


TemplateLoader.add_multi_constructor("!", _construct_tagged)


def required_parameters(template: str) -> list[str]:
    """Return the names of the parameters that have no default in the text of a template."""
    declared = yaml.load(template, Loader=TemplateLoader)["Parameters"]
    return [name for name, row in declared.items() if "Default" not in row]


def require_deployable(path: Path, parameters: Mapping[str, str] | None = None) -> None:
    """Raise TemplateError listing everything in the built template at ``path`` that AWS would refuse.

    ``parameters`` override the template's defaults, as ``sam deploy --parameter-overrides`` does.
    """
    problems = list(list_problems(path, parameters or {}))
    if problems:
        raise TemplateError(f"{path} cannot be deployed:\n  " + "\n  ".join(problems))


def list_problems(path: Path, parameters: Mapping[str, str]) -> Iterator[str]:
    """Yield each problem as a sentence with the next step."""
    try:
        template = yaml.load(path.read_text(encoding="utf-8"), Loader=TemplateLoader)
    except (OSError, yaml.YAMLError) as error:
        yield f"it cannot be read ({error}): run `{choose_command('make sam-build', 'sam build')}`"
        return
    declared = template.get("Parameters", {})
    for name in sorted(parameters.keys() - declared.keys()):  # `sam deploy` would leave them out silently.
        yield f"{name} is no parameter of this template{_suggest_addon(name)}; it has {', '.join(declared)}."
    values = {name: row.get("Default") for name, row in declared.items()} | dict(parameters)
    for name, row in declared.items():
        if values[name] is not None:
            yield from _check_parameter(name, row, str(values[name]))
        else:
            yield f"{name} is not given, and has no default."
    yield from _compare_parameters(values)
    resources = template.get("Resources", {})
    folders = {
        name: path.parent / str(resource["Properties"][key])
        for name, resource in resources.items()
        for key in {"CodeUri", "ContentUri"} & (resource.get("Properties") or {}).keys()
    }
    layers = {name: folder for name, folder in folders.items() if resources[name]["Type"] == LAYERS}
    for folder in layers.values() if "ModelName" in values else ():
        yield from _check_model(str(values["ModelName"]), folder)
    yield from _check_size(folders)
    for name, folder in layers.items() if "Architecture" in values else ():
        yield from _check_machines(values["Architecture"], name, folder)


def _suggest_addon(parameter: str) -> str:
    """Return words that name the add-on which has ``parameter``, to end a message; empty where none has it."""
    for path in sorted(ADDONS.glob("*.yaml")):
        if parameter in (yaml.load(path.read_text(encoding="utf-8"), Loader=TemplateLoader).get("Parameters") or {}):
            return f" (the add-on {path.stem} has it: --with {path.stem})"
    return ""


def _check_parameter(name: str, declared: Mapping[str, Any], value: str) -> Iterator[str]:
    """Yield the reasons for which CloudFormation would refuse a parameter's value."""
    if "AllowedValues" in declared and value not in map(str, declared["AllowedValues"]):
        yield f"{name} is {value!r}; it may be {', '.join(map(str, declared['AllowedValues']))}."
    if "AllowedPattern" in declared and not re.fullmatch(declared["AllowedPattern"], value):
        yield f"{name} is {value!r}; it must match {declared['AllowedPattern']}."
    if len(value) > declared.get("MaxLength", math.inf):
        yield f"{name} has {len(value)} characters; it may have {declared['MaxLength']}."
    if declared.get("Type") == "Number":
        low, high = declared.get("MinValue", -math.inf), declared.get("MaxValue", math.inf)
        try:
            good = low <= float(value) <= high
        except ValueError:
            good = False
        if not good:
            span = f"from {low} to {high}" if high < math.inf else f"{low} or more"
            yield f"{name} is {value!r}; it must be a number, {span}."


def _compare_parameters(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield each parameter that is too small compared with another one, by AT_LEAST."""
    for name, factor, other, reason in AT_LEAST:
        least, actual = str(values.get(other, "0")) or "any number", str(values.get(name, ""))
        stops = name == "ReservedConcurrency" and actual == "0"
        if not actual.isdecimal() or stops:
            continue
        if not least.isdecimal() or int(actual) < factor * int(least):
            times = f"{factor} times " if factor > 1 else ""
            yield f"{name} is {actual}, and {other} is {least}: {reason}. {name} must be {times}{other} at least."


def _check_model(name: str, layer: Path) -> Iterator[str]:
    """Yield a problem where the layer has another model than the template says: its stack would get that one."""
    staged = read_active_bundle(layer)
    if staged and staged.name != name:
        yield (
            f"ModelName is {name}, but the model layer has {staged.name} {staged.version}: "
            + choose_command(
                "`make deploy MODEL=...` builds and deploys the model that it names.",
                "`coldforge stage MODEL` puts that of another model there.",
            )
        )


def _check_size(folders: Mapping[str, Path]) -> Iterator[str]:
    total = sum(file.stat().st_size for folder in folders.values() for _, file in files_of(folder))
    if total > LAMBDA_UNZIPPED:
        yield (
            f"{total:,} bytes unzipped, function and layers, are over {LAMBDA_UNZIPPED:,}: "
            "use a smaller network, or PACKAGE=image."
        )


def _check_machines(architecture: Any, layer: str, folder: Path) -> Iterator[str]:
    """Yield the first library of a layer that is for another processor."""
    for path in sorted(folder.rglob("*.so")):
        library_target = find_target(path)
        if library_target and library_target.architecture != architecture:
            again = choose_command(
                f"`make bundle TARGET={architecture}`, then `make deploy TARGET={architecture}`",
                f"`coldforge bundle --target {architecture}`",
            )
            library = path.relative_to(folder)
            yield f"Architecture is {architecture}, but {library} in {layer} is for {library_target.name}: {again}."
            return
