"""The command that starts a project: new."""

from __future__ import annotations

from pathlib import Path

from builder.cli.command import Arguments, Command, Options, add_trust, answer, relative
from builder.cli.looking import describe_for, fetched_model
from builder.project import Project


def _new_arguments(parser: Arguments) -> None:
    parser.add_argument("folder", type=Path, help="the project's folder, whose name the model gets")
    parser.add_argument(
        "--from", dest="model", metavar="MODEL",
        help=".keras, .h5, .pb or a SavedModel folder, which is copied, or an address (default: the emotion example's)",
    )  # fmt: skip
    parser.add_argument(
        "--update", action="store_true", help="write nothing: show how the files differ from what it would write today"
    )
    add_trust(parser)


def new(options: Options, project: Project) -> None:
    from builder.importers.draft import draft_text
    from builder.scaffold import Service, differences, example_model, service_files, write_service

    service = Service.of(options.folder)
    files = service_files(service)
    if options.update:
        diff = "".join(differences(options.folder, files))
        answer(options, {"files": [], "diff": diff}, diff or f"{relative(options.folder)} is as it would be written")
        return
    if options.model:
        path, origin = fetched_model(options, project)
        describe = describe_for(options, thorough=True)
        toml = draft_text(path, describe, trust=options.trust, origin=origin, name=service.model)
        copied = None if origin else path
    else:
        toml, copied = example_model(project, service), None
    written = write_service(options.folder, {"model.toml": toml, **files}, copied)
    text = f"wrote {relative(options.folder)}: check model.toml there, then run `make bundle` and `make test` in it"
    answer(options, {"files": written, "diff": ""}, text)


COMMANDS = (Command("new", "write a project for a model of one's own: stack, tests and CI", _new_arguments, new),)
