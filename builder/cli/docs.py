"""The command that shows the documentation: docs."""

from __future__ import annotations

import os
import pydoc
import sys
import webbrowser

from builder.cli.command import Arguments, Command, Options, answer
from builder.project import Project
from builder.report.text import table


def _docs_arguments(parser: Arguments) -> None:
    parser.add_argument("page", nargs="?", metavar="PAGE", help="its name, such as projects (default: list all pages)")
    parser.add_argument("--web", action="store_true", help="open it, or the first page, in a browser; needs no network")


def docs(options: Options, project: Project) -> None:
    from builder.documentation import build_site, page_titles, read_page, style_page

    text = read_page(options.page) if options.page else table(("page", "about"), list(page_titles().items())) + "\n"
    address = (build_site(project.cache) / f"{options.page or 'index'}.html").as_uri() if options.web else None
    if address:
        webbrowser.open(address)
    if options.json or address:
        answer(options, {"page": options.page, "text": text, "address": address}, str(address))
    elif sys.stdout.isatty():
        os.environ.setdefault("LESS", "FRX")  # as git has it: colours, and no pager for what fits on the screen
        pydoc.pager(style_page(text) if options.page else text)
    else:
        print(text, end="")


COMMANDS = (Command("docs", "show a page of the documentation, or list them all", _docs_arguments, docs),)
