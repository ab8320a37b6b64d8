"""The templates against Lambda's limits, and the image template against the one it is made from."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from builder.deliver.template_check import Loader, problems, require
from builder.errors import TemplateError
from builder.pack.image import TEMPLATE, image_template
from builder.pack.instances import instances_template
from tests.conftest import ROOT

WEB_ACL = "arn:aws:wafv2:eu-west-1:123456789012:regional/webacl/team/1"
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:pictures"
CERTIFICATE = "arn:aws:acm:eu-west-1:123456789012:certificate/1"
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
        ({"snap": "on", "package": "Zip\n      FileSystemConfigs: [x]"}, "SnapStart or a file system, not both"),
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


REAL = ROOT / "template.yaml"


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """The template without its folders: its parameters, conditions and events are those of the built one."""
    return Path(shutil.copy(REAL, tmp_path))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"Playground": "yes"}, "Playground is 'yes'; it may be off, on."),
        ({"MemorySize": "64"}, "MemorySize is '64'; it must be a number, from 128 to 10240."),
        ({"ApiRateLimit": "-1"}, "ApiRateLimit is '-1'; it must be a number, 0 or more."),
        ({"ApiRateLimit": "many"}, "ApiRateLimit is 'many'; it must be a number"),
        ({"QueueMaximumConcurrency": "1"}, "QueueMaximumConcurrency is '1'; it must match"),
        ({"QueueMaximumConcurrency": "1001"}, "QueueMaximumConcurrency is '1001'; it must match"),
        ({"QueueArn": QUEUE, "QueueMaximumConcurrency": "1"}, "QueueMapping: MaximumConcurrency 1; Lambda takes 2 to"),
        (
            {"QueueArn": QUEUE, "ReservedConcurrency": "3"},
            "QueueMapping: the queue may keep any number of instances busy, and the function has 3: what is turned "
            "away uses up the attempts of messages. Set QueueMaximumConcurrency to 3 at most.",
        ),
        (
            {"Queue": "on", "ReservedConcurrency": "3", "QueueMaximumConcurrency": "4"},
            "InputQueueMapping: the queue may keep 4 instances busy, and the function has 3",
        ),
        (
            {"PicturesBucket": "inbox", "Timeout": "60"},
            "InputQueueMapping: a message that takes 60 s would come again after 90 s, when it may still be worked on: "
            "set QueueVisibilityTimeout to 360 at least.",
        ),
        ({"Queue": "fifo", "PicturesBucket": "inbox"}, "PicturesBucket needs a queue without order"),
        ({"ReservedConcurrency": "-1"}, "Function: -1 reserved instances; Lambda takes a number, 0 or more."),
        (
            {"ReservedConcurrency": "3", "ProvisionedConcurrency": "4"},
            "Function: 4 provisioned instances are more than its 3 reserved ones.",
        ),
        ({"KmsKeyArn": "arn:aws:kms:eu-west-1:123456789012:alias/mine"}, "KmsKeyArn is 'arn:aws:kms:eu-west-1:"),
        ({"CodeSigningConfigArn": "csc-1"}, "CodeSigningConfigArn is 'csc-1'; it must match"),
        ({"GradualDeployment": "Canary"}, "GradualDeployment is 'Canary'; it may be off, Canary10Percent5Minutes"),
        ({"JwtIssuer": "http://issuer.example"}, "JwtIssuer is 'http://issuer.example'; it must match"),
        ({"JwtIssuer": "https://issuer.example"}, "JwtIssuer needs JwtAudience, or tokens for anybody else would do."),
        ({"WebAclArn": WEB_ACL}, "WebAclArn needs RestApi=keys or RestApi=iam, because WAF takes no HTTP API."),
        ({"WebAclArn": WEB_ACL.replace("regional", "global")}, "WebAclArn is 'arn:aws:wafv2:"),
        ({"DomainName": "a.example"}, "DomainName needs CertificateArn."),
        ({"CertificateArn": CERTIFICATE}, "CertificateArn needs DomainName."),
        ({"HostedZoneId": "Z1"}, "HostedZoneId needs DomainName."),
        ({"Weights": "s3://bucket/a,b"}, "Weights is 's3://bucket/a,b'; it must match"),
    ],
)
def test_what_aws_refuses_of_parameters(unbuilt: Path, given: dict[str, str], says: str) -> None:
    assert [problem for problem in problems(unbuilt, given) if problem.startswith(says)]


def parameters_of_policies(template: dict[str, Any]) -> set[str]:
    """The parameters of text whose values reach a policy, or a role."""
    policies = [row for row in template["Resources"].values() if row["Type"].startswith("AWS::IAM::")]
    named = set(re.findall(r"\w+", json.dumps(policies)))
    return {name for name, row in template["Parameters"].items() if row["Type"] == "String" and name in named} - {
        name for name, row in template["Parameters"].items() if "AllowedValues" in row
    }


VALUES = {
    "S3Sources": "shop/photos/,archive/",
    "BatchSources": "shop/photos/",
    "Weights": "s3://models/emotion.weights",
    "FileSystem": "arn:aws:elasticfilesystem:eu-west-1:123456789012:access-point/fsap-0123456789abcdef0",
    "KmsKeyArn": "arn:aws:kms:eu-west-1:123456789012:key/12345678-1234-1234-1234-123456789012",
    "PermissionsBoundaryArn": "arn:aws:iam::123456789012:policy/teams/bound",
    "PicturesBucket": "inbox",
    "PicturesPrefix": "in/",
    "QueueArn": QUEUE,
    "ResultsBucket": "answers",
    "ResultsPrefix": "coldforge/",
}


def test_no_parameter_widens_a_policy(unbuilt: Path) -> None:
    """Wildcards and variables of IAM, anywhere in a value, would let the function reach what nobody named."""
    template = yaml.load(REAL.read_text(), Loader=Loader)
    assert parameters_of_policies(template) == VALUES.keys()
    assert list(problems(unbuilt, VALUES)) == []
    patterns = {name: re.compile(template["Parameters"][name]["AllowedPattern"]) for name in VALUES}
    for bad in ("*", "?", "${aws:PrincipalTag/x}"):
        for name, value in VALUES.items():
            wrong = [bad, *(f"{value[:at]}{bad}{value[at:]}" for at in range(len(value) + 1))]
            assert not [one for one in wrong if patterns[name].fullmatch(one)], name
    said = "\n".join(problems(unbuilt, dict.fromkeys(VALUES, "*")))
    assert all(f"{name} is '*'; it must match" in said for name in VALUES)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"QueueArn": QUEUE, "QueueMaximumConcurrency": "2"},
        {"QueueArn": QUEUE, "QueueMaximumConcurrency": "1000"},
        {"ReservedConcurrency": "0"},
        {"QueueArn": QUEUE, "ReservedConcurrency": "0"},
        {"Queue": "on", "ReservedConcurrency": "2", "QueueMaximumConcurrency": "2"},
        {"Queue": "on", "Timeout": "60", "QueueVisibilityTimeout": "360"},
        {"QueueArn": QUEUE, "Timeout": "900"},
        {"Queue": "fifo"},
        {"ReservedConcurrency": "4", "ProvisionedConcurrency": "4"},
        {"KeepFailures": "off", "PicturesBucket": "inbox"},
        {"AlarmTopic": "arn:aws:sns:eu-west-1:123456789012:alarms"},
        {"ResultsBucket": "answers", "ResultsPrefix": ""},
        {"DebugSampling": "0.01"},
        {"JwtIssuer": "https://issuer.example/tenant", "JwtAudience": "a,b"},
        {"RestApi": "keys", "WebAclArn": WEB_ACL},
        {"DomainName": "a.example", "CertificateArn": CERTIFICATE, "HostedZoneId": "Z1"},
        {"Weights": "s3://bucket/key"},
        {"CodeSigningConfigArn": "arn:aws:lambda:eu-west-1:123456789012:code-signing-config:csc-0123456789abcdefg"},
    ],
)
def test_what_aws_takes_of_parameters(unbuilt: Path, given: dict[str, str]) -> None:
    assert list(problems(unbuilt, given)) == []


FAILED = """\
  Topic: {{Type: AWS::SNS::Topic}}
  Queue:
    Type: AWS::SQS::Queue
    Properties: {{FifoQueue: {fifo}}}
  Rule:
    Type: AWS::Events::Rule
    Properties:
      Targets: [{{Id: x, Arn: x, DeadLetterConfig: {{Arn: {rule}}}}}]
  Failed:
    Type: AWS::Lambda::EventInvokeConfig
    Properties:
      DestinationConfig: {{OnFailure: {{Destination: {function}}}}}
"""


@pytest.mark.parametrize(
    ("rule", "function", "fifo", "says"),
    [
        ("!GetAtt Queue.Arn", "!GetAtt Queue.Arn", "false", []),
        ("!GetAtt Queue.Arn", "!GetAtt Topic.Arn", "false", []),
        ("{'Fn::GetAtt': [Queue, Arn]}", "{'Fn::GetAtt': [Topic, Arn]}", "false", []),  # as `sam build` writes it
        ("arn:aws:sqs:eu-west-1:1:q", "arn:aws:sns:eu-west-1:1:t", "false", []),
        ("arn:aws:sns:eu-west-1:1:t", "!GetAtt Queue.Arn", "false", ["Rule: what fails goes to sns; AWS takes sqs"]),
        ("!GetAtt Topic.Arn", "!GetAtt Queue.Arn", "false", ["Rule: what fails goes to sns; AWS takes sqs here."]),
        (
            "!GetAtt Queue.Arn",
            "arn:aws:kinesis:x:1:s",
            "false",
            ["Failed: what fails goes to kinesis; AWS takes sqs, "],
        ),
        ("!GetAtt Queue.Arn", "arn:aws:sqs:x:1:q.fifo", "false", ["Failed: what fails goes to a FIFO queue"]),
        ("!GetAtt Queue.Arn", "!GetAtt Topic.Arn", "true", ["Rule: what fails goes to a FIFO queue"]),
        ("nowhere", "!Ref AWS::NoValue", "false", ["Rule: what fails goes to nowhere; AWS takes sqs"]),
    ],
)
def test_where_failed_events_may_go(tmp_path: Path, rule: str, function: str, fifo: str, says: list[str]) -> None:
    path = built(tmp_path)
    path.write_text(path.read_text() + FAILED.format(rule=rule, function=function, fifo=fifo))
    found = list(problems(path, {}))
    assert len(found) == len(says)
    assert all(problem.startswith(start) for problem, start in zip(found, says, strict=True))


def test_an_image_cannot_be_signed(tmp_path: Path) -> None:
    path = built(tmp_path, package="Image\n      CodeSigningConfigArn: arn")
    assert list(problems(path, {})) == [
        "Function: code signing is for zip functions, and this one is a container image."
    ]


@pytest.mark.parametrize("name", ["template.yaml", TEMPLATE])
def test_every_parameter_is_in_one_group(name: str) -> None:
    template = yaml.load((ROOT / name).read_text(), Loader=Loader)
    groups = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    listed = [parameter for group in groups for parameter in group["Parameters"]]
    assert sorted(listed) == sorted(template["Parameters"])


def test_every_parameter_is_documented_in_its_group() -> None:
    template = yaml.load(REAL.read_text(), Loader=Loader)
    page = (ROOT / "docs" / "deploying.md").read_text()
    for group in template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        _, heading, rest = page.partition(f"\n### {group['Label']['default']}\n")
        assert heading, group["Label"]
        section = rest.partition("\n#")[0]
        assert [row.split("`")[1] for row in section.splitlines() if row.startswith("| `")] == group["Parameters"]


def test_defaults_on_the_page_are_the_templates() -> None:
    parameters = yaml.load(REAL.read_text(), Loader=Loader)["Parameters"]
    rows = [row.split("|") for row in (ROOT / "docs" / "deploying.md").read_text().splitlines() if row[:3] == "| `"]
    assert {row[1].strip(" `"): row[2].strip(" `") for row in rows} == {
        name: str(row["Default"]) for name, row in parameters.items()
    }


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
    template = yaml.load((ROOT / "template.yaml").read_text(), Loader=Loader)
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
    for made in (image_template, instances_template):
        with pytest.raises(ValueError, match=r"template\.yaml has 0 places"):
            made("Resources: {}\n")


@pytest.fixture
def instances(tmp_path: Path) -> Path:
    """As it is deployed with INSTANCES=on."""
    path = tmp_path / "template-instances.yaml"
    path.write_text(instances_template((ROOT / "template.yaml").read_text()))
    return path


def test_the_template_for_instances_has_each_parameter_in_a_group_and_on_its_page(instances: Path) -> None:
    template = yaml.load(instances.read_text(), Loader=Loader)
    groups = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    assert sorted(name for group in groups for name in group["Parameters"]) == sorted(template["Parameters"])
    page = (ROOT / "docs" / "managed-instances.md").read_text()
    rows = [row.split("|") for row in page.splitlines() if row[:3] == "| `"]
    own = yaml.load(REAL.read_text(), Loader=Loader)["Parameters"]

    def default(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(key) for key in ("Type", "Default", "MinValue", "MaxValue", "AllowedValues"))

    changed = {n: row for n, row in template["Parameters"].items() if n not in own or default(row) != default(own[n])}
    assert {row[1].strip(" `"): row[2].strip(" `") for row in rows} == {
        name: str(row.get("Default", "")) for name, row in changed.items()
    }


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, []),
        ({"MemorySize": "2048"}, ["MemorySize 2048 MB is less than one processor has with 4 GB for each."]),
        ({"MemorySize": "2048", "MemoryPerProcessor": "2"}, []),
        ({"MemorySize": "32768"}, []),
        ({"LeastEnvironments": "13"}, ["13 environments at least are more than 12 at most."]),
        ({"SnapStart": "on"}, ["SnapStart is no parameter of this template"]),
        ({"Weights": "/mnt/weights/"}, ["Weights is '/mnt/weights/'; it must match"]),
        ({"CapacityProvider": "models"}, ["CapacityProvider is 'models'; it must match"]),
    ],
)
def test_what_lambda_refuses_on_instances(instances: Path, given: dict[str, str], says: list[str]) -> None:
    provider = {"CapacityProvider": "arn:aws:lambda:eu-west-1:123456789012:capacity-provider:models"}
    found = list(problems(instances, {"ModelName": "emotion", **provider, **given}))
    assert len(found) == len(says)
    assert all(part in problem for problem, part in zip(found, says, strict=True))
    assert "CapacityProvider is not given, and has no default." in problems(instances, {"ModelName": "emotion"})
