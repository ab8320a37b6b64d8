"""Models from Hugging Face, by what its hub answers over HTTP: a redirect to another host for large files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builder.base.errors import ColdforgeError, EnvironmentSetupError, ImportModelError
from builder.config import Source, TextSpec
from builder.config.address import parse_address
from builder.sources import locate_model, locate_text_file
from tests.support.sources import QUICK, site, spec_of, unchanged
from tests.support.website import Website, says, website

__all__ = ["site"]

MODEL = bytes(range(256)) * 400
SHA = hashlib.sha256(MODEL).hexdigest()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_s3cr3t"
PLACE = "/org/repo/resolve/{}/sub/m.keras"


@pytest.fixture
def cdn(site: Website, monkeypatch: pytest.MonkeyPatch) -> Iterator[Website]:
    """The host that has the large files; ``site`` is the hub, where branch main is COMMIT."""
    monkeypatch.setenv("HF_ENDPOINT", site.origin)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with website() as files:
        files.files["/blob"] = MODEL
        linked = {"X_Linked_Etag": f'"{SHA}"', "X_Linked_Size": str(len(MODEL)), "X_Repo_Commit": COMMIT}
        for revision in (COMMIT, "main", "refs%2Fpr%2F1"):
            site.answers[PLACE.format(revision)] = says(302, Location=f"{files.origin}/blob?sig={TOKEN}", **linked)
            about = {"sha": COMMIT, "siblings": [{"rfilename": "sub/m.keras"}, {"rfilename": "README.md"}]}
            site.answers[f"/api/models/org/repo/revision/{revision}"] = says(200, json.dumps(about).encode())
        yield files


def located(folder: Path, address: str = f"hf://org/repo/sub/m.keras@{COMMIT}", sha256: str | None = None) -> Path:
    source = Source("keras", None, sha256=sha256, address=parse_address(address))
    return locate_model(spec_of(folder, source), folder / "cache", bounds=QUICK)


def refused(folder: Path, address: str = f"hf://org/repo/sub/m.keras@{COMMIT}") -> ColdforgeError:
    with pytest.raises(ColdforgeError) as caught:
        located(folder, address)
    assert TOKEN not in str(caught.value)
    return caught.value


def test_a_commit_is_pin_enough(site: Website, cdn: Website, tmp_path: Path) -> None:
    path = located(tmp_path)
    assert path == tmp_path / "cache" / "models" / SHA / "m.keras"
    assert path.read_bytes() == MODEL
    asked = len(site.requests)
    with unchanged(tmp_path):
        assert located(tmp_path) == path
    assert len(site.requests) == asked, "the commit's digest is recorded"


def test_a_tokenizer_of_the_same_commit(site: Website, cdn: Website, tmp_path: Path) -> None:
    located(tmp_path)
    site.files[f"/org/repo/resolve/{COMMIT}/text/vocab.txt"] = b"[PAD]"
    address = parse_address(f"hf://org/repo/sub/m.keras@{COMMIT}")
    text = TextSpec(None, inside=("vocabulary", "text/vocab.txt"))
    spec = replace(spec_of(tmp_path, Source("keras", None, address=address)), text=text)
    found = locate_text_file(spec, tmp_path / "cache", bounds=QUICK).text
    assert found
    assert found.vocabulary
    assert found.vocabulary.read_bytes() == b"[PAD]"
    with unchanged(tmp_path):
        assert locate_text_file(spec, tmp_path / "cache", bounds=QUICK).text == found


def test_the_token_goes_to_the_hub_alone(site: Website, cdn: Website, tmp_path: Path) -> None:
    cdn.cuts = [1000]
    located(tmp_path)
    assert {asked.headers.get("authorization") for asked in site.requests} == {f"Bearer {TOKEN}"}
    assert ["authorization" in asked.headers for asked in cdn.requests] == [False, False]
    assert cdn.requests[1].headers["range"] == "bytes=1000-"
    kept = [file.read_bytes() for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert not any(TOKEN.encode() in data for data in kept)


@pytest.mark.parametrize("revision", ["", "@main", "@refs/pr/1"])
def test_a_branch_is_refused_with_the_line_that_pins_it(
    site: Website, cdn: Website, tmp_path: Path, revision: str
) -> None:
    error = refused(tmp_path, f"hf://org/repo/sub/m.keras{revision}")
    assert f'source = "hf://org/repo/sub/m.keras@{COMMIT}"' in str(error)
    assert cdn.requests == [], "nothing is fetched"


def test_a_branch_with_a_digest(site: Website, cdn: Website, tmp_path: Path) -> None:
    assert located(tmp_path, "hf://org/repo/sub/m.keras@main", SHA).read_bytes() == MODEL


def test_what_the_hub_says_is_held_against_the_pin_before_anything_is_fetched(
    site: Website, cdn: Website, tmp_path: Path
) -> None:
    with pytest.raises(ImportModelError, match=f"found           {SHA}"):
        located(tmp_path, sha256="0" * 64)
    assert cdn.requests == []


def test_other_bytes_than_the_hub_says(site: Website, cdn: Website, tmp_path: Path) -> None:
    cdn.files["/blob"] = MODEL[::-1]
    assert "came with other bytes than its host says" in str(refused(tmp_path))
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_small_file_comes_from_the_hub_itself(site: Website, cdn: Website, tmp_path: Path) -> None:
    del site.answers[PLACE.format(COMMIT)]
    site.files[PLACE.format(COMMIT)] = MODEL
    assert located(tmp_path).read_bytes() == MODEL


def test_a_repository_that_was_renamed(site: Website, cdn: Website, tmp_path: Path) -> None:
    site.answers[f"/old/repo/resolve/{COMMIT}/sub/m.keras"] = says(307, Location=PLACE.format(COMMIT))
    assert located(tmp_path, f"hf://old/repo/sub/m.keras@{COMMIT}").read_bytes() == MODEL


@pytest.mark.parametrize(
    ("status", "code", "kind", "why"),
    [
        (401, "RepoNotFound", ImportModelError, "no model org/repo, or HF_TOKEN may not see it"),
        (404, "RevisionNotFound", ImportModelError, f"no branch, tag or commit {COMMIT}"),
        (404, "EntryNotFound", ImportModelError, "Did you mean sub/m.keras?"),
        (403, "GatedRepo", EnvironmentSetupError, "accepted, do so at https://huggingface.co/org/repo"),
        (401, "", EnvironmentSetupError, "set HF_TOKEN"),
        (500, "", EnvironmentSetupError, "Run the same command again"),
    ],
)
def test_what_the_hub_refuses(
    site: Website, cdn: Website, tmp_path: Path, status: int, code: str, kind: type[ColdforgeError], why: str
) -> None:
    name = "m.kers" if code == "EntryNotFound" else "m.keras"
    place = PLACE.format(COMMIT).replace("m.keras", name)
    site.answers[place] = says(status, X_Error_Code=code, X_Error_Message=TOKEN)
    error = refused(tmp_path, f"hf://org/repo/sub/{name}@{COMMIT}")
    assert isinstance(error, kind)
    assert why in str(error)


def test_a_hub_that_speaks_no_json(site: Website, cdn: Website, tmp_path: Path) -> None:
    site.answers["/api/models/org/repo/revision/main"] = says(200, b"<html>")
    assert "no answer about hf://org/repo/sub/m.keras that can be read" in str(
        refused(tmp_path, "hf://org/repo/sub/m.keras")
    )
