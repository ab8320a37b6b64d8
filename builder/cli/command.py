"""Declaration of a command, and the arguments that several commands share."""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.base.commands import did_you_mean
from builder.base.errors import UsageError
from builder.base.escape import escape_terminal, quote_shell
from builder.base.progress import Progress
from builder.base.project import Project
from builder.base.targets import NAMES, TARGETS, Target, host_target, target_named
from builder.cli.argument_parser import Completer, complete_models, list_known_models
from builder.config import ModelSpec, read_spec
from builder.config.address import is_address
from builder.config.rules import guess_folder_format, guess_format
from builder.pipeline.workspace import Workspace

if TYPE_CHECKING:
    from builder.package.bundle import Bundle

Options = argparse.Namespace

MODEL = "a model.toml, a folder with one, or the name of an example"
DEFAULT_MODEL = "(default: the project's)"

Argument = Callable[[Any], None]
"""Function that adds an argument to a parser, or to a group of arguments."""

Run = Callable[[Options, Project], int | None]


@dataclass(frozen=True)
class Command:
    """A command. ``run`` gets the values of its arguments, and may return an exit code."""

    name: str
    example: str
    arguments: tuple[Argument, ...]
    run: Run

    @property
    def about(self) -> str:
        """Sentences about it: the docstring of ``run``."""
        return " ".join((self.run.__doc__ or "").split())

    @property
    def help(self) -> str:
        """The first of these, as an entry of a list."""
        line = (self.run.__doc__ or "").partition("\n")[0]
        return line[0].lower() + line[1:].rstrip(".")

    @property
    def usage(self) -> str:
        """A command line of it."""
        return f"coldforge {self.name} {self.example}".strip()

    def add_to(self, commands: Any) -> None:
        """Add the command to ``commands``, the result of ``ArgumentParser.add_subparsers``."""
        word = self.name.split()[-1]
        parser = commands.add_parser(word, help=self.help, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.description, parser.epilog = textwrap.fill(self.about, 80), f"example: {self.usage}"
        for add_argument in (*self.arguments, *COMMON):
            add_argument(parser)
        parser.set_defaults(command=self.run)


def command(name: str, example: str, *arguments: Argument) -> Callable[[Run], Command]:
    """Make a command of the function below, whose docstring is the command's help."""
    return lambda run: Command(name, example, arguments, run)


@dataclass(frozen=True)
class Family:
    """A family of commands whose first word is ``name``."""

    name: str
    help: str
    commands: tuple[Command, ...]

    def add_to(self, commands: Any) -> None:
        """Add the family to ``commands``, the result of ``ArgumentParser.add_subparsers``."""
        parser = commands.add_parser(self.name, help=self.help, description=f"{self.help.capitalize()}.")
        parser.epilog = f"example: {self.commands[0].usage}"
        parser.set_defaults(command=lambda *_: parser.print_help())
        own = parser.add_subparsers(metavar="COMMAND")
        for command in self.commands:
            command.add_to(own)


def argument(*names: str, completer: Completer | None = None, **options: Any) -> Argument:
    """Return the function that adds an argument, as argparse describes ``add_argument``."""

    def add(parser: Any) -> None:
        action = parser.add_argument(*names, **options)
        if completer:
            action.completer = completer

    return add


def exclusive(*arguments: Argument) -> Argument:
    """Return the function that adds arguments of which one may be given."""

    def add(parser: Any) -> None:
        group = parser.add_mutually_exclusive_group()
        for add_argument in arguments:
            add_argument(group)

    return add


def make_integer_type(low: int, high: float = math.inf) -> Callable[[str], int]:
    """Return the type of an argument that is a whole number from ``low`` to ``high``."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
            limits = f"{low} or more" if high == math.inf else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"{text} cannot be used; give a whole number, {limits}")
        return int(text)

    return read


def parse_positive(text: str) -> float:
    """Read an argument that is a finite number above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} cannot be used; give a number above 0")
    return value


def models_argument(about: str) -> Argument:
    """Return the function that adds an argument for models, by default the project's own."""
    help = f"{MODEL}; {about} {DEFAULT_MODEL}"
    return argument("models", nargs="*", default=["."], metavar="model", help=help, completer=complete_models)


COUNT = make_integer_type(1)
"""Type of an argument that is a whole number above 0."""

ONE_MODEL = argument("model", nargs="?", default=".", help=f"{MODEL} {DEFAULT_MODEL}", completer=complete_models)
BUNDLED_MODELS = models_argument("every model in the bundle")
TARGET = argument(
    "--target",
    metavar="TARGET",
    help=f"{', '.join(NAMES)} or all (default: model.toml's `targets`)",
    completer=lambda **_: (*NAMES, "all"),
)
ROUTE = argument(
    "--in",
    dest="route",
    default="auto",
    choices=("docker", "host", "auto"),
    help="auto: in Docker where an engine, buildx and the image are there (default: auto)",
)
TRUST = argument("--trust", action="store_true", help="load a model that may run code, as any .h5 file may")
MEASURING = (
    argument("--seconds", type=parse_positive, default=3.0, help="how long to measure each, about (default: 3)"),
    argument(
        "--starts",
        type=make_integer_type(0),
        default=5,
        help="cold starts of the function; 0 leaves the function out (default: 5)",
    ),
)
COMMON = (
    argument("--json", action="store_true", help="print the result as JSON"),
    exclusive(
        argument("-q", "--quiet", action="store_true", help="show no progress: only the result, or the error"),
        argument("-v", "--verbose", action="store_true", help="show what TensorFlow, XLA, pip and make print, too"),
    ),
)
"""Arguments of every command."""


def choose_targets(options: Options, spec: ModelSpec) -> tuple[Target, ...]:
    """Return the requested targets, Lambda's default last, as a command prints its result last. Raises UsageError."""
    names = {None: spec.targets, "": spec.targets, "all": NAMES}.get(options.target, (options.target,))
    targets = [target_named(name) for name in names]
    return tuple(target for target in reversed(TARGETS) if target in targets)


def load_named_spec(model: str, project: Project) -> ModelSpec:
    """Return the spec at a path, or of an example by name. Raises UsageError where neither exists."""
    path = Path(model)
    if is_address(model):
        raise UsageError("this command takes a model.toml. `coldforge init ADDRESS` writes one for a model elsewhere.")
    if is_model(path):
        raise UsageError(
            f"{model} is a trained model; this command takes a model.toml. `coldforge "
            f"init {quote_shell(model)}` writes one."
        )
    candidates = [path, path / "model.toml", project.examples / model / "model.toml"]
    for candidate in candidates:
        if candidate.is_file():
            return read_spec(candidate)
    if guess_format(model):
        raise UsageError(f"there is no file {model}.")
    if model == ".":
        raise UsageError(
            "there is no model.toml in this folder: name one, or `coldforge -C DIR` for the project's folder. "
            "`coldforge new NAME` starts a project."
        )
    raise UsageError(
        f"there is no model.toml at {model}, and no example of that "
        f"name.{did_you_mean(model, list_known_models(project))} "
        f"There are {', '.join(list_known_models(project))}. `coldforge init MODEL` writes one for a trained model."
    )


def trained_spec(model: str, options: Options, project: Project) -> ModelSpec:
    """Load the spec as ``load_named_spec`` does, and first train the model of an example that is trained here."""
    from builder.sources.trained_examples import ensure_trained

    spec = load_named_spec(model, project)
    ensure_trained(spec, project, progress_of(options).show_lines)
    return spec


def bundle_of(models: Sequence[str], project: Project, target: Target | None = None) -> Bundle:
    """Return the bundle of ``models`` for ``target``, or this machine. Raises UsageError, which says what builds it."""
    from builder.package.bundle import find_bundle
    from builder.package.join_bundles import join_names

    name = join_names([load_named_spec(model, project).name for model in models])
    return find_bundle(project.dist, name, target or host_target(), " ".join(models))


def is_model(path: Path) -> bool:
    """Return whether ``path`` is a trained model, rather than a model.toml or a folder with one."""
    if path.is_dir():
        return guess_folder_format(path) is not None and not (path / "model.toml").is_file()
    return path.is_file() and path.suffix != ".toml"


def progress_of(options: Options) -> Progress:
    """Return the progress display that --quiet and --verbose ask for."""
    return Progress(quiet=options.quiet, verbose=options.verbose)


def workspace_of(options: Options, project: Project) -> Workspace:
    """Return the workspace of the named model, for its first target. Raises as ``load_named_spec`` does."""
    spec = trained_spec(options.model, options, project)
    return Workspace.from_spec(spec, project, spec.target, progress_of(options))


def print_result(options: Options, result: Any, text: str) -> None:
    """Print a command's result on standard output: as JSON with --json (``builder.cli.results``), else as ``text``."""
    print_text(json.dumps(result, indent=1, default=str) if options.json else text)


def print_text(text: str) -> None:
    """Print a command's text on standard output; it may quote names from a model."""
    print(escape_terminal(text))


def shorten_path(path: Path) -> Path:
    """Return ``path`` relative to the current folder, where it is below it."""
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path
