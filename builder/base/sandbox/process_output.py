"""The relevant part of a process's output."""

from __future__ import annotations

import re
import signal

_LOG_PREFIX = re.compile(r"^(?:[IWEF]\d{4} [\d:.]+\s+\d+ |\d{4}-\d\d-\d\d [\d:.]+: [IWEF] )\S+?:\d+\] ?")
_TRACE = re.compile(
    r"^\s*(?:File \"|Traceback |\*\*\*|@ +0x|self\.|raise |$"
    r"|The op is created at:|dummy_file_name|Stack trace for op definition:)"
)
_CHATTER = re.compile(
    r"^\s*(?:WARNING: All log|To enable the following)"
    r"|TF_DUMP_GRAPH_PREFIX|XLA compilation requires that operator arguments|cpu_feature_guard|MLIR crash reproducer"
    r"|Number of eligible GPUs|Starting new session|absl::InitializeLog"
)
_PLACE = re.compile(r"^\s+(?:\[\[|In )\{\{node ")
"""The lines of TensorFlow's messages that give the place in the graph."""
LINES, WIDTH = 8, 500


def find_last_words(code: int, log: str) -> str:
    """Return up to LINES lines of ``log``, indented. ``code``: the exit code, negative for a signal's number."""
    lines = [
        _LOG_PREFIX.sub("", line).rstrip()
        for line in log.splitlines()
        if not (_TRACE.search(line) or _CHATTER.search(line))
    ]
    useful = [re.sub(r"^[\w.]*\.(\w+(?:Error|Exception)): ", "", line) for line in lines if line.strip()]
    # The exception is last, and contains TensorFlow's whole reason.
    ends = list(dict.fromkeys(useful[-LINES:] if code < 0 else _cut_to_error(useful)))
    return "\n".join(f"  {line[:WIDTH]}" for line in ends) or "  (it said nothing)"


def select_own_lines(log: str) -> list[str]:
    """Return the lines of ``log`` that TensorFlow, XLA and absl did not print."""
    logged = (_LOG_PREFIX.match, _CHATTER.search, _PLACE.match)
    return [line for line in log.splitlines() if line.strip() and not any(is_logged(line) for is_logged in logged)]


def signal_name(code: int) -> str:
    """Return the signal's name for a negative exit code."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _cut_to_error(lines: list[str]) -> list[str]:
    starts = [i for i, line in enumerate(lines) if re.match(r"(?:\w+(?:Error|Exception): |[A-Z_]{6,}: )", line)]
    return lines[starts[-1] :][:LINES] if starts else lines[-LINES:]
