"""Lines of each key of a TOML text, since ``tomllib`` gives values without their lines.

The text must be one that ``tomllib`` accepts. Only the structure is read here (keys, strings, brackets,
comments); ``tomllib`` reads the values.
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


class LineNumbers:
    """Line numbers, from 1, by path: ``("outputs", 0, "labels", 2)`` is the third label of the first output."""

    def __init__(self, text: str) -> None:
        scanner = _Scanner(text.replace("\r\n", "\n"))
        scanner.scan_document()
        self.lines: dict[KeyPath, int] = scanner.lines

    def find_line(self, path: KeyPath) -> int:
        """Return the line of ``path``, or of the nearest table around it in the text; 1 if there is none."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.newlines = [i for i, c in enumerate(text) if c == "\n"]
        self.lines: dict[KeyPath, int] = {}
        self.lengths: dict[KeyPath, int] = {}  # the number of elements so far of each [[array of tables]]

    def scan_document(self) -> None:
        table: KeyPath = ()
        while self.skip_blank() < len(self.text):
            if self.text[self.at] == "[":
                table = self.scan_header()
            else:
                self.scan_pair(table)

    def scan_header(self) -> KeyPath:
        start, repeated = self.at, self.text.startswith("[[", self.at)
        self.at += 2 if repeated else 1
        *parents, last = self.scan_keys()
        self.at += 2 if repeated else 1
        path: KeyPath = ()
        for key in parents:
            path = self.find_newest((*path, key), start)
        path = (*path, last)
        if repeated:
            self.note_line(path, start)
            self.lengths[path] = self.lengths.get(path, 0) + 1
        return self.find_newest(path, start)

    def find_newest(self, path: KeyPath, start: int) -> KeyPath:
        """Return ``path`` itself, or that of its last element when it is an array of tables."""
        self.note_line(path, start)
        if path in self.lengths:
            path = (*path, self.lengths[path] - 1)
            self.note_line(path, start)
        return path

    def scan_pair(self, table: KeyPath) -> None:
        start = self.at
        for key in self.scan_keys():
            table = (*table, key)
            self.note_line(table, start)
        self.at += 1  # "="
        self.skip_pattern(_SPACE)
        self.scan_value(table)

    def scan_keys(self) -> list[str]:
        """Scan a dotted key, up to and not including what follows it."""
        keys = []
        while True:
            self.skip_pattern(_SPACE)
            if self.text[self.at] in "\"'":
                keys.append(str(tomllib.loads("key = " + self.skip_pattern(_STRING))["key"]))
            else:
                keys.append(self.skip_pattern(_BARE_KEY))
            self.skip_pattern(_SPACE)
            if self.text[self.at] != ".":
                return keys
            self.at += 1

    def scan_value(self, path: KeyPath) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self.skip_pattern(_STRING)
        elif first == "[":
            self.scan_items(path, "]")
        elif first == "{":
            self.scan_items(path, "}")
        else:
            self.skip_pattern(_PLAIN)

    def scan_items(self, path: KeyPath, closing: str) -> None:
        self.at += 1
        index = 0
        while self.text[self.skip_blank()] != closing:
            if self.text[self.at] == ",":
                self.at += 1
            elif closing == "]":
                self.note_line((*path, index), self.at)
                self.scan_value((*path, index))
                index += 1
            else:
                self.scan_pair(path)
        self.at += 1

    def note_line(self, path: KeyPath, start: int) -> None:
        self.lines.setdefault(path, bisect_right(self.newlines, start) + 1)

    def skip_blank(self) -> int:
        self.skip_pattern(_BLANK)
        return self.at

    def skip_pattern(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        assert match is not None, "tomllib accepted a text this scanner cannot read"
        self.at = match.end()
        return match.group()
