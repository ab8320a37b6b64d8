"""Addresses of models in model.toml: what they mean, what is wrong with others, and that none tells a secret."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.errors import SpecError
from builder.config import Format, ModelSpec, Source, read_spec, render_spec, to_json
from builder.config.address import Address, is_address, parse_address

SHA = "59534287fdfb125e30a94400296c25ea9f5d706fca93dd8adbbbed916799ea0e"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SECRET = "s3cr3t"


def loaded(folder: Path, *lines: str) -> ModelSpec:
    path = folder / "model.toml"
    path.write_text("\n".join(["[model]", *lines]), encoding="utf-8")
    return read_spec(path)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("https://a.b:8443/c/d%20e.keras?x=1#f", ("a.b:8443", "/c/d e.keras", "", "d_e.keras", False)),
        ("https://a.b/", ("a.b", "/", "", "model", False)),
        ("s3://bucket/a b/c.keras", ("bucket", "a b/c.keras", "", "c.keras", False)),
        ("s3://bucket/c.h5?versionId=x.Y-1", ("bucket", "c.h5", "x.Y-1", "c.h5", False)),
        ("hf://org/repo/a/b.keras", ("org/repo", "a/b.keras", "", "b.keras", False)),
        ("hf://org/repo/b.keras@refs/pr/1", ("org/repo", "b.keras", "refs/pr/1", "b.keras", False)),
        (f"hf://org/repo/b.keras@{COMMIT}", ("org/repo", "b.keras", COMMIT, "b.keras", True)),
        ("hf://org/My.repo-2", ("org/My.repo-2", "", "", "My.repo-2", False)),
        (f"hf://org/repo@{COMMIT}", ("org/repo", "", COMMIT, "repo", True)),
        ("kaggle://google/yamnet/tensorFlow2/yamnet/1", ("google/yamnet/tensorFlow2/yamnet", "", "1", "yamnet", True)),
    ],
)
def test_what_an_address_says(text: str, wanted: tuple[str, str, str, str, bool]) -> None:
    found = parse_address(text)
    assert (found.place, found.path, found.revision, found.name, found.pinned) == wanted


@pytest.mark.parametrize("text", ["model.keras", "a/b:c.keras", "C:\\m.keras", "https", "", "mlflow:x", "./https://a"])
def test_a_path_is_none(text: str) -> None:
    assert not is_address(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://a.b/c.keras", "http:// is not encrypted; use one of https://"),
        ("ftp://a.b/c.keras", "ftp:// is not known"),
        ("gs://bucket/c.keras", "gs:// is not known"),
        (f"https://me:{SECRET}@a.b/c.keras", "name or password in it; write these into ~/.netrc"),
        (f"https://{SECRET}@a.b/c.keras", "name or password in it"),
        ("https:///c.keras", "is not a URL"),
        (f"https://a.b/c d.keras?{SECRET}", "%20 for a space"),
        (f"https://a.b:x/c.keras?{SECRET}", "is not a URL"),
        ("s3://bucket", "write it like s3://bucket/model.keras"),
        ("s3://bucket/a/../b.keras", "write it like s3://"),
        ("hf://repo/m.keras", "write it like hf://org/repo/model.keras@COMMIT"),
        ("hf://repo", "write it like hf://org/repo/model.keras@COMMIT"),
        ("hf://org/repo/@main", "write it like hf://org/repo/model.keras@COMMIT"),
        ("hf://org/repo/../m.keras", "write it like hf://"),
        ("hf://org/repo/m.keras@a@b", "write it like hf://"),
        ("kaggle://google/yamnet/tensorFlow2/yamnet", "framework/variation/VERSION"),
        ("kaggle://google/yamnet/tensorFlow2/yamnet/latest", "framework/variation/VERSION"),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    assert is_address(text)
    with pytest.raises(SpecError) as caught:
        loaded(tmp_path, f"source = '{text}'", 'format = "keras"')
    assert "model.toml:2: [model].source: " in str(caught.value)
    assert why in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "form", "archived"),
    [
        (('source = "https://a.b/m.keras"',), "keras", False),
        (('source = "https://a.b/m.tar.gz?sig=x"',), "saved_model", True),
        (('source = "https://a.b/m.zip"', 'file = "a/m.keras"'), "keras", True),
        (('source = "https://a.b/get?id=3"', 'format = "keras"'), "keras", False),
        (('source = "kaggle://o/m/tensorFlow2/v/3"',), "saved_model", True),
        (('source = "kaggle://o/m/keras/v/3"', 'file = "m.keras"'), "keras", True),
        ((f'source = "hf://o/r/m.h5@{COMMIT}"', "trust = true"), "h5", False),
        ((f'source = "hf://o/r@{COMMIT}"',), "transformers", False),
    ],
)
def test_the_format(tmp_path: Path, lines: tuple[str, ...], form: Format, archived: bool) -> None:
    spec = loaded(tmp_path, *lines, *([f'sha256 = "{SHA}"'] if form != "transformers" else []))
    assert (spec.source.format, spec.source.archived, spec.source.path) == (form, archived, None)
    spec.path.write_text(render_spec(spec), encoding="utf-8")
    assert read_spec(spec.path) == spec


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((f'source = "https://a.b/m?{SECRET}"',), "does not tell its format"),
        (
            (f'source = "https://a.b/m?{SECRET}"', 'format = "saved_model"'),
            r"name an archive (.tar.gz, .tgz, .tar, .zip)",
        ),
        (('source = "https://a.b/m.zip"', 'file = "../m.keras"'), "cannot be used"),
        (('source = "https://a.b/m.h5"',), "trust: is not set"),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, lines: tuple[str, ...], why: str) -> None:
    with pytest.raises(SpecError) as caught:
        loaded(tmp_path, *lines)
    assert why in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_presigned_url_has_the_same_stages_each_day(tmp_path: Path) -> None:
    one, other = (loaded(tmp_path, f'source = "https://a.b/m.keras?X-Amz-Signature={day}{SECRET}"') for day in "12")
    assert to_json(one) == to_json(other)
    assert SECRET not in to_json(one)
    assert one.source.shown == "https://a.b/m.keras"


@given(st.text(max_size=60), st.sampled_from(["https://", "s3://", "hf://", "kaggle://", "mlflow:/models:/", ""]))
def test_any_text_is_an_address_or_an_error_of_a_kind(text: str, scheme: str) -> None:
    found = None
    with suppress(ValueError):
        found = parse_address(scheme + text)
    if found is None:
        return
    assert isinstance(found, Address)
    assert found.name == Path(found.name).name
    assert found.name not in ("", ".", "..")
    assert Source("keras", None, address=found).shown.isprintable()
