"""The files of a small project that a team owns: one model, the stack that serves it, tests and CI."""

from __future__ import annotations

import difflib
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builder import __version__
from builder.errors import UsageError
from builder.files import write_file
from builder.importers.draft import name_of
from builder.pack.edits import edited
from builder.project import HOME, Project

TEMPLATES = Path(__file__).with_name("templates")

FILES = {
    "Makefile": "Makefile.in",
    "README.md": "README.md.in",
    "requirements.txt": "requirements.txt.in",
    ".gitignore": "gitignore.in",
    "tests/test_service.py": "test_service.py.in",
    ".github/workflows/service.yml": "service.yml.in",
}
"""Files to their templates, in which ``@name@`` and the like are replaced; template.yaml and samconfig.toml besides."""

COMMAND_LINK = ".coldforge"
"""Not in git, as it is of one machine."""

ENVIRONMENTS = {
    "default": ("dev", ""),
    "dev": ("dev", ""),
    "staging": ("staging", ""),
    "prod": ("prod", " GradualDeployment=Canary10Percent5Minutes LogRetentionDays=90"),
}
"""Those of samconfig.toml, to the stack's suffix and to parameters of the template."""

_LAYER_METADATA = "^    Metadata:\n      BuildMethod: makefile\n      BuildArchitecture: .*\n(    Properties:\n"
_PREBUILT = {
    r"^      BuildMethod: makefile\n(    Properties:\n      Description: !Sub)": r"\1",
    r"CodeUri: handler/$": "CodeUri: layers/function/content/",
    _LAYER_METADATA + r"(?:      .*\n)*?      ContentUri: layers/model/)$": r"\1content/",
    _LAYER_METADATA + r"(?:      .*\n)*?      ContentUri: layers/dependencies/)$": r"\1content/",
    r" `make deploy MODEL=\.\.\.` sets it\.$": "",
}


@dataclass(frozen=True)
class Service:
    """A project to write. ``model``: the name of its model, from which the stacks have theirs."""

    model: str

    @classmethod
    def of(cls, folder: Path) -> Service:
        """The one that ``folder`` is named for, as a model may be called."""
        return cls(name_of(folder.resolve()))

    @property
    def name(self) -> str:
        """As a stack may be called: letters, digits and hyphens, of which the first is a letter."""
        name = self.model.replace("_", "-").strip("-")
        return name if name[:1].isalpha() else f"model-{name}".rstrip("-")


def service_files(service: Service) -> dict[str, str]:
    """The text of each file by its path, but for model.toml and the model, which are the team's from the start."""
    values = {"name": service.model, "service": service.name, "version": __version__}
    environments = "".join(
        _filled("environment.in", values | {"environment": name, "suffix": suffix, "parameters": more})
        for name, (suffix, more) in ENVIRONMENTS.items()
    )
    made = {path: _filled(template, values) for path, template in FILES.items()}
    made["samconfig.toml"] = _filled("samconfig.toml.in", {"environments": environments})
    made["template.yaml"] = service_template((HOME / "template.yaml").read_text(encoding="utf-8"), service)
    return made


def service_template(template: str, service: Service) -> str:
    """coldforge's ``template.yaml`` for what is built already, below layers/: SAM only uploads it."""
    text = edited(template, _PREBUILT)
    head = "# From coldforge's template.yaml. `coldforge new --update .` shows what a newer version has.\n"
    return head + edited(text, {r"^    Default: emotion$": f"    Default: {service.model}"})


def example_model(project: Project, service: Service) -> str:
    """The model.toml of the example that needs no model file, with the service's name."""
    text = (project.examples / "emotion" / "model.toml").read_text(encoding="utf-8")
    return re.sub(r"^name = .*$", f'name = "{service.model}"', text, count=1, flags=re.MULTILINE)


def active_command() -> Path | None:
    """Find the coldforge command that runs, or that is installed beside this Python; None where there is neither."""
    candidates = Path(sys.argv[0]).absolute(), Path(sysconfig.get_path("scripts"), "coldforge")
    return next((path for path in candidates if path.name == "coldforge" and path.is_file()), None)


def write_service(
    folder: Path, files: dict[str, str], model: Path | None = None, command: Path | None = None
) -> list[str]:
    """Write ``files`` into ``folder``, and copy ``model``, a file or a folder, there; what is new in it, sorted.

    A link to ``command`` has the Makefile use the coldforge that wrote the project, however that was installed. Raises
    UsageError, before anything is written, where one of them is there.
    """
    names = [*files, *([model.name] if model else []), *([COMMAND_LINK] if command else [])]
    if there := sorted(name for name in names if (folder / name).exists()):
        raise UsageError(f"{folder} has {there[0]} already: name another folder, or see what differs with --update.")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_file(folder / name, text)
    if model and model.is_dir():
        shutil.copytree(model, folder / model.name)
    elif model:
        shutil.copyfile(model, folder / model.name)
    if command:
        (folder / COMMAND_LINK).symlink_to(command)
    return sorted(names)


def differences(folder: Path, files: dict[str, str]) -> Iterator[str]:
    """Lines of a unified diff from the files in ``folder`` to ``files``; none for one that is the same."""
    for name, text in sorted(files.items()):
        path = folder / name
        there = path.read_text(encoding="utf-8") if path.is_file() else ""
        yield from difflib.unified_diff(
            there.splitlines(True), text.splitlines(True), name if there else "/dev/null", f"{name} ({__version__})"
        )


def _filled(template: str, values: dict[str, str]) -> str:
    """The text of a template with each ``@name@`` replaced. Raises KeyError for one that has no value."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return re.sub(r"@([a-z]+)@", lambda found: values[found[1]], text)
