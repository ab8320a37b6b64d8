"""Commands to begin with: new, init, doctor, docs."""

from __future__ import annotations

import os
import pydoc
import sys
import webbrowser
from pathlib import Path

from builder.base.commands import bundle_command, docs_command
from builder.base.console_tables import format_table
from builder.base.errors import EnvironmentSetupError, UsageError
from builder.base.files import write_file
from builder.base.project import Project
from builder.cli.command import Arguments, Command, Options, add_trust, print_result, shorten_path
from builder.cli.looking import fetched_model, make_describer
from builder.config.address import is_address


def _new_arguments(parser: Arguments) -> None:
    parser.add_argument("folder", type=Path, help="the project's folder, whose name the model gets")
    parser.add_argument(
        "--from", dest="model", metavar="MODEL",
        help=".keras, .h5, .pb or a SavedModel folder, which is copied, or an address (default: the emotion example's)",
    )  # fmt: skip
    help = "add-ons of the stack, with commas between them (default: none, or with --update those that it has)"
    parser.add_argument("--with", dest="addons", default="", metavar="NAMES", help=help)
    parser.add_argument(
        "--update", action="store_true", help="write nothing: show how the files differ from what it would write today"
    )
    add_trust(parser)


def run_new(options: Options, project: Project) -> None:
    from builder.importers.draft import draft_spec
    from builder.release.environments import parse_addons
    from builder.release.scaffold import (
        Service,
        diff_service,
        find_active_command,
        make_example_model,
        make_service_files,
        write_service,
    )
    from builder.release.template_check import required_parameters

    service = Service.from_folder(options.folder, parse_addons(options.addons), update=options.update)
    files = make_service_files(service)
    if options.update:
        diff = "".join(diff_service(options.folder, files))
        print_result(
            options, {"files": [], "diff": diff}, diff or f"{shorten_path(options.folder)} is as it would be written"
        )
        return
    if options.model:
        path, origin = fetched_model(options, project)
        describe = make_describer(options, thorough=True)
        toml = draft_spec(path, describe, trust=options.trust, origin=origin, name=service.model).format_toml()
        copied = None if origin else path
    else:
        toml, copied = make_example_model(project, service), None
    written = write_service(options.folder, {"model.toml": toml, **files}, copied, find_active_command())
    text = f"wrote {shorten_path(options.folder)}: check model.toml there, then run `make bundle` and `make test` in it"
    if missing := required_parameters(files["template.yaml"]) if service.addons else []:
        text += f"; before `make deploy`, give {', '.join(missing)} values in samconfig.toml"
    print_result(options, {"files": written, "diff": ""}, text)


def _init_arguments(parser: Arguments) -> None:
    parser.add_argument(
        "model", help=f".keras, .h5, .pb or a SavedModel folder, or its address ({docs_command('sources')})"
    )
    parser.add_argument(
        "--output", type=Path, help="where to write (default: model.toml beside the model, or here for an address)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_trust(parser)


def run_init(options: Options, project: Project) -> None:
    from builder.importers.draft import draft_spec

    folder = Path.cwd() if is_address(options.model) else Path(options.model).resolve().parent
    output: Path = options.output or folder / "model.toml"
    if output.exists() and not options.force:
        raise UsageError(f"{output} exists; give another --output, or --force to overwrite it.")
    path, origin = fetched_model(options, project)
    describe = make_describer(options, thorough=True)
    write_file(output, draft_spec(path, describe, toml=output, trust=options.trust, origin=origin).format_toml())
    text = f"wrote {shorten_path(output)}: check it, then run `{bundle_command(str(shorten_path(output)))}`"
    print_result(options, {"file": output.resolve()}, text)


def run_doctor(options: Options, project: Project) -> int:
    from builder.cli.doctor import examine_machine, format_diagnosis

    diagnosis = examine_machine(project)
    print_result(options, diagnosis.to_dict(), format_diagnosis(diagnosis))
    return 0 if diagnosis.can_build else EnvironmentSetupError.exit_code


def _docs_arguments(parser: Arguments) -> None:
    parser.add_argument("page", nargs="?", metavar="PAGE", help="its name, such as projects (default: list all pages)")
    parser.add_argument("--web", action="store_true", help="open it, or the first page, in a browser; needs no network")


def run_docs(options: Options, project: Project) -> None:
    from builder.base.documentation import build_site, page_titles, read_page, style_page

    text = (
        read_page(options.page) if options.page else format_table(("page", "about"), list(page_titles().items())) + "\n"
    )
    address = (build_site(project.cache) / f"{options.page or 'index'}.html").as_uri() if options.web else None
    if address:
        webbrowser.open(address)
    if options.json or address:
        print_result(options, {"page": options.page, "text": text, "address": address}, str(address))
    elif sys.stdout.isatty():
        os.environ.setdefault("LESS", "FRX")  # with colours, and no pager for short text
        pydoc.pager(style_page(text) if options.page else text)
    else:
        print(text, end="")


COMMANDS = (
    Command("new", "write a project for a model of your own: stack, tests and CI", _new_arguments, run_new),
    Command("init", "write a model.toml for a trained model, to be edited", _init_arguments, run_init),
    Command("doctor", "say what this machine has, and what it lacks for which command", lambda _: None, run_doctor),
    Command("docs", "show a page of the documentation, or list them all", _docs_arguments, run_docs),
)
