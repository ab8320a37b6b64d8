"""Where each key of a TOML text stands: ``tomllib`` gives values without their lines.

The text must be one that ``tomllib`` accepts. Only the structure is read here (keys, strings, brackets,
comments); values stay ``tomllib``'s business.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

KeyPath = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^"\\]+|\\.|"{1,2}(?!"))*"{3,5}'  # up to two quotes may stand right before the closing three
    r"|'''(?:[^']+|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\]+|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^,\]}\n#]*")  # number, boolean, date


class Lines:
    """Line numbers, from 1, by path: ``("outputs", 0, "labels", 2)`` is the third label of the first output."""

    def __init__(self, text: str) -> None:
        scanner = _Scanner(text.replace("\r\n", "\n"))
        scanner.document()
        self.known: dict[KeyPath, int] = scanner.found

    def of(self, path: KeyPath) -> int:
        """The line of ``path``, or of the nearest thing around it that the text has; 1 if there is none."""
        while path and path not in self.known:
            path = path[:-1]
        return self.known.get(path, 1)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.newlines = [i for i, c in enumerate(text) if c == "\n"]
        self.found: dict[KeyPath, int] = {}
        self.lengths: dict[KeyPath, int] = {}  # elements so far of each [[array of tables]]

    def document(self) -> None:
        table: KeyPath = ()
        while self.blank() < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)

    def header(self) -> KeyPath:
        here, repeated = self.at, self.text.startswith("[[", self.at)
        self.at += 2 if repeated else 1
        *parents, last = self.keys()
        self.at += 2 if repeated else 1
        path: KeyPath = ()
        for key in parents:
            path = self.newest((*path, key), here)
        path = (*path, last)
        if repeated:
            self.note(path, here)
            self.lengths[path] = self.lengths.get(path, 0) + 1
        return self.newest(path, here)

    def newest(self, path: KeyPath, here: int) -> KeyPath:
        """``path`` itself, or its last element when it is an array of tables."""
        self.note(path, here)
        if path in self.lengths:
            path = (*path, self.lengths[path] - 1)
            self.note(path, here)
        return path

    def pair(self, table: KeyPath) -> None:
        here = self.at
        for key in self.keys():
            table = (*table, key)
            self.note(table, here)
        self.at += 1  # "="
        self.skip(_SPACE)
        self.value(table)

    def keys(self) -> list[str]:
        """A dotted key, up to and not including what follows it."""
        keys = []
        while True:
            self.skip(_SPACE)
            if self.text[self.at] in "\"'":
                keys.append(str(tomllib.loads("key = " + self.skip(_STRING))["key"]))
            else:
                keys.append(self.skip(_BARE_KEY))
            self.skip(_SPACE)
            if self.text[self.at] != ".":
                return keys
            self.at += 1

    def value(self, path: KeyPath) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self.skip(_STRING)
        elif first == "[":
            self.items(path, "]")
        elif first == "{":
            self.items(path, "}")
        else:
            self.skip(_PLAIN)

    def items(self, path: KeyPath, closing: str) -> None:
        self.at += 1
        index = 0
        while self.text[self.blank()] != closing:
            if self.text[self.at] == ",":
                self.at += 1
            elif closing == "]":
                self.note((*path, index), self.at)
                self.value((*path, index))
                index += 1
            else:
                self.pair(path)
        self.at += 1

    def note(self, path: KeyPath, here: int) -> None:
        self.found.setdefault(path, bisect_right(self.newlines, here) + 1)

    def blank(self) -> int:
        self.skip(_BLANK)
        return self.at

    def skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        assert match is not None, "tomllib accepted a text this scanner cannot read"
        self.at = match.end()
        return match.group()
