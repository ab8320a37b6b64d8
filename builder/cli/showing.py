"""Commands that show a bundle to whoever decides about it: diff."""

from __future__ import annotations

from pathlib import Path

from builder.cli.command import Arguments, Command, Options, add_json, load_spec, progress_of, relative, say
from builder.errors import UsageError
from builder.files import write_file
from builder.project import Project


def _diff_arguments(parser: Arguments) -> None:
    bundle = "a bundle's folder, such as dist/emotion, or a model by name"
    parser.add_argument("before", help=bundle)
    parser.add_argument("after", help=bundle)
    parser.add_argument(
        "--time", action="store_true", help="run both libraries here, in turns, and compare their speed"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads to run on (default: 1)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to measure, about (default: 3)")
    add_json(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the result as a page, too")


def diff(options: Options, project: Project) -> int:
    from builder.diff.difference import compare
    from builder.diff.facts import Facts
    from builder.diff.speed import measure
    from builder.diff.text import render
    from builder.page.diff import diff_page

    if options.threads < 1:
        raise UsageError(f"--threads {options.threads}: give at least 1.")
    before, after = (Facts.read(_bundle_folder(named, project)) for named in (options.before, options.after))
    speed = measure(before, after, threads=options.threads, seconds=options.seconds) if options.time else None
    found = compare(before, after, speed)
    say(found.to_json() if options.json else render(found))
    if options.html:
        write_file(options.html, diff_page(found))
        progress_of(options).say(f"page: {relative(options.html)}")
    return 0


def _bundle_folder(named: str, project: Project) -> Path:
    """The folder itself, where it is one of a bundle, or that of the bundle of a model."""
    folder = Path(named)
    if (folder / "manifest.json").is_file():
        return folder
    from builder.pack.bundle import find_bundle

    spec = load_spec(named, project)
    return find_bundle(project.dist, spec.name, spec.target, named).folder


COMMANDS = (Command("diff", "say what is different between two bundles, as Markdown", _diff_arguments, diff),)
