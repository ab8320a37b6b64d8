"""Models of scikit-learn that count the terms of a text: their terms, and from the file to the function's answers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.base.errors import ImportModelError
from builder.cli import main
from builder.importers.frameworks.framework_environment import FRAMEWORKS, ensure_environment
from builder.package.bundle import Bundle
from handler.budget import RequestLimits
from handler.errors import TextTooLongError, UnfitTextError, make_refusal
from handler.model import Model
from handler.protocols import predict
from handler.server import Invocation, Server
from handler.text.arrays import make_vector
from handler.text.terms import OPS
from tests.support.framework_scripts import SCRIPTS, run_script
from tests.support.models import empty_project

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.full]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``sklearn_text_cases`` leaves."""
    folder = tmp_path_factory.mktemp("texts")
    assert run_script("sklearn", "sklearn_text_cases.py", folder) == "22 of 22 agree\n"
    return folder


def serve_model(path: Path, feeds: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Server, Invocation]:
    """Build the model in ``path``, and return its server."""
    project = empty_project(folder, monkeypatch)
    trust = "trust = true\n" if path.suffix == ".joblib" else ""
    head = f'[model]\nsource = "{path}"\nname = "texts"\nbatch = [1, 4]\n{trust}'
    (folder / "model.toml").write_text(head + feeds)
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    model = Model(str(Bundle.load(project.dist / "texts").library))
    invocation = Invocation("1", False, lambda: 60_000, lambda _: None, lambda error: make_refusal(error, "1"))
    return Server({model.description.name: model}, RequestLimits()), invocation


@pytest.mark.parametrize(("name", "lengths"), [("vectors.skops", ""), ("united.joblib", "lengths = [64, 1500]\n")])
def test_the_function_answers_as_scikit_learn_to_texts(
    models: Path, name: str, lengths: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = f'[[feeds]]\nname = "text"\n{lengths}' if lengths else ""
    server, invocation = serve_model(models / name, feeds, tmp_path, monkeypatch)
    recorded = json.loads((models / name).with_suffix(".json").read_text())
    (output,) = server.find_description(None).outputs
    texts, answers = recorded["texts"], recorded["answers"]
    for event, wanted in (({"inputs": {"text": texts}}, answers), ({"text": texts[0]}, answers[:1])):
        found = predict.answer_event(event, server, invocation)["predictions"]
        np.testing.assert_allclose([row[output.name] for row in found], wanted, rtol=1e-9, atol=1e-9)
    if lengths:
        with pytest.raises(TextTooLongError, match="at most"):
            predict.answer_event({"text": " ".join(texts)}, server, invocation)


@pytest.mark.parametrize(("name", "feeds"), [("beside", '[[feeds]]\nname = "size"\nnan = true\n'), ("strict", "")])
def test_rows_of_a_table_with_texts(
    models: Path, name: str, feeds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Numbers may be missing where a step fills them in; a category that the encoder does not know is a mistake."""
    server, invocation = serve_model(models / f"{name}.joblib", feeds, tmp_path, monkeypatch)
    assert "decides nothing" not in capsys.readouterr().out
    recorded = json.loads((models / name).with_suffix(".json").read_text())
    rows = [row for row in recorded["rows"] if feeds or row["size"] is not None]
    answers = [a for a, row in zip(recorded["answers"], recorded["rows"], strict=True) if row in rows]
    found = predict.answer_event({"rows": rows}, server, invocation)["predictions"]
    np.testing.assert_allclose([row["probabilities"] for row in found], answers, rtol=1e-6, atol=1e-6)
    if name == "strict":
        with pytest.raises(UnfitTextError):
            predict.answer_event({"rows": [rows[0] | {"first letter": "unknown"}]}, server, invocation)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tokenizer", "TfidfVectorizer has tokenizer=split, which is code that the function does not have: train it"),
        ("slow", r"TfidfVectorizer: its pattern '\\w*\\w*\\w*!' has what may take too long for some texts"),
        ("files", 'CountVectorizer has input="filename", and the function takes texts'),
    ],
)
def test_a_vectorizer_that_is_refused(models: Path, name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(models / f"{name}.joblib"), "--trust"]) == ImportModelError.exit_code
    assert said in capsys.readouterr().err


Analyze = Callable[[dict[str, Any], str], dict[str, int]]


@pytest.fixture(scope="module")
def analyze() -> Iterator[Analyze]:
    """Ask scikit-learn's own analyzer, with options of CountVectorizer, for the terms of a text and their counts."""
    python = ensure_environment(FRAMEWORKS["sklearn"], print) / "bin" / "python"
    command = [python, SCRIPTS / "sklearn_analyzers.py"]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as asked:
        assert asked.stdin
        assert asked.stdout

        def ask(options: dict[str, Any], text: str) -> dict[str, int]:
            assert asked.stdin
            assert asked.stdout
            asked.stdin.write(json.dumps([options, text]) + "\n")
            asked.stdin.flush()
            return dict(json.loads(asked.stdout.readline()))

        yield ask
        asked.stdin.close()


class EveryTerm(dict[str, str]):
    """A vocabulary in which each term is known, by itself."""

    def get(self, term: str, default: Any = None) -> str:
        return term


ODD_LETTERS = "aB é\u0301İıßΣς日本न\u094d\u200d\u0e31\u302e\u00a0\x1c\x85\t\n_-'1२³ﬁ😀\x00."
TEXTS = st.text(st.sampled_from(ODD_LETTERS) | st.characters(codec="utf-8"), max_size=40)
PATTERNS = [r"(?u)\b\w\w+\b", r"\b(\w)\w*\b", r"\w+", r"[^\W\d_]{1,3}", r"\S+", r"(?i)[a-c]+|\d"]
OPTIONS = st.fixed_dictionaries({
    "analyzer": st.sampled_from(["word", "char", "char_wb"]),
    "ngram_range": st.tuples(st.integers(1, 4), st.integers(1, 5)).map(sorted),
    "lowercase": st.booleans(),
    "strip_accents": st.sampled_from([None, "ascii", "unicode"]),
    "token_pattern": st.sampled_from(PATTERNS),
    "stop_words": st.none() | st.just(["a", "b", "i̇", "日本", "1"]),
})  # fmt: skip


@given(OPTIONS, TEXTS)
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_terms_of_a_text_are_those_of_scikit_learn(analyze: Analyze, options: dict[str, Any], text: str) -> None:
    asked = options if options["analyzer"] == "word" else {**options, "stop_words": None}
    counted = OPS["CountTerms"](
        make_vector([text.encode()]),
        table=EveryTerm(),
        analyzer=options["analyzer"],
        ngrams=options["ngram_range"],
        lowercase=options["lowercase"],
        accents=options["strip_accents"],
        token_pattern=options["token_pattern"],
        cost=1,
        slope=0,
        stop_words=asked["stop_words"] or [],
    )
    pairs = iter(counted.values)
    assert dict(zip(pairs, pairs, strict=True)) == analyze(asked, text)


def test_more_terms_than_the_function_can_hold() -> None:
    options = {"accents": None, "token_pattern": r"\w+", "cost": 1, "slope": 0, "stop_words": [], "lowercase": True}
    with pytest.raises(TextTooLongError):
        OPS["CountTerms"](make_vector([b"a " * 9_000]), table={}, analyzer="word", ngrams=[1, 99], **options)
