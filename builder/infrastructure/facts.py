"""What other tools say of template.yaml: its parameters, and what it gives out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from builder.deliver.template_check import Loader
from builder.errors import UsageError


@dataclass(frozen=True)
class Parameter:
    """One of the template's. ``values``: all that it takes, empty for any; ``pattern``: what all of it must match."""

    name: str
    description: str
    default: str
    number: bool
    several: bool
    values: tuple[str, ...]
    pattern: str
    least: float | None
    most: float | None

    @property
    def snake(self) -> str:
        return snake_case(self.name)


@dataclass(frozen=True)
class Facts:
    """``template``: all of it, without short tags; ``outputs``: descriptions by name."""

    template: dict[str, Any]
    parameters: tuple[Parameter, ...]
    outputs: dict[str, str]


def facts_of(path: Path) -> Facts:
    """What the template at ``path`` says. Raises UsageError where there is none."""
    if not path.is_file():
        raise UsageError(f"there is no {path}: run this where your template.yaml is.")
    template = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
    parameters = tuple(_parameter(name, row) for name, row in template["Parameters"].items())
    outputs = {name: str(row.get("Description", "")) for name, row in template["Outputs"].items()}
    return Facts(_listed(template), parameters, outputs)


def snake_case(name: str) -> str:
    """``ModelName`` as ``model_name``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _listed(value: Any) -> Any:
    """``value`` with what Fn::GetAtt asks for as a list, which is JSON's form of it."""
    if isinstance(value, list):
        return [_listed(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"Fn::GetAtt"} and isinstance(value["Fn::GetAtt"], str):
        return {"Fn::GetAtt": value["Fn::GetAtt"].split(".", 1)}
    return {key: _listed(item) for key, item in value.items()}


def _parameter(name: str, row: Mapping[str, Any]) -> Parameter:
    return Parameter(
        name,
        " ".join(str(row.get("Description", "")).split()),
        str(row["Default"]),
        row["Type"] == "Number",
        row["Type"] == "CommaDelimitedList",
        tuple(map(str, row.get("AllowedValues", ()))),
        str(row.get("AllowedPattern", "")),
        row.get("MinValue"),
        row.get("MaxValue"),
    )
