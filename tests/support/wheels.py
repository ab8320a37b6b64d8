"""A folder of installed packages, as ``layers/dependencies/build.py`` leaves one."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def install(
    root: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    bill: object = None,
    stand_ins: tuple[str, ...] = (),
    stripped: Mapping[str, bytes] | None = None,
    licence: str = "License-Expression: MIT",
) -> Path:
    """Put the package's ``files`` and its ``*.dist-info`` below ``root``; returns that folder.

    ``stripped``: files with what they have when the folder is made, which is not what the wheel had.
    """
    info = root / f"{name}-{version}.dist-info"
    rows = {f"{info.name}/{path}": text.encode() for path, text in _papers(name, version, bill, licence).items()}
    for path, data in {**files, **rows}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    lines = [f"{path},sha256={_recorded(data)},{len(data)}\n" for path, data in {**files, **rows}.items()]
    (info / "RECORD").write_text("".join(lines))
    wheel = {"file": f"{name}-{version}-py3-none-any.whl", "sha256": hashlib.sha256(name.encode()).hexdigest()}
    changed: dict[str, Any] = {"stand_ins": list(stand_ins)} if stand_ins else {}
    for path, data in (stripped or {}).items():
        (root / path).write_bytes(data)
        changed.setdefault("stripped", {})[path] = hashlib.sha256(data).hexdigest()
    (info / "wheel.json").write_text(json.dumps(wheel | changed))
    return info


def _papers(name: str, version: str, bill: object, licence: str) -> dict[str, str]:
    papers = {
        "METADATA": f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{licence}\n\nWhat it is for.\n",
        "licenses/LICENSE": f"You may do with {name} what you like.\n",
    }
    return papers | ({f"sboms/{name}.cdx.json": json.dumps(bill)} if bill else {})


def _recorded(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
