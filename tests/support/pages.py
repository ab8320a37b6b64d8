"""The commands of README and the pages in docs/: each stands in a block of ``console`` after ``$``.

A block of ``sh`` is for what needs the reader's own account or files; nothing runs it.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

SERVED = {
    "docs/answers.md": "tests/integration/test_answers.py",
    "docs/protocols.md": "tests/integration/test_clients.py",
    "docs/text.md": "tests/integration/test_minilm.py",
}
"""Pages with commands that need a function that is served meanwhile, and what runs them."""
ADDRESS = "http://127.0.0.1:8080"
"""Where it is."""


def commands(page: Path) -> list[str]:
    """The commands of ``page``, in their order, with the lines below that are indented. Others are what one prints."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [command for block in blocks for command in re.findall(r"^\$ (.+(?:\n  .+)*)", block, re.MULTILINE)]


def all_commands() -> dict[str, list[str]]:
    """Every command once, README's first, to the pages that have it; none that needs a function to be served."""
    found: dict[str, list[str]] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for command in commands(page):
            if ADDRESS not in command:
                found.setdefault(command, []).append(page.relative_to(ROOT).as_posix())
    return found


def served_commands(page: str) -> list[str]:
    """Those of ``page`` that do."""
    return [command for command in commands(ROOT / page) if ADDRESS in command]


def answers(page: str) -> list[tuple[str, str]]:
    """The commands of ``page`` that stand alone in a block, with the JSON that is right behind it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```console\n\$ ([^`]*?)\n```\n\n```json\n(.*?)\n```", text, re.DOTALL)


def ask(command: str, url: str) -> Any:
    """The answer to a command of a page, at ``url``: JSON, or a text. Raises AssertionError where it fails."""
    line = command.replace(ADDRESS, url).replace("curl ", "curl --fail-with-body --silent --show-error ", 1)
    shell = ["bash", "-c", f"set -o pipefail; {line}"]
    done = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout.startswith(("{", "[")) else done.stdout


def assert_alike(answer: Any, documented: Any) -> None:
    """The same but for times, and for what a picture's decoding does to small probabilities."""
    if isinstance(documented, dict):
        assert answer.keys() == documented.keys()
        for key in documented.keys() - {"timings_ms", "cold_start"}:
            assert_alike(answer[key], documented[key])
    elif isinstance(documented, list):
        assert len(answer) == len(documented)
        for one, other in zip(answer, documented, strict=True):
            assert_alike(one, other)
    elif isinstance(documented, float):
        assert abs(answer - documented) < max(5e-4 * abs(documented), 0.1 * min(abs(documented), 1e-3))
    else:
        assert answer == documented
