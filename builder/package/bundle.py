"""The folder that a build delivers, and its copy where SAM looks for it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import place_file
from builder.base.commands import bundle_command
from builder.base.errors import UsageError
from builder.base.files import replace_folder
from builder.base.records import parse_json
from builder.base.targets import DEFAULT, Target
from builder.compiler.weights_file import FILE
from builder.package.lambda_limits import SizeTable
from builder.package.provenance import STATEMENT

LIBRARY = "lib/libmodel.so"
TEXT, WORDS = "model.text", "model.words"
"""Files beside the library that make ids of texts, and numbers of strings, for a model that takes them:
builder/importers/text, builder/importers/strings/cut_strings.py."""
LAYER_MANIFEST = "model/manifest.json"
"""Path of the manifest in the layer; Lambda puts the layer's root at /opt."""
OPENAPI = ("lib/openapi.json", "lib/docs.html")
"""Paths of the function's OpenAPI document and of its page, which the function serves: builder/package/openapi.py."""

TOKENIZERS = "tokenizers.abi3.so"
"""Library of the ``tokenizers`` package, for a model whose tokenizer needs it: tokenizer_files.py."""

EVERY_BUNDLE = (f"layer/{LIBRARY}", f"layer/{LAYER_MANIFEST}", "manifest.json", "sbom.cdx.json", "NOTICE")
"""Files of every bundle, of one model or several, besides its statement."""


def list_bundle_files(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files of the bundle of the model ``name``, by their paths in it: required and optional ones."""
    required = (*EVERY_BUNDLE, *(f"layer/{path}" for path in OPENAPI), "model.h", "model.json", STATEMENT)
    beside_library = (f"layer/{Path(LIBRARY).with_name(file)}" for file in (FILE, TEXT, TOKENIZERS, WORDS))
    return required, ("layer.zip", *beside_library, f"{name}.weights")


class _BundlePath:
    """An attribute of a bundle: the path of a file or folder in it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, bundle: Bundle, _owner: type[Bundle]) -> Path:
        return bundle.folder / self._path


@dataclass(frozen=True)
class Bundle:
    """The folder ``dist/<model>/`` with the target's suffix, which has all files of a bundle."""

    folder: Path
    sizes: SizeTable

    layer = _BundlePath("layer")
    library = _BundlePath(f"layer/{LIBRARY}")
    weights = _BundlePath(f"layer/{Path(LIBRARY).with_name(FILE)}")  # if they are not in the library
    text = _BundlePath(f"layer/{Path(LIBRARY).with_name(TEXT)}")
    tokenizers = _BundlePath(f"layer/{Path(LIBRARY).with_name(TOKENIZERS)}")
    words = _BundlePath(f"layer/{Path(LIBRARY).with_name(WORDS)}")
    archive = _BundlePath("layer.zip")
    manifest = _BundlePath("manifest.json")
    sbom = _BundlePath("sbom.cdx.json")
    notice = _BundlePath("NOTICE")
    statement = _BundlePath(STATEMENT)
    header = _BundlePath("model.h")
    description = _BundlePath("model.json")

    @property
    def weights_elsewhere(self) -> Path | None:
        """Path of the weights' file if no layer has it, or None."""
        return next(iter(sorted(self.folder.glob("*.weights"))), None)

    @classmethod
    def load(cls, folder: Path) -> Bundle:
        """Read an earlier bundle. Raises OSError, ValueError, KeyError or TypeError where ``folder`` holds none."""
        manifest = parse_json((folder / "manifest.json").read_text(encoding="utf-8"))
        return cls(folder, SizeTable.from_dict(manifest["sizes"]))


def find_bundle(dist: Path, name: str, target: Target, named: str = "") -> Bundle:
    """Return an earlier bundle, of one model or joined; ``named``: the build's name for it. Raises UsageError."""
    try:
        return Bundle.load(dist / f"{name}{target.suffix}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        again = bundle_command(named or name, target)
        raise UsageError(f"there is no bundle of {name} for {target.name}: run `{again}` first.") from error


def activate_layer(bundle: Bundle, layers: Path, target: Target = DEFAULT) -> Path:
    """Make ``bundle`` the one that ``sam build`` takes for ``target``: its layer becomes ``<layers>/model/content``.

    Hard links are used where the file system has them, copies elsewhere; the folder changes in one step. Returns the
    content folder.
    """
    content = layers / "model" / f"content{target.suffix}"
    with replace_folder(content) as fresh:
        shutil.copytree(bundle.layer, fresh, copy_function=place_file, dirs_exist_ok=True)
    return content
