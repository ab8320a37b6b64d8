"""The pages of docs/, which are in the wheel too, as text for a terminal and as files for a browser."""

from __future__ import annotations

import re
from pathlib import Path

from builder.base.cache import compute_digest, run_cached
from builder.base.commands import did_you_mean, docs_command
from builder.base.errors import UsageError
from builder.base.project import HOME

PAGES = HOME / "docs"

_STYLE = (
    ":root{color-scheme:light dark;font:16px/1.5 sans-serif}body{max-width:55em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th,pre{border:1px solid #8888;padding:.2em .6em}pre{overflow-x:auto}"
    "td+td{overflow-wrap:anywhere}img{max-width:100%}"
)


def page_titles() -> dict[str, str]:
    """Return the title of each page by the page's name."""
    names = sorted(path.stem for path in PAGES.glob("*.md"))
    return {name: read_page(name).partition("# ")[2].partition("\n")[0] for name in names}


def read_page(name: str) -> str:
    """Return the Markdown of the page ``name``. Raises UsageError if there is no such page."""
    names = [path.stem for path in PAGES.glob("*.md")]
    if name not in names:
        raise UsageError(f"there is no page {name}.{did_you_mean(name, names)} `coldforge docs` lists them all.")
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def link_pages(text: str) -> str:
    """Return a text for docs/ with links in place of the commands that show pages."""
    return re.sub(docs_command(r"([\w-]+)"), r"[\1.md](\1.md)", text)


def fill_blocks(page: Path, **blocks: str) -> str:
    """Return the text of a page with new Markdown between the comments ``<!-- NAME -->`` and ``<!-- /NAME -->``."""
    text = page.read_text(encoding="utf-8")
    for name, block in blocks.items():
        start, end = f"<!-- {name} -->\n\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}{block.strip()}\n\n{end}{rest.partition(end)[2]}"
    return text


def style_page(text: str) -> str:
    """Render Markdown for a terminal, with commands for links to pages; without rich, return it as it is."""
    try:
        from rich.console import Console
        from rich.markdown import Markdown
    except ImportError:
        return text
    text = re.sub(r"\[([\w-]+)\.md\]\([^)]*\)", lambda link: docs_command(link[1]), text)
    console = Console()
    with console.capture() as captured:
        console.print(Markdown(text, hyperlinks=False))
    return captured.get()


def build_site(cache: Path) -> Path:
    """Render all pages as HTML files that need no server, once per version of the pages, and return their folder."""
    from markdown_it import MarkdownIt

    reader, site = MarkdownIt().enable("table"), cache / "docs"

    def build(fresh: Path) -> None:
        titles = page_titles()
        contents = "# coldforge\n\n" + "".join(f"- [{title}]({name}.md)\n" for name, title in titles.items())
        pages = {name: read_page(name) for name in titles} | {"index": contents}
        for name, text in pages.items():
            body = re.sub(r"<(h\d)>(.*)</h\d>", _add_anchor, reader.render(text))
            body = re.sub(r'((?:href|src)=")([^"#][^":]*)"', lambda link: f'{link[1]}{_resolve_link(link[2])}"', body)
            title = titles.get(name, "coldforge")
            head = f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
            head += '<p><a href="index.html">coldforge</a></p>'
            (fresh / f"{name}.html").write_text(head + body, encoding="utf-8")

    run_cached(site, compute_digest(str(PAGES), PAGES, Path(__file__)), build)
    return site


def _add_anchor(heading: re.Match[str]) -> str:
    words = re.sub(r"<.*?>|&\w+;|[^\w\s-]", "", heading[2]).strip().lower()
    anchor = re.sub(r"[-\s]+", "-", words)
    return f'<{heading[1]} id="{anchor}">{heading[2]}</{heading[1]}>'


def _resolve_link(link: str) -> str:
    """Return the site's page for a link to a page, the address of another file, or "#" if the wheel lacks it."""
    target, mark, anchor = link.partition("#")
    file = (PAGES / target).resolve()
    if file.parent == PAGES and file.suffix == ".md":
        return f"{file.stem}.html{mark}{anchor}"
    return file.as_uri() if file.exists() else "#"
