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
from builder.cli.command import TRUST, Options, argument, command, print_result, shorten_path
from builder.cli.inspect_commands import fetched_model, make_describer
from builder.config.address import is_address
from builder.config.rules import EXTENSIONS

_SIGNATURE = argument("--signature", metavar="NAME", help="which signature of a model that has several")


@command(
    "new",
    "faces --from model.keras",
    argument("folder", type=Path, help="the project's folder, whose name the model gets"),
    argument(
        "--from",
        dest="model",
        metavar="MODEL",
        help=f"{EXTENSIONS} or a model's folder, which is copied, or an address (default: the emotion example's)",
    ),
    argument(
        "--with",
        dest="addons",
        default="",
        metavar="NAMES",
        help="add-ons of the stack, with commas between them (default: none, or with --update those that it has)",
    ),
    argument(
        "--update", action="store_true", help="write nothing: show how the files differ from what it would write today"
    ),
    _SIGNATURE,
    TRUST,
)
def run_new(options: Options, project: Project) -> None:
    """Write a project for a model of your own: stack, tests and CI."""
    from builder.importers.draft import draft_spec
    from builder.release.deploy import parse_addons
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
        toml = draft_spec(
            path, describe, trust=options.trust, signature=options.signature, origin=origin, name=service.model
        ).format_toml()
        copied = None if origin else path
    else:
        toml, copied = make_example_model(project, service), None
    written = write_service(options.folder, {"model.toml": toml, **files}, copied, find_active_command())
    text = f"wrote {shorten_path(options.folder)}: check model.toml there, then run `make bundle` and `make test` in it"
    if missing := required_parameters(files["template.yaml"]) if service.addons else []:
        text += f"; before `make deploy`, give {', '.join(missing)} values in samconfig.toml"
    print_result(options, {"files": written, "diff": ""}, text)


@command(
    "init",
    "model.keras --output faces/model.toml",
    argument(
        "model",
        help=f"{EXTENSIONS} or a model's folder, or its address ({docs_command('sources')})",
    ),
    argument(
        "--output", type=Path, help="where to write (default: model.toml beside the model, or here for an address)"
    ),
    argument("--force", action="store_true", help="overwrite an existing file"),
    _SIGNATURE,
    TRUST,
)
def run_init(options: Options, project: Project) -> None:
    """Write a model.toml for a trained model, to be edited.

    Sizes in it are pixels, lengths are elements, and `scale` multiplies a pixel's 0 to 255.
    """
    from builder.importers.draft import draft_spec

    folder = Path.cwd() if is_address(options.model) else Path(options.model).resolve().parent
    output: Path = options.output or folder / "model.toml"
    if output.exists() and not options.force:
        raise UsageError(f"{output} exists; give another --output, or --force to overwrite it.")
    path, origin = fetched_model(options, project)
    describe = make_describer(options, thorough=True)
    drafted = draft_spec(path, describe, toml=output, trust=options.trust, signature=options.signature, origin=origin)
    write_file(output, drafted.format_toml())
    text = f"wrote {shorten_path(output)}: check it, then run `{bundle_command(str(shorten_path(output)))}`"
    print_result(options, {"file": output.resolve()}, text)


@command("doctor", "")
def run_doctor(options: Options, project: Project) -> int:
    """Say what this machine has, and what it lacks for which command."""
    from builder.cli.doctor import examine_machine, format_diagnosis

    diagnosis = examine_machine(project)
    print_result(options, diagnosis.to_dict(), format_diagnosis(diagnosis))
    return 0 if diagnosis.can_build else EnvironmentSetupError.exit_code


@command(
    "docs",
    "projects",
    argument("page", nargs="?", metavar="PAGE", help="its name, such as projects (default: list all pages)"),
    argument("--web", action="store_true", help="open it, or the first page, in a browser; needs no network"),
)
def run_docs(options: Options, project: Project) -> None:
    """Show a page of the documentation, or list them all."""
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
    run_new,
    run_init,
    run_doctor,
    run_docs,
)
