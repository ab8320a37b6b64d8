"""WordPiece for the function's own encoder, handler/text/wordpiece.py, which reads the file that is written here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from builder.importers.text.prepared import PreparedTokenizer

MOST_SPECIAL = 64
"""The largest number of tokens that a text may name, as each is searched for at every place."""


@dataclass(frozen=True)
class WordPieceSpec:
    """A WordPiece tokenizer; the fields besides ``pieces`` and ``pad`` are options of the prepared file."""

    pieces: Mapping[str, int]
    pad: int
    unknown: int
    clean: bool = True  # whether control characters are removed
    chinese: bool = True  # whether each Chinese character is a word
    accents: bool = False  # whether accents are kept
    lowercase: bool = True
    special: Mapping[str, int] = field(default_factory=dict)  # ids of the tokens that a text may name
    before: tuple[int, ...] = ()  # ids before and after every text
    after: tuple[int, ...] = ()
    prefix: str = "##"
    most: int = 100  # the largest number of characters in a word

    def prepare_file(self) -> PreparedTokenizer:
        """Return the prepared file. Raises ValueError for a vocabulary that is empty or has invalid ids."""
        ids = self.pieces.values()
        if not ids or min(ids) < 0 or max(ids) > 10 * len(ids) + 1_000:
            raise ValueError("its vocabulary is empty, or numbers its pieces with gaps")
        lines = [""] * (max(ids) + 1)
        for piece, number in self.pieces.items():
            if "\n" not in piece:  # No word has a line break.
                lines[number] = piece
        options = asdict(self) | {"widest": max(map(len, lines)) or 1}
        del options["pieces"], options["pad"]
        return PreparedTokenizer(
            "wordpiece", options, "\n".join(lines).encode(), self.pad, len(self.before) + len(self.after)
        )
