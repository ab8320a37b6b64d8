"""Embeddings in every format, of length 1 and not, cut by the model and by the request, over every protocol."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from handler.answers.embedding import FORMATS
from handler.budget import RequestLimits
from tests.support import abi_library, vocabulary
from tests.support.everywhere import OWN, TENSORS, There, floats, function
from tests.support.vocabulary import ids

TEXTS = ["very good unknown film!", "bad", "天 unknown"]
"""More than a run holds."""
TOKENS = [ids("very", "good", "un", "##known", "film", "!"), ids("bad"), ids("天", "un", "##known")]
ORDER = ("int8", "float16", "base64", "float32")
"""Of the outputs. OpenAI's protocol gives the first, as numbers or base64 whatever its format is."""


CASES = {f"{size}-{normalise}": (size, normalise) for size in (8, 5) for normalise in (False, True)}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[There, int, bool]]:
    """The function whose model gives the first ``size`` numbers; with an output for each format."""
    size, normalise = CASES[request.param]
    folder = tmp_path_factory.mktemp("sentences")
    description = abi_library.sentence_description(size=size, normalise=normalise, formats=ORDER)
    library = abi_library.build(folder, description)
    vocabulary.write_prepared(folder)
    with function(library, RequestLimits()) as there:
        yield there, size, normalise


def wanted(size: int, normalise: bool, dimensions: int | None = None) -> Any:
    """float32 [texts, numbers]."""
    rows = np.array([[*row, *[0] * 8][: dimensions or size] for row in TOKENS], np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) if normalise else rows


def require_vector(form: str, found: Any, exact: Any) -> None:
    """``found`` is ``exact`` in that format."""
    if form == "base64":
        np.testing.assert_allclose(floats(found), exact, rtol=1e-6)
        return
    assert len(found) == len(exact)
    if form == "int8":
        assert all(type(value) is int for value in found)
        np.testing.assert_allclose(found, exact / np.abs(exact).max() * 127, atol=0.501)
    elif form == "float16":
        np.testing.assert_allclose(found, np.float16(exact), rtol=2**-10)
        assert (np.float16(found) == np.float16(exact)).mean() > 0.5  # the rest between two of them
    else:
        np.testing.assert_allclose(found, exact, rtol=1e-6)


@pytest.mark.parametrize("way", OWN)
def test_our_own_answers(case: tuple[There, int, bool], way: str) -> None:
    there, size, normalise = case
    for form, dimensions in product((None, *FORMATS), (None, 3)):
        options = {name: value for name, value in (("format", form), ("dimensions", dimensions)) if value is not None}
        if options and way == "S3, a text":  # which has none
            continue
        found = there.ask(way, TEXTS, options)
        for answer, exact in zip(found, wanted(size, normalise, dimensions), strict=True):
            assert tuple(answer) == ORDER
            for name, vector in answer.items():
                require_vector(form or name, vector, exact)


@pytest.mark.parametrize("way", TENSORS)
def test_tensors_are_what_the_library_gives(case: tuple[There, int, bool], way: str) -> None:
    there, size, normalise = case
    found = [answer["vector"] for answer in there.ask(way, TEXTS)]
    np.testing.assert_allclose(found, wanted(size, normalise), rtol=1e-6)


@pytest.mark.parametrize("dimensions", [None, 3])
@pytest.mark.parametrize("encoding", [None, "float", "base64"])
def test_openais(case: tuple[There, int, bool], encoding: str | None, dimensions: int | None) -> None:
    there, size, normalise = case
    options = {"encoding_format": encoding} if encoding else {}
    found = there.ask("OpenAI", TEXTS, options | ({"dimensions": dimensions} if dimensions else {}))
    for answer, exact in zip(found, wanted(size, normalise, dimensions), strict=True):
        require_vector("base64" if encoding == "base64" else "float32", answer["embedding"], exact)
