"""The core template and its add-ons: how they are composed, and which values are refused before an upload."""

from __future__ import annotations

import functools
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from builder.base.errors import TemplateError, UsageError
from builder.cli import main
from builder.release.compose import ADDONS, CORE, NEEDS, PACKAGES, addon_names, compose_template
from builder.release.template_check import TemplateLoader, list_problems, require_deployable
from tests.conftest import ROOT
from tests.support.stacks import EVERYTHING, filled

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:pictures"


@functools.cache
def loaded(text: str) -> dict[str, Any]:
    template: dict[str, Any] = yaml.load(text, Loader=TemplateLoader)
    return template


def with_needed(name: str) -> list[str]:
    """The add-on, with the first of those that it needs."""
    needed = NEEDS.get(name, ())[:1]
    return [name, *(other for one in needed for other in with_needed(one))]


ALONE = [with_needed(name) for name in addon_names()]


def merged(core: Any, addition: Any) -> Any:
    """``core`` with ``addition``, merged as data that PyYAML has read."""
    if isinstance(core, list) and isinstance(addition, list):
        return core + addition
    if not (isinstance(core, dict) and isinstance(addition, dict)):
        return addition
    both = {key: merged(core[key], value) if key in core else value for key, value in addition.items()}
    return {key: value for key, value in (core | both).items() if value is not None}


TOGETHER = [(addons, "zip") for addons in [*ALONE, EVERYTHING]] + [([], package) for package in PACKAGES]


@pytest.mark.parametrize(("addons", "package"), TOGETHER)
def test_the_text_is_what_a_merge_of_the_data_gives(addons: list[str], package: str) -> None:
    expected = loaded(CORE.read_text())
    files = [*sorted(set(addons), key=lambda name: (name in NEEDS, name))]
    files += sorted(path.stem for path in ADDONS.glob("*+*.yaml") if {*path.stem.split("+")} <= {*addons})
    for name in [*files, *([] if package == "zip" else [f"packages/{package}"])]:
        expected = merged(expected, loaded((ADDONS / f"{name}.yaml").read_text()))
    assert loaded(compose_template(addons, package)) == expected


def test_comments_stay_where_they_were() -> None:
    core, lines = CORE.read_text().splitlines(), compose_template(EVERYTHING).splitlines()
    comments = {line: core[number + 1] for number, line in enumerate(core) if line.lstrip().startswith("#")}
    assert len(comments) > 3
    assert all(lines[lines.index(comment) + 1] == below for comment, below in comments.items())
    assert compose_template([]) == CORE.read_text()


def test_an_addon_can_take_away_and_replace() -> None:
    core = loaded(CORE.read_text())
    image = loaded(compose_template([], "image"))
    assert core["Resources"].keys() - image["Resources"].keys() == {"ModelLayer", "DependenciesLayer"}
    assert "Layers" not in image["Resources"]["Function"]["Properties"]
    assert loaded(compose_template([], changes="Description: mine\nResources:\n  None: null\n")) == core | {
        "Description": "mine"
    }


def test_sizes() -> None:
    assert len(CORE.read_text().splitlines()) <= 250
    assert len(loaded(CORE.read_text())["Parameters"]) <= 12
    assert all(len(path.read_text().splitlines()) < 200 for path in ADDONS.rglob("*.yaml"))


def test_no_two_addons_have_a_parameter_or_a_resource_of_one_name() -> None:
    """Where both add something to one resource, that is the core's, or one needs the other."""
    core = loaded(CORE.read_text())
    for one, other in itertools.combinations(addon_names(), 2):
        a, b = (loaded((ADDONS / f"{name}.yaml").read_text()) for name in (one, other))
        for section in ("Parameters", "Conditions", "Outputs"):
            assert not a.get(section, {}).keys() & b.get(section, {}).keys()
        shared = (a["Resources"].keys() & b["Resources"].keys()) - core["Resources"].keys()
        assert not shared or one in NEEDS.get(other, ()) or other in NEEDS.get(one, ()) or {one, other} <= {*NEEDS}


@pytest.mark.parametrize(
    ("addons", "says"),
    [
        (["queu"], "Did you mean queue?"),
        (["../x"], "There are: access-log"),
        (["bucket"], "--with queue,bucket"),
        (["access-log"], "needs http-api or rest-api"),
        (["snapstart", "provisioned"], "not both"),
    ],
)
def test_what_does_not_go_together_is_refused(
    addons: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        compose_template(addons)
    assert says in str(refused.value)
    assert main(["new", str(tmp_path / "faces"), "--with", ",".join(addons)]) == UsageError.exit_code
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_packages_take_no_addon_that_aws_refuses_there() -> None:
    for package, name in [("image", "code-signing"), ("image", "opentelemetry"), ("instances", "provisioned")]:
        with pytest.raises(UsageError, match=f"{name} and {package}"):
            compose_template([name], package)


def declared(path: Path) -> dict[str, str]:
    """The parameters of a file, with their defaults."""
    rows = loaded(path.read_text()).get("Parameters") or {}
    return {name: str(row.get("Default", "")) for name, row in rows.items() if row}


def test_every_parameter_is_documented_with_its_default() -> None:
    """Below its add-on, in the order of the tables; those of the core come first."""
    page = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("deploying", "managed-instances")}
    found: dict[str, dict[str, str]] = {}
    for name, text in {"": page["deploying"], "instances": page["managed-instances"]}.items():
        addon = name
        for row in (line.split("|") for line in text.splitlines() if re.match(r"\| (`\w+`|\*\*[\w-]+\*\*) \|", line)):
            if row[1].startswith(" *"):
                addon = row[1].strip(" *")
                found[addon] = {}
            else:
                found.setdefault(addon, {})[row[1].strip(" `")] = row[2].strip(" `")
    files = {"": CORE, "instances": ADDONS / "packages" / "instances.yaml"}
    assert found == {
        name: declared(files.get(name, ADDONS / f"{name}.yaml")) for name in ["", "instances", *addon_names()]
    }


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """The template with all add-ons, without its folders."""
    path = tmp_path / "template.yaml"
    path.write_text(compose_template(EVERYTHING))
    return path


def refused(path: Path, given: dict[str, str]) -> list[str]:
    return list(list_problems(path, filled(loaded(path.read_text()), given)))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"Playground": "yes"}, "Playground is 'yes'; it may be off, on."),
        ({"MemorySize": "64"}, "MemorySize is '64'; it must be a number, from 128 to 10240."),
        ({"Timeout": "901"}, "Timeout is '901'"),
        ({"ApiRateLimit": "0"}, "ApiRateLimit is '0'; it must be a number, 1 or more."),
        ({"ApiRateLimit": "many"}, "ApiRateLimit is 'many'; it must be a number"),
        ({"QueueMaximumConcurrency": "1"}, "QueueMaximumConcurrency is '1'"),
        ({"QueueMaximumConcurrency": "1001"}, "QueueMaximumConcurrency is '1001'"),
        ({"CorsOrigins": "x" * 801}, "CorsOrigins has 801 characters; it may have 800."),
        ({"ReservedConcurrency": "3"}, "ReservedConcurrency is 3, and QueueMaximumConcurrency is any number: "),
        ({"ReservedConcurrency": "3"}, "ReservedConcurrency is 3, and ExistingQueueMaximumConcurrency is any number: "),
        ({"ReservedConcurrency": "3", "QueueMaximumConcurrency": "4"}, "ReservedConcurrency is 3, and QueueMaximum"),
        ({"ReservedConcurrency": "3", "ProvisionedConcurrency": "4"}, "ReservedConcurrency is 3, and Provisioned"),
        ({"ReservedConcurrency": "-1"}, "ReservedConcurrency is '-1'; it must match"),
        ({"Timeout": "60"}, "QueueVisibilityTimeout is 90, and Timeout is 60: "),
        ({"KmsKeyArn": "arn:aws:kms:eu-west-1:123456789012:alias/mine"}, "KmsKeyArn is 'arn:aws:kms:eu-west-1:"),
        ({"CodeSigningConfigArn": "csc-1"}, "CodeSigningConfigArn is 'csc-1'; it must match"),
        ({"GradualDeployment": "Canary"}, "GradualDeployment is 'Canary'; it may be AllAtOnce"),
        ({"JwtIssuer": "http://issuer.example"}, "JwtIssuer is 'http://issuer.example'; it must match"),
        ({"JwtAudience": ""}, "JwtAudience is ''; it must match"),
        ({"WebAclArn": "arn:aws:wafv2:eu-west-1:123456789012:global/webacl/team/1"}, "WebAclArn is 'arn:aws:wafv2:"),
        ({"SnapStrat": "on"}, "SnapStrat is no parameter of this template; it has ModelName"),
        ({"Weights": "s3://b/k"}, "Weights is no parameter of this template (the add-on weights has it"),
    ],
)
def test_what_is_refused_of_parameters(unbuilt: Path, given: dict[str, str], says: str) -> None:
    assert [problem for problem in refused(unbuilt, given) if problem.startswith(says)]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"QueueMaximumConcurrency": "2", "ExistingQueueMaximumConcurrency": "2", "ReservedConcurrency": "2"},
        {"ReservedConcurrency": "0"},
        {"Timeout": "60", "QueueVisibilityTimeout": "360"},
        {"AlarmTopic": "arn:aws:sns:eu-west-1:123456789012:alarms"},
        {"ResultsPrefix": ""},
        {"DebugSampling": "0.01"},
        {"HostedZoneId": "Z1"},
    ],
)
def test_what_is_taken_of_parameters(unbuilt: Path, given: dict[str, str]) -> None:
    assert refused(unbuilt, given) == []


def test_what_has_no_default_has_to_be_given(unbuilt: Path) -> None:
    assert "ResultsBucket is not given, and has no default." in list_problems(unbuilt, {})
    with pytest.raises(TemplateError, match="ResultsBucket"):
        require_deployable(unbuilt)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, []),
        ({"MemorySize": "2048"}, ["MemorySize is 2048, and MemoryPerProcessor is 4: "]),
        ({"MemorySize": "2048", "MemoryPerProcessor": "2"}, []),
        ({"MemorySize": "32768"}, []),
        ({"LeastEnvironments": "13"}, ["MostEnvironments is 12, and LeastEnvironments is 13: "]),
        ({"ReservedConcurrency": "1"}, ["ReservedConcurrency is no parameter of this template"]),
        ({"CapacityProvider": "models"}, ["CapacityProvider is 'models'; it must match"]),
    ],
)
def test_what_is_refused_on_instances(tmp_path: Path, given: dict[str, str], says: list[str]) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(compose_template([], "instances"))
    found = refused(path, given)
    assert len(found) == len(says)
    assert all(problem.startswith(start) for problem, start in zip(found, says, strict=True))


VALUES = {
    "S3Sources": "shop/photos/,archive/",
    "BatchSources": "shop/photos/",
    "Weights": "s3://models/emotion.weights",
    "FileSystem": "arn:aws:elasticfilesystem:eu-west-1:123456789012:access-point/fsap-0123456789abcdef0",
    "KmsKeyArn": "arn:aws:kms:eu-west-1:123456789012:key/12345678-1234-1234-1234-123456789012",
    "PermissionsBoundaryArn": "arn:aws:iam::123456789012:policy/teams/bound",
    "SourceBucket": "inbox",
    "SourcePrefix": "in/",
    "QueueArn": QUEUE,
    "ResultsBucket": "answers",
    "ResultsPrefix": "coldforge/",
}


def test_no_parameter_widens_a_policy() -> None:
    """Wildcards and variables of IAM, anywhere in a value, would let the function reach what nobody named."""
    parameters: dict[str, Any] = {}
    named: set[str] = set()
    for path in [CORE, *ADDONS.rglob("*.yaml")]:
        template = loaded(path.read_text())
        parameters |= template.get("Parameters") or {}
        roles = [row for name, row in template["Resources"].items() if name.endswith("Role")]
        named |= set(re.findall(r"\w+", json.dumps(roles)))
    texts = {name: row for name, row in parameters.items() if row and row.get("Type") == "String" and name in named}
    assert {name for name, row in texts.items() if "AllowedValues" not in row} == VALUES.keys()
    for name, value in VALUES.items():
        pattern = re.compile(texts[name]["AllowedPattern"])
        assert pattern.fullmatch(value)
        for bad in ("*", "?", "${aws:PrincipalTag/x}"):
            wrong = [bad, *(f"{value[:at]}{bad}{value[at:]}" for at in range(len(value) + 1))]
            assert not [one for one in wrong if pattern.fullmatch(one)], name


def built(folder: Path) -> Path:
    """A built template with the folder of one layer."""
    path = folder / "template.yaml"
    path.write_text(
        "Parameters:\n  Architecture: {Default: x86_64}\nResources:\n  Model:\n"
        "    Type: AWS::Serverless::LayerVersion\n    Properties: {ContentUri: Model}\n"
    )
    (folder / "Model" / "lib").mkdir(parents=True)
    return path


@pytest.mark.parametrize(("of_library", "machine"), [("x86_64", 62), ("arm64", 183)])
def test_a_library_for_another_processor_is_refused(tmp_path: Path, of_library: str, machine: int) -> None:
    path = built(tmp_path)
    elf = b"\x7fELF\x02\x01\x01" + bytes(9) + (3).to_bytes(2, "little") + machine.to_bytes(2, "little")
    (tmp_path / "Model" / "lib" / "libmodel.so").write_bytes(elf)
    for architecture in ("x86_64", "arm64"):
        found = list(list_problems(path, {"Architecture": architecture}))
        assert len(found) == (architecture != of_library)
        assert all(f"lib/libmodel.so in Model is for {of_library}: `make bundle TARGET=" in one for one in found)


def test_too_large_together_recommends_the_image(tmp_path: Path) -> None:
    path = built(tmp_path)
    require_deployable(path)
    with (tmp_path / "Model" / "weights").open("wb") as file:
        file.truncate(262_144_001)
    with pytest.raises(TemplateError, match="PACKAGE=image"):
        require_deployable(path)
    shutil.rmtree(tmp_path / "Model")


def test_a_template_that_was_not_built(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="make sam-build"):
        require_deployable(tmp_path / "none.yaml")


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
@pytest.mark.parametrize("addon", ["sources", "batch"])
@pytest.mark.parametrize("sources", ["a/b", "a/b,c/,d/e/"])
def test_the_function_may_read_what_requests_may_name(partition: str, addon: str, sources: str) -> None:
    template = loaded((ADDONS / f"{addon}.yaml").read_text())
    (policy,) = template["Resources"]["Role"]["Properties"]["Policies"]
    (statement,) = policy["Fn::If"][1]["PolicyDocument"]["Statement"]
    parameters = {"AWS::Partition": partition, "S3Sources": sources, "BatchSources": sources}
    found = evaluated(statement["Resource"], parameters, template["Conditions"])
    assert found == [f"arn:{partition}:s3:::{source}*" for source in sources.split(",")]
