"""The templates against Lambda's limits, and the image template against the one it is made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from builder.deliver.template_check import _Loader, problems, require
from builder.errors import TemplateError
from builder.pack.image import TEMPLATE, image_template
from tests.conftest import ROOT

LAYERS = """\
  Model:
    Type: AWS::Serverless::LayerVersion
    Properties:
      ContentUri: Model
"""
BUILT = """\
Parameters:
  Architecture:
    Default: x86_64
  MemorySize:
    Default: {memory}
  Snap:
    Default: "{snap}"
  Provisioned:
    Default: {provisioned}
Conditions:
  Snapped: !Equals [!Ref Snap, "on"]
  Reserved: !Not [!Equals [!Ref Provisioned, "0"]]
Resources:
  Function:
    Type: AWS::Serverless::Function
    Properties:
      PackageType: {package}
      SnapStart:
        ApplyOn: !If [Snapped, PublishedVersions, None]
      ProvisionedConcurrencyConfig: !If
        - Reserved
        - ProvisionedConcurrentExecutions: !Ref Provisioned
        - !Ref AWS::NoValue
      CodeUri: Function
      Runtime: {runtime}
      Architectures: [!Ref Architecture]
      MemorySize: !Ref MemorySize
      Timeout: {timeout}
      EphemeralStorage:
        Size: {storage}
      Environment:
        Variables:
          LONG: {text}
      Layers: [{layers}]
      Role: !GetAtt Role.Arn
"""
GOOD = {
    "memory": 1769, "runtime": "python3.13", "timeout": 15, "storage": 512, "text": "x", "layers": "!Ref Model",
    "snap": "off", "provisioned": 0, "package": "Zip",
}  # fmt: skip


def built(folder: Path, **changes: object) -> Path:
    path = folder / "template.yaml"
    path.write_text(BUILT.format(**{**GOOD, **changes}) + LAYERS)
    (folder / "Model").mkdir(exist_ok=True)
    return path


def test_a_good_template_passes(tmp_path: Path) -> None:
    require(built(tmp_path))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"memory": 64}, "MemorySize 64 MB; Lambda takes 128 to 10240"),
        ({"memory": 10_241}, "MemorySize 10241"),
        ({"timeout": 901}, "Timeout 901 s"),
        ({"timeout": 0}, "Timeout 0 s"),
        ({"storage": 100}, "/tmp (EphemeralStorage) 100 MB"),
        ({"memory": "plenty"}, "MemorySize plenty"),
        ({"timeout": "!If [Snapped, 1000, 2000]"}, "Timeout 2000 s"),
        ({"text": "y" * 5000}, "5,004 bytes of environment"),
        ({"text": "é" * 2500}, "5,004 bytes of environment"),
        ({"text": '!Sub "${MemorySize}' + "y" * 5000 + '"'}, "5,008 bytes of environment"),
        ({"snap": "on", "provisioned": 2}, "SnapStart or provisioned concurrency, not both"),
        ({"snap": "on", "storage": 1024}, "with SnapStart, /tmp has 512 MB at most"),
        ({"snap": "on", "package": "Image"}, "SnapStart is for zip functions"),
        ({"runtime": "python3.9"}, "runtime python3.9; libmodel.so needs Amazon Linux 2023"),
        ({"runtime": "python3.12"}, "the dependencies layer is built for python3.13"),
        ({"layers": ", ".join(["!Ref Model"] * 6)}, "6 layers; Lambda takes 5"),
    ],
)
def test_what_lambda_refuses(tmp_path: Path, change: dict[str, object], says: str) -> None:
    with pytest.raises(TemplateError, match="Function: ") as caught:
        require(built(tmp_path, **change))
    assert says in str(caught.value)
    assert caught.value.exit_code == 21


def test_all_problems_at_once(tmp_path: Path) -> None:
    assert len(list(problems(built(tmp_path, memory=1, timeout=1000, runtime="nodejs22.x"), {}))) == 3


def test_parameters_override_defaults(tmp_path: Path) -> None:
    assert list(problems(built(tmp_path), {"MemorySize": "20000"})) != []
    assert list(problems(built(tmp_path, memory=64), {"MemorySize": "2000", "Snap": "on"})) == []


def test_a_parameter_that_is_none_is_named(tmp_path: Path) -> None:
    (problem,) = problems(built(tmp_path), {"SnapStrat": "on"})
    assert problem == "SnapStrat is no parameter of this template; it has Architecture, MemorySize, Snap, Provisioned."


@pytest.mark.parametrize(("of_library", "machine"), [("x86_64", 62), ("arm64", 183)])
def test_a_library_for_another_processor_is_refused(tmp_path: Path, of_library: str, machine: int) -> None:
    path = built(tmp_path)
    (tmp_path / "Model" / "lib").mkdir()
    elf = b"\x7fELF\x02\x01\x01" + bytes(9) + (3).to_bytes(2, "little") + machine.to_bytes(2, "little")
    (tmp_path / "Model" / "lib" / "libmodel.so").write_bytes(elf)
    for architecture in ("x86_64", "arm64"):
        found = list(problems(path, {"Architecture": architecture}))
        if architecture == of_library:
            assert found == []
        else:
            assert found == [
                f"Function: its architecture is {architecture}, but lib/libmodel.so in Model is for {of_library}: "
                f"`make bundle TARGET={architecture}`, then `make deploy TARGET={architecture}`."
            ]


def test_too_large_together_recommends_the_image(tmp_path: Path) -> None:
    path = built(tmp_path)
    with (tmp_path / "Model" / "weights").open("wb") as file:
        file.truncate(262_144_001)
    with pytest.raises(TemplateError, match="PACKAGE=image"):
        require(path)


def test_a_template_that_was_not_built(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="make sam-build"):
        require(tmp_path / "none.yaml")


def evaluated(value: Any, parameters: dict[str, str], conditions: dict[str, Any]) -> Any:
    """``value`` as CloudFormation computes it, as far as a policy needs it."""

    def of(value: Any) -> Any:
        return evaluated(value, parameters, conditions)

    if not isinstance(value, dict):
        return [of(item) for item in value] if isinstance(value, list) else value
    ((kind, inner),) = value.items()
    if kind == "Ref":
        return parameters[inner]
    if kind == "Fn::Equals":
        return of(inner[0]) == of(inner[1])
    if kind == "Fn::If":
        return of(inner[1] if of(conditions[inner[0]]) else inner[2])
    if kind == "Fn::Split":
        return of(inner[1]).split(inner[0])
    if kind == "Fn::Join":
        assert isinstance(inner[0], str)
        return inner[0].join(of(inner[1]))
    assert kind == "Fn::Sub"
    text, names = inner
    for name, part in (parameters | {name: of(part) for name, part in names.items()}).items():
        text = text.replace(f"${{{name}}}", part)
    return text


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
@pytest.mark.parametrize("sources", ["a/b", "a/b,c/,d/e/"])
def test_the_function_may_read_what_requests_may_name(partition: str, sources: str) -> None:
    template = yaml.load((ROOT / "template.yaml").read_text(), Loader=_Loader)
    policies = [row["Fn::If"][1] for row in template["Resources"]["Role"]["Properties"]["Policies"] if "Fn::If" in row]
    (policy,) = [row for row in policies if row["PolicyName"] == "read-sources"]
    (statement,) = policy["PolicyDocument"]["Statement"]
    parameters = {"AWS::Partition": partition, "S3Sources": sources}
    found = evaluated(statement["Resource"], parameters, template["Conditions"])
    assert found == [f"arn:{partition}:s3:::{source}*" for source in sources.split(",")]


def test_the_image_template_is_up_to_date() -> None:
    made = image_template((ROOT / "template.yaml").read_text())
    assert (ROOT / TEMPLATE).read_text() == made, "run `python -m builder.pack.image`"


def test_an_unexpected_template_is_noticed() -> None:
    with pytest.raises(ValueError, match=r"template\.yaml has 0 places"):
        image_template("Resources: {}\n")
