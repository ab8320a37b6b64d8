"""The tokenizers of Hugging Face's ``tokenizers`` package, run by its own library, which lies beside the model's."""

from __future__ import annotations

import os
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader

from ..budget import require_comparisons
from ..errors import UnfitTextError, library_errors
from ..named_tuples import NamedTuple
from ..typed import Any
from . import Encoding, TokenPlace

LIBRARY = "tokenizers.abi3.so"


class Subwords(NamedTuple):
    """A ``Tokenizer`` of the package, with the bounds of its patterns' time.

    ``cost`` and ``slope`` are those that ``require_comparisons`` takes; ``slowest`` is the pattern for its message.
    """

    tokenizer: Any
    share: int = 10  # the library reads the whole text, and needs half a kilobyte for each character
    cost: int = 0
    slope: int = 0
    slowest: str = ""

    def encode_text(self, text: str, longest: int) -> Encoding:
        """Return at most ``longest`` ids of ``text``. Raises UnfitTextError."""
        output = self._run_tokenizer(text, longest)
        return Encoding(output.ids, not output.overflowing)

    def encode_pair(self, first: str, second: str, longest: int) -> Encoding:
        """Return at most ``longest`` ids of a pair, whose longer text is cut off first. Raises UnfitTextError."""
        output = self._run_tokenizer(first, longest, second)
        return Encoding(output.ids, not output.overflowing, output.type_ids)

    def locate_tokens(self, text: str, longest: int) -> tuple[Encoding, list[TokenPlace]]:
        """Return the encoding of ``encode_text``, and the place of each token."""
        output = self._run_tokenizer(text, longest)
        places = [
            TokenPlace(word, start, end) for word, (start, end) in zip(output.word_ids, output.offsets, strict=True)
        ]
        return Encoding(output.ids, not output.overflowing), places

    def _run_tokenizer(self, text: str, longest: int, second: str | None = None) -> Any:
        require_comparisons([text, second or ""], self.cost, self.slope, f"the tokenizer's pattern {self.slowest}")
        self.tokenizer.enable_truncation(longest)
        try:
            with library_errors():
                return self.tokenizer.encode(text, second)
        except MemoryError:
            raise
        except Exception as error:  # the package raises no class of its own
            raise UnfitTextError(
                "the tokenizer cannot take the text: it has no token for a part, or gives up"
            ) from error


def load_package(folder: str) -> Any:
    """Load the library in ``folder`` alone, which is faster than to import the package. Raises OSError."""
    loader = ExtensionFileLoader("tokenizers", os.path.join(folder, LIBRARY))  # noqa: PTH118 - see ``open_texts``
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    try:
        package = module_from_spec(spec)
        loader.exec_module(package)
    except ImportError as error:
        raise OSError(f"{LIBRARY} cannot be loaded: {error}") from error
    return package


def read_encoder(options: dict[str, Any], data: bytes, folder: str) -> Subwords:
    """Read the tokenizer.json ``data`` with the library in ``folder``. Raises OSError, ValueError."""
    package = load_package(folder)
    try:
        with library_errors():
            tokenizer = package.Tokenizer.from_str(data.decode())
    except Exception as error:  # the package raises no class of its own
        raise ValueError(str(error)) from error
    return Subwords(tokenizer, 10 * options["growth"], options["cost"], options["slope"], options["slowest"])
