"""Tokenizers: the files of a model's tokenizer become ``model.text``, which the function reads (handler/text)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from builder.base.errors import ImportModelError
from builder.config import TextSpec
from builder.importers.text.tokenizer_files import PACKAGE_KIND, PreparedTokenizer, read_tokenizer_json, read_vocabulary

if TYPE_CHECKING:
    from handler.text import TextTokenizer


def prepare_tokenizer(text: TextSpec) -> bytes:
    """Return the content of ``model.text``: a line of JSON, and the data of its kind of encoder.

    Raises ImportModelError for a file that is missing or cannot be read, or for which the function has no encoder.
    """
    tokenizer = _read_tokenizer(text)
    return json.dumps(_make_options(text, tokenizer), ensure_ascii=False).encode() + b"\n" + tokenizer.data


def make_encoder(text: TextSpec, longest: int) -> TextTokenizer:
    """Return the function's own encoder, which takes at most ``longest`` tokens of a text.

    Raises as ``prepare_tokenizer`` does.
    """
    from handler.text import load_tokenizer

    tokenizer = _read_tokenizer(text)
    try:
        return load_tokenizer(_make_options(text, tokenizer), tokenizer.data, longest, str(text.package or ""))
    except (OSError, ValueError) as error:
        raise ImportModelError(f"The tokenizer {text.file} cannot be used: {error}.") from error


def read_padding(text: TextSpec) -> int:
    """Return the id that fills up texts by the tokenizer's file. Raises as ``prepare_tokenizer`` does."""
    return _read_tokenizer(text).pad


def needs_package(text: TextSpec | None) -> bool:
    """Return whether the function needs the ``tokenizers`` package. Raises as ``prepare_tokenizer`` does."""
    return text is not None and _read_tokenizer(text).kind == PACKAGE_KIND


def _read_tokenizer(text: TextSpec) -> PreparedTokenizer:
    path = text.file
    assert path is not None
    try:
        content = path.read_text(encoding="utf-8")
        if text.tokenizer:
            ready = read_tokenizer_json(content, pairs=text.pairs)
        else:
            ready = read_vocabulary(content, lowercase=text.lowercase, pairs=text.pairs)
        if text.length is not None and text.length <= ready.added:
            raise ValueError(f"length is {text.length}, and {ready.added} special tokens alone are added to each text")
    except OSError as error:
        raise ImportModelError(f"The tokenizer {path} cannot be read: {error.strerror}.") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        why = error if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ImportModelError(f"The tokenizer {path} cannot be used: {why}.") from error
    return ready


def _make_options(text: TextSpec, tokenizer: PreparedTokenizer) -> dict[str, Any]:
    own = {
        "kind": tokenizer.kind,
        "pad": tokenizer.pad if text.pad is None else text.pad,
        "truncate": text.truncate,
        "length": text.length,
    }
    return own | dict(tokenizer.options)
