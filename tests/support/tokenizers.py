"""Small tokenizers of each kind, trained by Hugging Face's package on the golden sentences."""

from __future__ import annotations

from typing import Any

from builder.importers.samples.golden_inputs import TEXTS

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LINES = TEXTS.read_text(encoding="utf-8").splitlines()


def trained(library: Any, kind: str, size: int = 600) -> Any:
    """A small tokenizer of that kind, of so many pieces at most.

    ``library``: from ``handler.text.subwords.load_package``.
    """
    words, rules = library.pre_tokenizers, library.normalizers
    if kind.startswith("wordpiece"):
        made = library.Tokenizer(library.models.WordPiece(unk_token="[UNK]"))
        cased = kind.endswith("cased")
        made.normalizer = rules.BertNormalizer(
            lowercase=not cased, strip_accents=None, clean_text=kind != "wordpiece raw"
        )
        made.pre_tokenizer = words.BertPreTokenizer()
        trainer = library.trainers.WordPieceTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False)
    elif kind == "bpe":
        made = library.Tokenizer(library.models.BPE())
        made.pre_tokenizer = words.ByteLevel(add_prefix_space=False)
        alphabet = words.ByteLevel.alphabet()
        trainer = library.trainers.BpeTrainer(
            vocab_size=size, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
        )
    else:
        made = library.Tokenizer(library.models.Unigram())
        made.normalizer, made.pre_tokenizer = rules.NFKC(), words.Metaspace()
        trainer = library.trainers.UnigramTrainer(
            vocab_size=size, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
        )
    made.train_from_iterator(LINES, trainer)
    ends = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    made.post_processor = library.processors.TemplateProcessing("[CLS] $A [SEP]", pair, ends)
    return made
