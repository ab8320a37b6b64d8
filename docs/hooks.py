"""What the site has besides docs/: the pages at the repository's top, and the files that pages link to.

A link that leads out of docs/ (``../template.yaml``) works on the repository's own pages. Here each such file becomes
part of the site: a page of Markdown in ``project/``, any other file, as it is, in ``files/``, a folder as a list. A
link whose text is a page's file name shows the page's title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)(#[^)\s]*)?(?=\))")
NAMED = re.compile(r"\[(?:docs/)?[\w-]+\.md\]\(([^)#\s]+)")


def on_files(files: Files, *, config: Any) -> Files:
    """Adds the pages at the top, and what pages link to."""
    for path in sorted(ROOT.glob("*.md")):
        files.append(File.generated(config, _place(path.name), abs_src_path=str(path)))
    linked = {target for page in files.documentation_pages() for target in _linked(page)}
    for folder in sorted(target for target in linked if (ROOT / target).is_dir()):
        names = sorted(path.name for path in (ROOT / folder).iterdir() if path.is_file())
        listed = "".join(f"- [{name}]({PurePosixPath(folder).name}/{name})\n" for name in names)
        files.append(File.generated(config, _place(folder), content=f"# {folder}\n\n{listed}"))
        linked |= {f"{folder}/{name}" for name in names}
    for target in sorted(linked):
        if (ROOT / target).is_file() and _place(target).startswith("files/"):
            files.append(File.generated(config, _place(target), abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links as the site has them."""

    def link(found: re.Match[str]) -> str:
        place = _place(_target(page.file, found[1]))
        return relpath(place, str(PurePosixPath(page.file.src_uri).parent)) + (found[2] or "")

    def named(found: re.Match[str]) -> str:
        text = (ROOT / _target(page.file, found[1])).read_text(encoding="utf-8")
        return f"[{text.partition('# ')[2].partition(chr(10))[0]}]({found[1]}"

    return LINK.sub(link, NAMED.sub(named, markdown))


def _linked(page: File) -> Iterator[str]:
    for found in LINK.finditer(Path(str(page.abs_src_path)).read_text(encoding="utf-8")):
        yield _target(page, found[1])


def _target(page: File, link: str) -> str:
    """The file that ``link`` on ``page`` means, from the repository's root."""
    place = PurePosixPath(page.src_uri)
    outside = {"index.md": ".", "project": ".", "files": "/".join(place.parts[1:-1])}
    folder = outside.get(place.parts[0], f"docs/{place.parent}")
    return normpath(f"{folder}/{link}")


def _place(target: str) -> str:
    """Where the site has the repository's file or folder ``target``."""
    if target == "README.md":
        return "index.md"
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    if (ROOT / target).is_dir():
        return f"files/{target}.md"
    return f"project/{target}" if "/" not in target and target.endswith(".md") else f"files/{target}"
