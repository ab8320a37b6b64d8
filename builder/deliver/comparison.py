"""Two bundles compared: which files differ and where first, and which recorded input is another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from builder.deliver.differences import differences, first_difference
from builder.deliver.statement import parse_statement, read_plain, subjects_of
from builder.pack.provenance import STATEMENT


@dataclass(frozen=True)
class Comparison:
    """``differing``: file to where it differs; ``inputs``: what of the recorded inputs is another now, in words.

    ``measured``: files that differ in nothing but what was measured on the machine that built them.
    """

    files: int
    differing: Mapping[str, str]
    measured: Mapping[str, str]
    inputs: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"identical": self.identical}

    @property
    def identical(self) -> bool:
        return not self.differing


def compare(recorded: Path, made: Path) -> Comparison:
    """Compare two bundles that are what their statements say. Raises BundleError for a statement that is none."""
    before, after = (subjects_of(_statement(folder)) for folder in (recorded, made))
    differing: dict[str, str] = {}
    measured: dict[str, str] = {}
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in before or name not in after:
            differing[name] = "only in the first" if name in before else "only in the new one"
        elif before[name] != after[name]:
            one, other = recorded / name, made / name
            if Path(name).name == "manifest.json" and _unmeasured(one) == _unmeasured(other):
                if where := _measured(one, other):
                    measured[name] = where
            else:
                differing[name] = first_difference(one, other)
    return Comparison(len(before), differing, measured, tuple(_inputs(recorded, made)))


def _unmeasured(path: Path) -> Any:
    """A manifest without what depends on the machine that built: its Python, how TensorFlow's answers differ there, and
    what "auto" measured; what it chose is in the weights.

    Digests and sizes of other files go too: those files are compared themselves. What is no manifest stays as it is.
    """

    def without(manifest: Any) -> Any:
        if not isinstance(manifest, dict):
            return manifest
        kept = {key: value for key, value in manifest.items() if key not in ("verification", "auto", "files", "sizes")}
        if isinstance(models := kept.get("models"), list):
            kept["models"] = [without(one) for one in models]
        if isinstance(tools := kept.get("built_with"), dict):
            kept["built_with"] = {key: value for key, value in tools.items() if key != "python"}
        return kept

    return without(_json(path))


def _measured(recorded: Path, made: Path) -> str:
    """The first place where two manifests differ in what was measured; empty where they do not."""
    before, after = _json(recorded), _json(made)
    keys = ("verification", "auto", "built_with", "models")
    found = (where for key in keys for where in differences(before.get(key), after.get(key), key))
    return next(found, "")


def _json(path: Path) -> Any:
    """What a file of JSON says; its bytes where it is none."""
    data = path.read_bytes()
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data


def _inputs(recorded: Path, made: Path) -> Iterator[str]:
    """What of the recorded inputs, flags and tools is another now."""
    names = [STATEMENT, *(name for name in subjects_of(_statement(recorded)) if name.endswith(f"/{STATEMENT}"))]
    for name in names:
        before, after = (_recorded((folder / name).parent) for folder in (recorded, made))
        where = f"{Path(name).parent}: " if "/" in name else ""
        for key in [*before, *(key for key in after if key not in before)]:
            if before.get(key) != after.get(key):
                yield f"{where}{key}: {before.get(key, 'not there')} → {after.get(key, 'not there')}"


def _recorded(folder: Path) -> dict[str, str]:
    """Every input, flag and tool of the statement in ``folder``, by its name; nothing where there is none."""
    if not (folder / STATEMENT).exists():
        return {}
    predicate = _statement(folder)["predicate"]
    definition = predicate["buildDefinition"]
    found = {key: str(value) for key, value in definition["internalParameters"].items()}
    found |= {f"version of {key}": str(v) for key, v in predicate["runDetails"]["builder"]["version"].items()}
    for entry in definition["resolvedDependencies"]:
        if not entry["name"].endswith(f"/{STATEMENT}"):  # that of a joined bundle's model, compared itself
            found[entry["name"]] = ", ".join(map(str, entry.get("digest", {}).values())) or str(entry.get("uri", ""))
    return found


def _statement(folder: Path) -> dict[str, Any]:
    return parse_statement(read_plain(folder, STATEMENT))
