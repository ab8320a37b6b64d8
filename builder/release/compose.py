"""Composition of template.yaml from coldforge's core template and its add-ons.

An add-on is a template in ``addons/`` beside this module, with only its additions to the core. Mappings are merged,
items of lists are appended, a plain value replaces the core's, and ``null`` deletes the core's value of that key. A
file named ``a+b.yaml`` has the additions that a and b need together. Comments and the order of lines stay, because a
person maintains the result: lines are therefore merged by their indentation, as far as these files use YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from builder.base.commands import did_you_mean
from builder.base.errors import UsageError
from builder.base.escape import escape_invisible
from builder.base.project import HOME

CORE = HOME / "template.yaml"
ADDONS = Path(__file__).with_name("addons")
PACKAGES = ("zip", "image", "instances")
"""Ways to package the function. The core is for zip."""

NEEDS = {
    "access-log": ("http-api", "rest-api"),
    "api-keys": ("rest-api",),
    "batch": ("results",),
    "bucket": ("queue",),
    "domain": ("http-api", "rest-api"),
    "fifo": ("queue",),
    "tokens": ("http-api",),
    "waf": ("rest-api",),
}
"""For each add-on, the add-ons of which it needs at least one."""

CONFLICTS = (
    ("snapstart", "provisioned", "Lambda takes SnapStart or provisioned concurrency, not both"),
    ("snapstart", "file-system", "Lambda takes SnapStart or a file system, not both"),
    ("snapstart", "image", "SnapStart is for zip functions"),
    ("code-signing", "image", "Lambda takes signatures of zips only"),
    ("opentelemetry", "image", "no layer goes into a container image"),
    ("snapstart", "instances", "AWS takes no SnapStart with a capacity provider"),
    ("provisioned", "instances", "AWS takes no provisioned concurrency with a capacity provider"),
    ("file-system", "instances", "AWS takes no VPC of the function with a capacity provider"),
    ("bucket", "fifo", "S3 sends its events in no order"),
    ("weights", "file-system", "the weights are in one place"),
)
"""Pairs of add-ons or packages that AWS does not allow together, and the reason."""

_KEY = re.compile(r'\s*((?:"[^"]*"|[\w.-]+)):(?:\s+(.*))?$')


def addon_names() -> list[str]:
    """Return the names of all add-ons."""
    return sorted(path.stem for path in ADDONS.glob("*.yaml") if "+" not in path.stem)


def compose_template(addons: Iterable[str], package: str = "zip", changes: str = "") -> str:
    """Return the text of the core template with ``addons``, for a ``package`` of PACKAGES.

    ``changes``: the text of one more add-on, which is merged last. Raises UsageError for an add-on that does not exist,
    lacks another one, or cannot be combined with another one.
    """
    names = sorted(set(addons))
    _require_compatible(names, package)
    core = _parse_blocks(CORE.read_text(encoding="utf-8"))
    together = sorted(path.stem for path in ADDONS.glob("*+*.yaml") if {*path.stem.split("+")} <= {*names})
    packages = [] if package == "zip" else [f"packages/{package}"]
    for name in [*sorted(names, key=lambda name: name in NEEDS), *together, *packages]:
        _merge_blocks(core, _parse_blocks((ADDONS / f"{name}.yaml").read_text(encoding="utf-8")))
    _merge_blocks(core, _parse_blocks(changes))
    return "".join(f"{line}\n" for line in core.list_lines())


def _require_compatible(chosen: list[str], package: str) -> None:
    known = addon_names()
    for name in chosen:
        if name not in known:
            raise UsageError(
                f"there is no add-on {escape_invisible(name)}.{did_you_mean(name, known)} "
                f"There are: {', '.join(known)}."
            )
        if name in NEEDS and not {*NEEDS[name]} & {*chosen}:
            needed = " or ".join(NEEDS[name])
            raise UsageError(f"the add-on {name} needs {needed}: give both, as in --with {NEEDS[name][0]},{name}.")
    for first, second, reason in CONFLICTS:
        if {first, second} <= {*chosen, package}:
            raise UsageError(f"{first} and {second} do not go together: {reason}. Leave one of them out.")


@dataclass
class _Block:
    """A line of YAML, the comments and empty lines above it, and the blocks that are indented below it."""

    line: str
    comments: list[str] = field(default_factory=list)
    children: list[_Block] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Key of a mapping; empty for an item of a list and for a line of text."""
        match = _KEY.match(self.line)
        return match[1] if match else ""

    @property
    def value(self) -> str:
        match = _KEY.match(self.line)
        return (match[2] or "").partition(" #")[0].strip() if match else ""

    def list_lines(self) -> Iterator[str]:
        yield from self.comments
        if self.line:
            yield self.line
        for child in self.children:
            yield from child.list_lines()


def _parse_blocks(text: str) -> _Block:
    root = _Block("")
    path, comments = [(-1, root)], []
    for line in text.splitlines():
        content = line.lstrip()
        if not content or content.startswith("#"):
            comments.append(line)
            continue
        depth = len(line) - len(content)
        while path[-1][0] >= depth:
            path.pop()
        block = _Block(line, comments)
        path[-1][1].children.append(block)
        path.append((depth, block))
        comments = []
    return root


def _merge_blocks(block: _Block, addition: _Block) -> None:
    """Merge the children of ``addition`` into those of ``block``."""
    for new in addition.children:
        index = next((i for i, old in enumerate(block.children) if old.key and old.key == new.key), None)
        if index is None:
            if new.value != "null":
                block.children.append(new)
            continue
        old = block.children[index]
        if new.value == "null":
            del block.children[index]
        elif new.children and old.children and not new.value and not old.value:
            _merge_blocks(old, new)
        else:
            block.children[index] = _Block(new.line, new.comments or old.comments, new.children)
