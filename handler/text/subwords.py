"""Any tokenizer of Hugging Face's ``tokenizers``, by that package's own library, which lies beside the model's."""

from __future__ import annotations

import os
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader

from ..budget import require_comparisons
from ..errors import UnfitTextError, library_errors
from ..tuples import NamedTuple
from ..typed import Any
from . import Encoding, TokenPlace

LIBRARY = "tokenizers.abi3.so"


class Subwords(NamedTuple):
    """``tokenizer``: of the package's class ``Tokenizer``. ``cost`` and ``slope``: of all its patterns, as
    ``require_comparisons`` takes them; ``slowest`` is one of them.
    """

    tokenizer: Any
    share: int = 10  # it looks at all of a text, and needs half a kilobyte for each character
    cost: int = 0
    slope: int = 0
    slowest: str = ""

    def encode_text(self, text: str, longest: int) -> Encoding:
        """At most ``longest`` ids. Raises UnfitTextError."""
        found = self._run_tokenizer(text, longest)
        return Encoding(found.ids, not found.overflowing)

    def locate_tokens(self, text: str, longest: int) -> tuple[Encoding, list[TokenPlace]]:
        """The same, and the place of each."""
        found = self._run_tokenizer(text, longest)
        places = [
            TokenPlace(word, start, end) for word, (start, end) in zip(found.word_ids, found.offsets, strict=True)
        ]
        return Encoding(found.ids, not found.overflowing), places

    def _run_tokenizer(self, text: str, longest: int) -> Any:
        require_comparisons([text], self.cost, self.slope, f"the tokenizer's pattern {self.slowest}")
        self.tokenizer.enable_truncation(longest)
        try:
            with library_errors():
                return self.tokenizer.encode(text)
        except MemoryError:
            raise
        except Exception as error:  # the package has no class of its own for it
            raise UnfitTextError(
                "the tokenizer cannot take the text: it has no token for a part, or gives up"
            ) from error


def load_package(folder: str) -> Any:
    """The library in ``folder``; nothing else of the package is imported: that would take longer. Raises OSError."""
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
    """``data``: a tokenizer.json; ``folder``: where the library is. Raises OSError, ValueError."""
    package = load_package(folder)
    try:
        with library_errors():
            tokenizer = package.Tokenizer.from_str(data.decode())
    except Exception as error:  # the package has no class of its own for it
        raise ValueError(str(error)) from error
    return Subwords(tokenizer, 10 * options["growth"], options["cost"], options["slope"], options["slowest"])
