"""Files of a small project that a team owns: one model, the stack that serves it, tests and CI."""

from __future__ import annotations

import difflib
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder import __version__
from builder.base.errors import UsageError
from builder.base.files import write_file
from builder.base.project import Project
from builder.importers.draft import name_of
from builder.release.compose import addon_names, compose_template

TEMPLATES = Path(__file__).with_name("templates")

FILES = {
    "Makefile": "Makefile.in",
    "README.md": "README.md.in",
    "requirements.txt": "requirements.txt.in",
    ".gitignore": "gitignore.in",
    "tests/test_service.py": "test_service.py.in",
    ".github/workflows/service.yml": "service.yml.in",
}
"""Templates by file, in which ``@name@`` and the like are replaced; template.yaml and samconfig.toml come besides."""

COMMAND_LINK = ".coldforge"
"""Link to the command, which is not in git, as it is of one machine."""

_ADDONS = re.compile(r"^# Written by `coldforge new --with ([a-z,-]+)`", re.MULTILINE)


@dataclass(frozen=True)
class Service:
    """A project to write.

    ``model``: the name of its model, from which the stacks have theirs. ``addons``: the add-ons of its template.
    """

    model: str
    addons: tuple[str, ...] = ()

    @classmethod
    def from_folder(cls, folder: Path, addons: Sequence[str], *, update: bool = False) -> Service:
        """Return the service that ``folder`` is named for; for an ``update``, with the add-ons that it has already."""
        path = folder / "template.yaml"
        match = _ADDONS.search(_read(path)) if update else None
        own_addons = {*match[1].split(",")} & {*addon_names()} if match else set()  # Others are gone from coldforge.
        return cls(name_of(folder.resolve()), tuple(sorted({*own_addons, *addons})))

    @property
    def name(self) -> str:
        """The name as a stack may have it: letters, digits and hyphens, of which the first is a letter."""
        name = self.model.replace("_", "-").strip("-")
        return name if name[:1].isalpha() else f"model-{name}".rstrip("-")


def make_service_files(service: Service) -> dict[str, str]:
    """Return the text of each file by its path, but for model.toml and the model, which belong to the team."""
    values = {"name": service.model, "service": service.name, "version": __version__}
    environments = "".join(
        _fill_template("environment.in", values | {"environment": name, "suffix": suffix, "parameters": more})
        for name, (suffix, more) in _list_environments(service).items()
    )
    texts = {path: _fill_template(template, values) for path, template in FILES.items()}
    texts["samconfig.toml"] = _fill_template("samconfig.toml.in", {"environments": environments})
    texts["template.yaml"] = _make_service_template(service)
    return texts


def _make_service_template(service: Service) -> str:
    """Return the core template and its add-ons, with the project's model as ModelName's default."""
    command = f"coldforge new{' --with ' if service.addons else ''}{','.join(service.addons)}"
    head = f"# Written by `{command}`. `coldforge new --update .` shows what a newer coldforge has.\n"
    name = f"Parameters:\n  ModelName:\n    Default: {service.model}\n"
    return head + compose_template(service.addons, changes=name)


def _list_environments(service: Service) -> dict[str, tuple[str, str]]:
    """Return samconfig.toml's environments, to the suffix of the stack's name and to the template's parameters."""
    canary = " GradualDeployment=Canary10Percent5Minutes" if "canary" in service.addons else ""
    prod = ("prod", f"{canary} LogRetentionDays=90")
    return {"default": ("dev", ""), "dev": ("dev", ""), "staging": ("staging", ""), "prod": prod}


def make_example_model(project: Project, service: Service) -> str:
    """Return the model.toml of the example that needs no model file, with the service's name."""
    text = (project.examples / "emotion" / "model.toml").read_text(encoding="utf-8")
    return re.sub(r"^name = .*$", f'name = "{service.model}"', text, count=1, flags=re.MULTILINE)


def find_active_command() -> Path | None:
    """Return the coldforge command that runs, or that is installed beside this Python; None where neither exists."""
    candidates = Path(sys.argv[0]).absolute(), Path(sysconfig.get_path("scripts"), "coldforge")
    return next((path for path in candidates if path.name == "coldforge" and path.is_file()), None)


def write_service(
    folder: Path, files: dict[str, str], model: Path | None = None, command: Path | None = None
) -> list[str]:
    """Write ``files`` into ``folder``, copy ``model``, a file or a folder, there, and return the new names, sorted.

    A link to ``command`` has the Makefile use the coldforge that wrote the project, however that was installed. Raises
    UsageError, before anything is written, where one of the files exists.
    """
    names = [*files, *([model.name] if model else []), *([COMMAND_LINK] if command else [])]
    if existing := sorted(name for name in names if (folder / name).exists()):
        raise UsageError(f"{folder} has {existing[0]} already: name another folder, or see what differs with --update.")
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


def diff_service(folder: Path, files: dict[str, str]) -> Iterator[str]:
    """Yield a unified diff from the files in ``folder`` to ``files``; nothing for files that are the same."""
    for name, text in sorted(files.items()):
        path = folder / name
        current = _read(path)
        yield from difflib.unified_diff(
            current.splitlines(True), text.splitlines(True), name if current else "/dev/null", f"{name} ({__version__})"
        )


def _read(path: Path) -> str:
    """Return the text of a file that its owner may have changed; empty where the file is missing."""
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}. Mend it, or move it away to see the whole new file."
        ) from error


def _fill_template(template: str, values: dict[str, str]) -> str:
    """Fill in a template: each ``@name@`` is replaced. Raises KeyError for a name without a value."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return re.sub(r"@([a-z]+)@", lambda found: values[found[1]], text)
