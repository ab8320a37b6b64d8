"""vocab.txt: a vocabulary of BERT, with a piece of a word on each line."""

from __future__ import annotations

from builder.importers.text.prepared import PreparedTokenizer
from builder.importers.text.wordpiece import WordPieceSpec

_UNKNOWN, _FIRST, _LAST, _PAD = "[UNK]", "[CLS]", "[SEP]", "[PAD]"
_SPECIAL = (_UNKNOWN, _FIRST, _LAST, _PAD, "[MASK]")


def read_vocabulary(content: str, *, lowercase: bool) -> PreparedTokenizer:
    """Read ``content`` as BERT's own tokenizer does. Raises ValueError if one of BERT's tokens is missing."""
    pieces = {line.rstrip("\r"): number for number, line in enumerate(content.rstrip("\n").split("\n"))}
    if missing := [token for token in _SPECIAL[:4] if token not in pieces]:
        raise ValueError(f"it has no {' and no '.join(missing)}, so it is not a vocabulary of BERT")
    return WordPieceSpec(
        pieces,
        pad=pieces[_PAD],
        unknown=pieces[_UNKNOWN],
        accents=not lowercase,
        lowercase=lowercase,
        special={token: pieces[token] for token in _SPECIAL if token in pieces},
        before=(pieces[_FIRST],),
        after=(pieces[_LAST],),
    ).prepare_file()
