"""Deployment of a bundle with AWS's SAM CLI, after it is put into the stack and checked against Lambda's limits."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from builder.base.commands import choose_command
from builder.base.errors import EnvironmentSetupError, PublishError, UsageError
from builder.base.files import write_file
from builder.base.project import Project
from builder.base.targets import DEFAULT, TARGETS, Target
from builder.package.container_image import fill_image_context
from builder.release.activate_bundle import activate_models
from builder.release.compose import compose_template

BUILT_TEMPLATE = ".aws-sam/build/template.yaml"
"""Template that every command of SAM takes where there is one: in a checkout, the core with its add-ons."""


@dataclass(frozen=True)
class Deployment:
    """A stack to be made of the bundle of ``models``, which the command line calls ``named``.

    ``environment``: an environment of samconfig.toml. ``parameters``: the template's, as NAME=VALUE, over those of the
    environment. ``stack``: its name; empty for the usual one. ``addons``: add-ons besides those of the environment.
    ``sam_options``: further words for `sam deploy`.
    """

    models: tuple[str, ...]
    named: str
    target: Target
    package: str = "zip"
    environment: str = "default"
    parameters: tuple[str, ...] = ()
    stack: str = ""
    addons: tuple[str, ...] = ()
    sam_options: tuple[str, ...] = ()

    @property
    def values(self) -> list[str]:
        """The parameters, and Architecture where the target is not Lambda's default."""
        architecture = [f"Architecture={self.target.architecture}"] if self.target is not DEFAULT else []
        return [*architecture, *(value for value in self.parameters if value not in architecture)]

    def stack_name(self, project: Project) -> str:
        """Return the stack's name, which a generated project has in samconfig.toml."""
        if self.stack:
            return self.stack
        if not project.is_checkout:
            return str(_read_table(project.root / "samconfig.toml", self.environment, "deploy").get("stack_name", ""))
        environment = "" if self.environment == "default" else f"-{self.environment}"
        return f"coldforge-{'-'.join(self.models).replace('_', '-')}{environment}"


def find_target(parameters: Sequence[str], target: Target) -> Target:
    """Return the target of the processor in the template's ``parameters``; ``target`` where they name none."""
    architecture = dict(value.partition("=")[::2] for value in parameters).get("Architecture")
    return next((candidate for candidate in TARGETS if candidate.architecture == architecture), target)


def deploy_bundle(
    wanted: Deployment, project: Project, say: Callable[[str], None], output: IO[str], *, upload: bool
) -> dict[str, str]:
    """Stage ``wanted``; check and deploy it if ``upload``. SAM writes to ``output``.

    Returns the model, its version, the stack and the template. Raises UsageError where there is no bundle,
    EnvironmentSetupError without SAM, TemplateError where Lambda would refuse the stack, PublishError where SAM fails.
    """
    if wanted.package != "zip" and not project.is_checkout:
        raise UsageError(f"--package {wanted.package} works in a checkout of coldforge, not in a project of its own.")
    if wanted.addons and not project.is_checkout:
        names = ",".join(wanted.addons)
        raise UsageError(
            "template.yaml of a project of its own has the add-ons that it was made with: "
            f"`coldforge new --update --with {names} .` shows what {names} would bring."
        )
    sam, stack = find_sam(project), wanted.stack_name(project)
    overrides = [f"ModelName={'-'.join(wanted.models)}", *wanted.values]
    values = merge_parameters(project.root / "samconfig.toml", wanted.environment, overrides)
    template = project.root / "template.yaml"
    if project.is_checkout:
        template = project.root / BUILT_TEMPLATE
        addons = read_environment_addons(project.root / "samconfig.toml", wanted.environment)
        text = compose_template([*addons, *wanted.addons], wanted.package)
    staged = activate_models(wanted.models, project, wanted.target, wanted.named)
    if wanted.package == "image":
        fill_image_context(project)
        write_file(project.build / "template.yaml", text)
        architecture = f"Architecture={wanted.target.architecture}"
        options = ["--template-file", "build/template.yaml", "--base-dir", ".", "--parameter-overrides", architecture]
        _run_sam([*sam, "build", *options], output)
    elif project.is_checkout:
        write_file(template, text.replace("Uri: layers/", "Uri: ../../layers/"))  # Paths are relative to the template.
    if upload:
        # This import needs PyYAML, which a machine that builds in Docker may not have.
        from builder.release.template_check import require_deployable

        require_deployable(template, values)
        say(f"deploying {staged.name} {staged.version} to stack {stack}")
        _run_sam([*sam, *make_deploy_arguments(wanted, stack, values)], output)
    return {"model": staged.name, "version": staged.version, "stack": stack, "template": str(template)}


def find_sam(project: Project) -> list[str]:
    """Return the words that run the SAM CLI: SAM in the environment, this checkout's, or the one on PATH."""
    sam = project.home / ".venv-sam" / "bin" / "sam"
    if words := os.environ.get("SAM") or (sam.exists() and shlex.quote(str(sam))) or shutil.which("sam"):
        return shlex.split(words)
    raise EnvironmentSetupError(
        f"deploying needs AWS's SAM CLI, `sam`; `{choose_command('make sam', 'pip install aws-sam-cli')}` installs it."
    )


def make_deploy_arguments(wanted: Deployment, stack: str, values: Mapping[str, str]) -> list[str]:
    """Return the arguments of `sam deploy`; without a terminal, as in CI, SAM asks no question."""
    named = ["--stack-name", stack] if stack else []
    asks = ["--no-confirm-changeset"] if os.environ.get("CI") else []
    images = ["--resolve-image-repos"] if wanted.package == "image" else []
    overrides = ["--parameter-overrides", *(f"{name}={value}" for name, value in values.items())]
    return ["deploy", "--config-env", wanted.environment, *named, *asks, *images, *overrides, *wanted.sam_options]


def merge_parameters(samconfig: Path, environment: str, overrides: Sequence[str]) -> dict[str, str]:
    """Return the template's parameters, by name: those of ``environment``, then ``overrides`` as NAME=VALUE.

    `sam deploy --parameter-overrides` on the command line replaces the whole list of samconfig.toml; here they are
    joined. Raises UsageError for invalid NAME=VALUE, and where samconfig.toml cannot be read or lacks the environment.
    """
    listed = _read_table(samconfig, environment, "deploy").get("parameter_overrides", [])
    words = [*(shlex.split(listed) if isinstance(listed, str) else map(str, listed)), *overrides]
    if wrong := [word for word in words if "=" not in word]:
        raise UsageError(f"{wrong[0]}: write parameters as NAME=VALUE.")
    return dict(word.split("=", 1) for word in words)


def read_environment_addons(samconfig: Path, environment: str) -> list[str]:
    """Return the add-ons that ``[<environment>.coldforge.parameters]`` names as ``with``, with commas between them.

    Raises UsageError as ``merge_parameters`` does.
    """
    return parse_addons(str(_read_table(samconfig, environment, "coldforge").get("with", "")))


def parse_addons(text: str) -> list[str]:
    """Return the names in ``text``, which are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _read_table(samconfig: Path, environment: str, command: str) -> dict[str, Any]:
    """Return the settings of ``command`` for ``environment``, which has settings for at least `sam deploy`."""
    try:
        tables = tomllib.loads(samconfig.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{samconfig} cannot be read: {error}") from None
    environments = [name for name, table in tables.items() if isinstance(table, dict) and "deploy" in table]
    if environment not in environments:
        raise UsageError(f"{samconfig.name} has no environment {environment}; it has {', '.join(environments)}.")
    table: dict[str, Any] = tables[environment].get(command, {}).get("parameters", {})
    return table


def _run_sam(command: Sequence[str], output: IO[str]) -> None:
    environment = {**os.environ, "SAM_CLI_TELEMETRY": "0"}
    if subprocess.run(command, env=environment, stdout=output, check=False).returncode:
        raise PublishError(f"`{shlex.join(command[:2])}` failed; it says above why.")
