"""The files that a build needs of a folder of Hugging Face's transformers, chosen by their names.

Nothing in the folder is run. The names in it, and those that its files have of others, are not trusted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible, toml_string
from builder.config.rules import CODE, EXTENSIONS, FOLDERS, guess_files_format
from builder.sources.archive import find_models, list_names, safe_parts

_DESCRIPTIONS = (".json", ".txt", ".model")
"""Endings of the files at the top that describe the model and its tokenizer."""
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Names of the weights in a folder, the preferred one first; an index may name several files instead."""
_LARGEST_INDEX = 64 << 20
_POINTER = b"version https://git-lfs.github.com/spec/"
"""How a file begins that Git LFS has in the place of a large one (https://git-lfs.com)."""


@dataclass(frozen=True)
class FolderFiles:
    """The ``names`` of all files in a folder; its name in messages is ``what``.

    ``find`` returns the path of a file, which it may fetch first; ``address_file`` what a model.toml calls it. With
    ``trust``, weights may be pickles.
    """

    what: str
    names: Collection[str]
    find: Callable[[str], Path]
    address_file: Callable[[str], str]
    trust: bool

    def choose_names(self) -> list[str]:
        """Return the names of the files that a build needs.

        Raises ImportModelError where the folder is no model of transformers, or has weights that may run code.
        """
        if guess_files_format([name for name in self.names if "/" not in name]) == "keras_hub":
            return self._require_safe(name for name in self.names if _is_of_preset(name))
        if "config.json" not in self.names:
            raise self._make_refusal("config.json")
        folders = ["", *(self._list_modules() if "modules.json" in self.names else [])]
        weights = [name for folder in dict.fromkeys(folders) for name in self._choose_weights(folder)]
        if not weights:
            raise self._make_refusal(" or ".join(_WEIGHTS))
        chosen = {name for name in self.names if "/" not in name and name.endswith(_DESCRIPTIONS)}
        chosen |= {f"{folder}config.json" for folder in folders} & set(self.names)
        return sorted({*self._require_safe(chosen), *weights})

    def _require_safe(self, names: Iterable[str]) -> list[str]:
        """Return ``names``, sorted. Raises ImportModelError where one leads out of the folder."""
        chosen = sorted(names)
        for name in chosen:
            if safe_parts(name) != name.split("/"):
                raise ImportModelError(f"{self.what} has a file whose name leads elsewhere: {escape_invisible(name)}.")
        return chosen

    def _list_modules(self) -> list[str]:
        """Return the folders of sentence-transformers' modules, each with a slash at its end."""
        rows, folders = self._read_json("modules.json"), []
        for row in rows if isinstance(rows, list) else [None]:
            name = row.get("path") if isinstance(row, dict) else None
            parts = safe_parts(name) if isinstance(name, str) else None
            if parts is None:
                raise ImportModelError(
                    f"modules.json of {self.what} does not name folders in its own: {escape_invisible(str(name))}."
                )
            folders.append("".join(f"{part}/" for part in parts))
        return folders

    def _choose_weights(self, folder: str) -> list[str]:
        for name in _WEIGHTS:
            index = f"{name}.index.json"
            if not {folder + name, folder + index} & set(self.names):
                continue
            if name.endswith(".bin") and not self.trust:
                raise ImportModelError(
                    f"{self.what} has its weights as a pickle alone ({folder}{name}), and a pickle may run code when "
                    "it is loaded. Ask its author for model.safetensors. Or, if you trust where it comes from, write "
                    "trust = true under [model]; for a command that writes model.toml, add --trust."
                )
            if folder + name in self.names:
                return [folder + name]
            return [folder + index, *self._list_shards(folder, index, PurePosixPath(name).suffix)]
        return []

    def _list_shards(self, folder: str, index: str, suffix: str) -> list[str]:
        """Return the files of weights that an index names, which are beside it."""
        content = self._read_json(folder + index)
        places = content.get("weight_map") if isinstance(content, dict) else None
        shards = dict.fromkeys(map(str, places.values())) if isinstance(places, dict) else None
        if not shards:
            raise ImportModelError(f"{folder}{index} of {self.what} names no files of weights. Is it damaged?")
        for shard in shards:
            shown = f"{folder}{index} of {self.what} names the file {escape_invisible(shard)}"
            if safe_parts(shard) != [shard] or not shard.endswith(suffix):
                raise ImportModelError(f"{shown}, which is not one of {suffix} beside it: it is not read.")
            if folder + shard not in self.names:
                raise ImportModelError(f"{shown}, which is missing. Look at where the model comes from.")
        return [folder + shard for shard in shards]

    def _read_json(self, name: str) -> Any:
        path = self.find(name)
        try:
            if path.stat().st_size > _LARGEST_INDEX:
                raise ValueError
            return json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            raise ImportModelError(f"{name} of {self.what} is not JSON that can be read.") from None

    def _make_refusal(self, missing: str) -> ImportModelError:
        """Return the error for a folder of something else, which says what it has."""
        models = [name for name, form in find_models(self.names).items() if form not in {*FOLDERS, *CODE}]
        some = ", ".join(models[:5] or sorted(self.names, key=_rank_name)[:5]) or "no files"
        step = f"Name a model that is a file of {EXTENSIONS}."
        if models:
            step = f"Name a file of it:\n  source = {toml_string(self.address_file(models[0]))}"
        return ImportModelError(
            f"{self.what} is no model of transformers, as it has no {missing}. It has {escape_invisible(some)}. {step}"
        )


def require_model_folder(folder: Path, what: str, *, trust: bool) -> None:
    """Raise ImportModelError unless ``folder`` is a model of transformers; ``trust`` lets its weights be pickles."""
    files = FolderFiles(what, list_names(folder), folder.joinpath, lambda name: str(folder / name), trust)
    for name in files.choose_names():
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise ImportModelError(
                f"{name} in {what} is a link that leads out of the folder, which a build does not follow. Copy the "
                "folder with what its links lead to (`cp -rL`), and name the copy."
            )
        with (folder / name).open("rb") as file:
            if file.read(len(_POINTER)) == _POINTER:
                raise ImportModelError(f"{name} in {what} is only Git's pointer to the file: run `git lfs pull` there.")


def _is_of_preset(name: str) -> bool:
    """Return whether KerasHub reads the file ``name`` of a preset."""
    return name.startswith("assets/") or ("/" not in name and name.endswith((".json", ".weights.h5")))


def _rank_name(name: str) -> tuple[bool, str]:
    """Return a key that sorts names of documents behind others."""
    return name.startswith(".") or name.endswith((".md", ".txt", ".json")), name
