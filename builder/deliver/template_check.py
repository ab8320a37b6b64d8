"""Check a built template against AWS's limits, before a deploy finds them one at a time.

Reads ``.aws-sam/build/template.yaml``, where every CodeUri and ContentUri is a folder, and resolves parameters and
conditions in it. Ranges: see ``builder.pack.limits``. No zip is too large here: `sam deploy` goes through S3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from builder.audit.policy import target_of
from builder.commands import either
from builder.deliver.stage import staged_in
from builder.errors import TemplateError
from builder.pack import limits
from builder.pack.layer import files_of
from builder.targets import DEFAULT

RUNTIMES = ("python3.12", "python3.13", "python3.14")
"""Lambda's runtimes on Amazon Linux 2023, whose glibc is the library's floor."""

LAYER_RUNTIME = "python3.13"
"""What the dependencies layer's compiled modules are for."""

SNAPSTART_TMP_MB = 512
FAILURE_SERVICES = ("sqs", "sns", "s3", "lambda", "events")
"""What takes a function's failed events. A rule's take SQS only."""
_NO_VALUE = {"Ref": "AWS::NoValue"}
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short tags: ``!Ref x`` is {"Ref": x}, any other {"Fn::Tag": value}."""


def _tagged(loader: Any, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}


Loader.add_multi_constructor("!", _tagged)


@dataclass(frozen=True)
class _Scope:
    """What a template's expressions refer to."""

    parameters: Mapping[str, Any]
    conditions: Mapping[str, Any]

    def resolve(self, value: Any) -> Any:
        """``value`` with Refs to parameters, Subs and Ifs replaced; what only AWS knows stays as it is."""
        if isinstance(value, list):
            found = [self.resolve(item) for item in value]
            return [item for item in found if item != _NO_VALUE]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"Ref"} and value["Ref"] in self.parameters:
            return self.parameters[value["Ref"]]
        if value.keys() == {"Fn::If"}:
            name, yes, no = value["Fn::If"]
            return self.resolve(yes if self._holds({"Condition": name}) else no)
        if value.keys() == {"Fn::Sub"} and isinstance(value["Fn::Sub"], str):
            return _VARIABLE.sub(lambda name: str(self.parameters.get(name[1], name[0])), value["Fn::Sub"])
        resolved = {key: self.resolve(item) for key, item in value.items()}
        return {key: item for key, item in resolved.items() if item != _NO_VALUE}

    def has(self, resource: Mapping[str, Any]) -> bool:
        """Whether the resource is there under these parameters."""
        return "Condition" not in resource or self._holds({"Condition": resource["Condition"]})

    def broken(self, rule: Mapping[str, Any]) -> Iterator[str]:
        """What a rule of the template, which CloudFormation holds parameters against, says of these."""
        if self._holds(rule["RuleCondition"]):
            for one in rule["Assertions"]:
                if not self._holds(one["Assert"]):
                    yield str(one["AssertDescription"])

    def _holds(self, condition: Any) -> bool:
        ((kind, value),) = condition.items()
        if kind == "Condition":
            return self._holds(self.conditions[value])
        if kind == "Fn::Equals":
            left, right = self.resolve(value)
            return str(left) == str(right)
        parts = [self._holds(part) for part in value]
        return {"Fn::Not": lambda: not parts[0], "Fn::And": lambda: all(parts), "Fn::Or": lambda: any(parts)}[kind]()


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
        template = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
    except (OSError, yaml.YAMLError) as error:
        yield f"it cannot be read ({error}): run `{either('make sam-build', 'sam build')}`"
        return
    declared = template.get("Parameters", {})
    for name in sorted(parameters.keys() - declared.keys()):  # `sam deploy` would leave them out without a word
        yield f"{name} is no parameter of this template; it has {', '.join(declared)}."
    values = {name: row.get("Default") for name, row in declared.items()} | dict(parameters)
    for name, row in declared.items():
        if values[name] is not None:
            yield from _parameter(name, row, str(values[name]))
        else:
            yield f"{name} is not given, and has no default."
    scope = _Scope(values, template.get("Conditions", {}))
    for rule in template.get("Rules", {}).values():
        yield from scope.broken(rule)
    shared = template.get("Globals", {}).get("Function", {})
    resources = template.get("Resources", {})
    layers = {n: r for n, r in resources.items() if r["Type"] == "AWS::Serverless::LayerVersion"}
    if "ModelName" in values:
        yield from _model(str(values["ModelName"]), layers, path.parent)
    known = {n: {"Type": r["Type"], "Properties": scope.resolve(r.get("Properties", {}))} for n, r in resources.items()}
    for name, resource in known.items():
        if not scope.has(resources[name]):
            continue
        properties = resource["Properties"]
        match resource["Type"]:
            case "AWS::Serverless::Function":
                yield from _function(name, scope.resolve(shared) | properties, layers, path.parent)
            case "AWS::Lambda::EventSourceMapping":
                function, queue = (_named(properties.get(part)) for part in ("FunctionName", "EventSourceArn"))
                yield from _mapping(name, properties, _properties(known, function), _properties(known, queue))
            case "AWS::Lambda::EventInvokeConfig":
                failed = (properties.get("DestinationConfig") or {}).get("OnFailure") or {}
                yield from _destination(name, failed.get("Destination"), known, FAILURE_SERVICES)
            case "AWS::Events::Rule":
                for target in properties.get("Targets") or []:
                    yield from _destination(name, (target.get("DeadLetterConfig") or {}).get("Arn"), known, ("sqs",))


def _parameter(name: str, declared: Mapping[str, Any], value: str) -> Iterator[str]:
    """What CloudFormation would refuse of a parameter's value."""
    if "AllowedValues" in declared and value not in map(str, declared["AllowedValues"]):
        yield f"{name} is {value!r}; it may be {', '.join(map(str, declared['AllowedValues']))}."
    if "AllowedPattern" in declared and not re.fullmatch(declared["AllowedPattern"], value):
        yield f"{name} is {value!r}; it must match {declared['AllowedPattern']}."
    if declared.get("Type") == "Number":
        low, high = declared.get("MinValue", -math.inf), declared.get("MaxValue", math.inf)
        try:
            good = low <= float(value) <= high
        except ValueError:
            good = False
        if not good:
            span = f"from {low} to {high}" if high < math.inf else f"{low} or more"
            yield f"{name} is {value!r}; it must be a number, {span}."


def _model(name: str, layers: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """A layer with another model than the template says: its stack would get that one."""
    for layer in layers.values():
        staged = staged_in(folder / str(layer["Properties"]["ContentUri"]))
        if staged and staged.name != name:
            yield (
                f"ModelName is {name}, but the model layer has {staged.name} {staged.version}: "
                + either(
                    "`make deploy MODEL=...` builds and deploys the model that it names.",
                    "`coldforge stage MODEL` puts that of another model there.",
                )
            )


def _mapping(
    name: str, properties: Mapping[str, Any], function: Mapping[str, Any], queue: Mapping[str, Any]
) -> Iterator[str]:
    """``function``, ``queue``: the properties of those that the template makes, or none."""
    most = (properties.get("ScalingConfig") or {}).get("MaximumConcurrency")
    low, high = limits.QUEUE_CONCURRENCY
    if most is not None and not (str(most).isdecimal() and low <= int(most) <= high):
        yield f"{name}: MaximumConcurrency {most}; Lambda takes {low} to {high}."
        return
    reserved, timeout = str(function.get("ReservedConcurrentExecutions", "")), str(function.get("Timeout", ""))
    if reserved.isdecimal() and 0 < int(reserved) < int(most or high + 1):
        yield (
            f"{name}: the queue may keep {most or 'any number of'} instances busy, and the function has {reserved}: "
            f"what is turned away uses up the attempts of messages. Set QueueMaximumConcurrency to {reserved} at most."
        )
    seconds = str(queue.get("VisibilityTimeout", ""))
    if seconds.isdecimal() and timeout.isdecimal() and int(seconds) < limits.QUEUE_TIMEOUTS * int(timeout):
        yield (
            f"{name}: a message that takes {timeout} s would come again after {seconds} s, when it may still be worked "
            f"on: set QueueVisibilityTimeout to {limits.QUEUE_TIMEOUTS * int(timeout)} at least."
        )


def _properties(resources: Mapping[str, Any], name: str) -> dict[str, Any]:
    return dict(resources.get(name, {}).get("Properties") or {})


def _named(value: Any) -> str:
    """The logical id that ``!Ref Name.Part`` or ``!GetAtt Name.Part`` is about; empty where it is neither.

    ``!GetAtt`` is "Name.Part", or [Name, Part] as `sam build` writes it.
    """
    if not isinstance(value, dict):
        return ""
    (found,) = value.values()
    return str(found[0]) if isinstance(found, list) else str(found).partition(".")[0]


def _destination(name: str, arn: Any, resources: Mapping[str, Any], services: tuple[str, ...]) -> Iterator[str]:
    """``arn``: of what takes failed events, as text or as ``!GetAtt`` of a resource; None where there is none."""
    if isinstance(arn, dict) and "Fn::GetAtt" in arn:
        resource = resources.get(_named(arn), {})
        service = str(resource.get("Type", "::")).split("::")[1].lower()
        ordered = bool(_properties(resources, _named(arn)).get("FifoQueue"))
    elif isinstance(arn, str):
        service, ordered = (arn.split(":") + [""] * 3)[2], arn.endswith(".fifo")
    else:
        return
    if service not in services:
        yield f"{name}: what fails goes to {service or arn}; AWS takes {', '.join(services)} here."
    elif ordered:
        yield f"{name}: what fails goes to a FIFO queue or topic; AWS takes a standard one."


def _function(name: str, properties: Mapping[str, Any], layers: Mapping[str, Any], folder: Path) -> Iterator[str]:
    storage = (properties.get("EphemeralStorage") or {}).get("Size")
    memory = (limits.MEMORY_MIN_MB, limits.MEMORY_MAX_MB)
    if properties.get("CapacityProviderConfig"):
        memory = (limits.INSTANCE_MEMORY_MIN_MB, limits.INSTANCE_MEMORY_MAX_MB)
        yield from _instances(name, properties)
    for what, number, low, high, unit in (
        ("MemorySize", properties.get("MemorySize"), *memory, "MB"),
        ("Timeout", properties.get("Timeout"), 1, limits.TIMEOUT_MAX_S, "s"),
        ("/tmp (EphemeralStorage)", storage, limits.TMP_MIN_MB, limits.TMP_MAX_MB, "MB"),
    ):
        if number is not None and not (str(number).isdecimal() and low <= int(number) <= high):
            yield f"{name}: {what} {number} {unit}; Lambda takes {low} to {high}."
    variables = (properties.get("Environment") or {}).get("Variables") or {}
    size = sum(len(str(text).encode()) for text in [*variables, *variables.values()])
    if size > limits.ENVIRONMENT:
        yield f"{name}: {size:,} bytes of environment variables; Lambda takes {limits.ENVIRONMENT:,}."
    image = properties.get("PackageType", "Zip") == "Image"
    yield from _concurrency(name, properties)
    if image and properties.get("CodeSigningConfigArn"):
        yield f"{name}: code signing is for zip functions, and this one is a container image."
    if (properties.get("SnapStart") or {}).get("ApplyOn") == "PublishedVersions":
        yield from _snap_start(name, properties, storage, image)
    if not image:
        yield from _zip_function(name, properties, layers, folder)


def _concurrency(name: str, properties: Mapping[str, Any]) -> Iterator[str]:
    reserved = properties.get("ReservedConcurrentExecutions")
    started = (properties.get("ProvisionedConcurrencyConfig") or {}).get("ProvisionedConcurrentExecutions", 0)
    if reserved is None:
        return
    if not str(reserved).isdecimal():
        yield f"{name}: {reserved} reserved instances; Lambda takes a number, 0 or more."
    elif str(started).isdecimal() and int(started) > int(reserved):
        yield f"{name}: {started} provisioned instances are more than its {reserved} reserved ones."


def _instances(name: str, properties: Mapping[str, Any]) -> Iterator[str]:
    """What Lambda would refuse of a function on managed instances."""
    each = properties["CapacityProviderConfig"].get("ExecutionEnvironmentMemoryGiBPerVCpu")
    memory = str(properties.get("MemorySize", ""))
    if each is not None and memory.isdecimal() and int(memory) < 1024 * float(each):
        yield f"{name}: MemorySize {memory} MB is less than one processor has with {each} GB for each."
    scaling = properties.get("FunctionScalingConfig") or {}
    least, most = (str(scaling.get(f"{end}ExecutionEnvironments", "")) for end in ("Min", "Max"))
    if least.isdecimal() and most.isdecimal() and int(least) > int(most):
        yield f"{name}: {least} environments at least are more than {most} at most."


def _snap_start(name: str, properties: Mapping[str, Any], storage: Any, image: bool) -> Iterator[str]:
    if image:
        yield f"{name}: SnapStart is for zip functions, and this one is a container image."
    if properties.get("ProvisionedConcurrencyConfig"):
        yield f"{name}: Lambda takes SnapStart or provisioned concurrency, not both."
    if properties.get("FileSystemConfigs"):
        yield f"{name}: Lambda takes SnapStart or a file system, not both."
    if storage is not None and str(storage).isdecimal() and int(storage) > SNAPSTART_TMP_MB:
        yield f"{name}: with SnapStart, /tmp has {SNAPSTART_TMP_MB} MB at most, not {storage}."


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
        if found and found.architecture != architecture:
            again = either(
                f"`make bundle TARGET={architecture}`, then `make deploy TARGET={architecture}`",
                f"`coldforge bundle --target {architecture}`",
            )
            yield (
                f"{name}: its architecture is {architecture}, but {path.relative_to(folder)} in {layer} "
                f"is for {found.name}: {again}."
            )
            return


def _zip_function(name: str, properties: Mapping[str, Any], layers: Mapping[str, Any], folder: Path) -> Iterator[str]:
    runtime, used = properties.get("Runtime"), properties.get("Layers") or []
    if runtime not in RUNTIMES:
        yield f"{name}: runtime {runtime}; libmodel.so needs Amazon Linux 2023: {', '.join(RUNTIMES)}."
    elif runtime != LAYER_RUNTIME:
        yield f"{name}: runtime {runtime}, but the dependencies layer is built for {LAYER_RUNTIME}."
    if len(used) > limits.MAX_LAYERS:
        yield f"{name}: {len(used)} layers; Lambda takes {limits.MAX_LAYERS}."
    folders = _folders(used, layers, folder)
    code = folder / str(properties.get("CodeUri"))
    total = sum(file.stat().st_size for place in [code, *folders.values()] for _, file in files_of(place))
    if total > limits.LAMBDA_UNZIPPED:
        yield (
            f"{name}: {total:,} bytes unzipped with its layers, over {limits.LAMBDA_UNZIPPED:,}: "
            "use a smaller network, or PACKAGE=image."
        )
    architecture = (properties.get("Architectures") or [DEFAULT.architecture])[0]
    for layer, place in folders.items():
        yield from _machines(name, architecture, layer, place)
