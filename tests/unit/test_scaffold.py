"""The files of a new project: what they name, what is never overwritten, and how newer ones differ."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from builder import __version__
from builder.base.errors import UsageError
from builder.base.project import HOME
from builder.cli import main
from builder.config import read_spec
from builder.release.deploy import merge_parameters
from builder.release.scaffold import Service, diff_service, make_service_files
from builder.release.template_check import TemplateLoader, list_problems
from tests.support.results import printed

FILES = make_service_files(Service("my_model"))


def test_every_placeholder_is_filled() -> None:
    for name, text in FILES.items():
        assert not re.search(r"(?<![\w@])@[a-z]+@", text), name


def test_sam_uploads_what_stage_puts_there_and_builds_nothing() -> None:
    template = yaml.load(FILES["template.yaml"], Loader=TemplateLoader)
    resources = template["Resources"]
    places = {name: resources[name]["Properties"]["ContentUri"] for name in ("ModelLayer", "DependenciesLayer")}
    assert places == {
        "ModelLayer": "layers/model/content/",
        "DependenciesLayer": "layers/dependencies/content/",
    }
    assert resources["Function"]["Properties"]["CodeUri"] == "layers/function/content/"
    assert "BuildMethod" not in FILES["template.yaml"]
    assert template["Parameters"]["ModelName"]["Default"] == "my_model"
    original = yaml.load((HOME / "template.yaml").read_text(encoding="utf-8"), Loader=TemplateLoader)
    assert template["Parameters"].keys() == original["Parameters"].keys()
    assert resources.keys() == original["Resources"].keys()


def test_the_environments_differ_in_stack_and_parameters() -> None:
    config = tomllib.loads(FILES["samconfig.toml"])
    parameters = {name: config[name]["deploy"]["parameters"] for name in ("default", "dev", "staging", "prod")}
    assert {name: row["stack_name"] for name, row in parameters.items()} == {
        "default": "my-model-dev", "dev": "my-model-dev", "staging": "my-model-staging", "prod": "my-model-prod",
    }  # fmt: skip
    assert all("ModelName=my_model" in row["parameter_overrides"] for row in parameters.values())
    known = yaml.load(FILES["template.yaml"], Loader=TemplateLoader)["Parameters"]
    for row in parameters.values():
        assert {pair.partition("=")[0] for pair in row["parameter_overrides"].split()} <= known.keys()


def test_the_workflow_asks_for_no_more_than_it_needs() -> None:
    workflow = yaml.safe_load(FILES[".github/workflows/service.yml"])
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["deploy"]["permissions"] == {"contents": "read", "id-token": "write"}
    assert "id-token" not in workflow["jobs"]["build"]["permissions"]
    assert workflow["jobs"]["deploy"]["strategy"]["matrix"]["environment"] == ["staging", "prod"]


def test_the_makefile_is_short() -> None:
    rules = [line for line in FILES["Makefile"].splitlines() if line.startswith("\t")]
    assert len(rules) <= 14


def make(folder: Path, *arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "COLDFORGE"} | {"PATH": path}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, text=True, capture_output=True, check=False
    )


def test_a_project_uses_the_coldforge_of_its_requirements(tmp_path: Path) -> None:
    folder, tools = tmp_path / "my model", tmp_path / "tools"
    assert main(["new", str(folder)]) == 0
    link = folder / ".coldforge"
    tools.mkdir()
    (tools / "coldforge").symlink_to(link.readlink())
    with_tools = f"{tools}:/usr/bin:/bin"
    assert "./.coldforge bundle" in make(folder, "--dry-run", "bundle").stdout
    link.unlink()
    link.symlink_to(tmp_path / "gone")
    assert "\ncoldforge bundle" in "\n" + make(folder, "--dry-run", "bundle", path=with_tools).stdout
    in_venv = make(folder, "--dry-run", "bundle", path="/usr/bin:/bin").stdout
    assert "pip install --quiet --find-links . -r requirements.txt" in in_venv
    assert ".venv/bin/coldforge bundle" in in_venv
    (folder / "requirements.txt").write_text("coldforge==99\n")
    assert ".venv/bin/coldforge bundle" in make(folder, "--dry-run", "bundle", path=with_tools).stdout


def test_deploying_without_sam_ends_before_anything_is_built(tmp_path: Path) -> None:
    folder = tmp_path / "my model"
    assert main(["new", str(folder)]) == 0
    done = make(folder, "deploy", "SAM=no-such-sam")
    assert done.returncode == 2
    assert "SAM CLI" in done.stderr
    assert done.stdout == ""
    assert not (folder / "dist").exists()


def test_a_new_project_and_its_update(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mein Gesicht"
    assert main(["new", str(folder), "--json"]) == 0
    written = printed("new", capsys.readouterr().out)["files"]
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()) == written
    assert read_spec(folder / "model.toml").name == "mein_gesicht"
    assert list(diff_service(folder, make_service_files(Service.from_folder(folder, [])))) == []

    (folder / "requirements.txt").write_text("coldforge==0.0.1\n")
    (folder / "Makefile").unlink()
    model = (folder / "model.toml").read_text()
    assert main(["new", str(folder), "--update"]) == 0
    said = capsys.readouterr().out
    assert f"-coldforge==0.0.1\n+coldforge=={__version__}\n" in said
    assert "--- /dev/null\n" in said
    assert (folder / "requirements.txt").read_text() == "coldforge==0.0.1\n"
    assert (folder / "model.toml").read_text() == model


@pytest.mark.parametrize("name", ["template.yaml", "README.md"])
def test_an_update_names_a_file_that_it_cannot_read(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"caf\xe9")
    assert main(["new", str(tmp_path), "--update"]) == UsageError.exit_code
    assert str(tmp_path / name) in capsys.readouterr().err


def test_a_project_has_the_addons_that_it_was_made_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "faces"
    assert main(["new", str(folder), "--with", "results,canary"]) == 0
    assert "ResultsBucket" in capsys.readouterr().out
    given = merge_parameters(folder / "samconfig.toml", "prod", ["ResultsBucket=answers"])
    assert given["GradualDeployment"] == "Canary10Percent5Minutes"
    assert list(list_problems(folder / "template.yaml", given)) == []
    assert main(["new", str(folder), "--update", "--json"]) == 0
    assert printed("new", capsys.readouterr().out)["diff"] == ""
    assert main(["new", str(folder), "--update", "--with", "queue"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "+  InputQueue:" in lines
    assert not [line for line in lines if re.match("-  ", line)]
    template = folder / "template.yaml"
    template.write_text(template.read_text().replace("--with canary,results", "--with canary,gone,results"))
    assert main(["new", str(folder), "--update"]) == 0
    assert "-# Written by `coldforge new --with canary,gone,results`" in capsys.readouterr().out
    assert main(["-C", str(folder), "deploy", "--with", "queue"]) == UsageError.exit_code
    assert "coldforge new --update --with queue" in capsys.readouterr().err


def test_nothing_that_is_there_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine")
    assert main(["new", str(tmp_path)]) == 2
    assert "README.md already" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["README.md"]


def test_where_a_command_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-C", str(tmp_path / "nowhere"), "doctor"]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["-C", str(tmp_path), "bundle"]) == 2
    assert "there is no model.toml in this folder" in capsys.readouterr().err
    before = Path.cwd()
    assert main(["-C", str(tmp_path), "where", "--in", "host", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert Path.cwd() == before


@pytest.mark.parametrize(
    "name", ["2digits", "2024", "Gesichter für alle", "my service", "n" * 200, "__x__", "2" * 200, "日本語", "a.b+c"]
)
def test_any_folder_gives_names_that_aws_takes(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CloudFormation's and SAM's rules; `sam deploy` refused the stack "2digits-dev"."""
    folder = tmp_path / name
    assert main(["new", str(folder)]) == 0
    model = read_spec(folder / "model.toml").name
    config = tomllib.loads((folder / "samconfig.toml").read_text(encoding="utf-8"))
    environments = {name: config[name]["deploy"]["parameters"] for name in config if name != "version"}
    stacks = [row["stack_name"] for row in environments.values() if "stack_name" in row]
    assert len(stacks) == 4
    assert all(re.fullmatch("[A-Za-z][A-Za-z0-9-]{0,127}", stack) for stack in stacks)
    given = merge_parameters(folder / "samconfig.toml", "prod", [])
    assert given["ModelName"] == model
    assert not [line for line in list_problems(folder / "template.yaml", given) if "ModelName" in line]
