"""What the command says a bundle can be tried with."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from builder.base.project import HOME
from builder.cli import make_parser
from builder.measure.local.run_event import default_event, format_try_command, make_zero_inputs

PICTURE: dict[str, Any] = {"name": "pixels", "dtype": "uint8", "shape": [1, 8, 8, 1], "bytes": 64}
SERIES: dict[str, Any] = {"name": "series", "dtype": "float32", "shape": [1, 3], "bytes": 12}


def described(*feeds: dict[str, Any]) -> dict[str, Any]:
    return {"feeds": list(feeds), "image": {"feed": "pixels"} if PICTURE in feeds else None}


def test_a_model_that_takes_an_image_is_tried_with_one() -> None:
    text = format_try_command(["a", "b c"], described(PICTURE))
    assert text.startswith("try it: make invoke MODEL='a b c'\n")
    assert "IMAGE=FILE" in text
    assert make_zero_inputs(described(PICTURE)) == {}


def test_a_model_without_images_is_tried_with_tensors() -> None:
    text = format_try_command(["series"], described(SERIES))
    assert text.startswith("try it: make invoke MODEL=series\n")
    assert '{"inputs": {"series": <float32 [1, 3]>}}' in text
    assert "IMAGE" not in text
    assert "INPUTS=FILE" in text
    assert make_zero_inputs(described(SERIES)) == {"inputs": {"series": {"b64": "AAAAAAAAAAAAAAAA"}}}


def test_a_model_that_takes_both_is_tried_with_both() -> None:
    assert '{"image": "<base64>", "inputs": {"series": <float32 [1, 3]>}}' in format_try_command(
        ["both"], described(PICTURE, SERIES)
    )
    assert list(make_zero_inputs(described(PICTURE, SERIES))["inputs"]) == ["series"]


def test_a_model_of_text_is_tried_with_one() -> None:
    ids, mask = SERIES | {"name": "input_ids"}, SERIES | {"name": "attention_mask"}
    text: dict[str, Any] = {"ids": "input_ids", "mask": "attention_mask", "types": "", "prompts": {"a": "b"}}
    about = described(ids, mask) | {"text": text}
    assert format_try_command(["a"], about).startswith("try it: make invoke MODEL=a\n")
    assert "TEXT=" in format_try_command(["a"], about)
    assert make_zero_inputs(about) == {}
    both = about | {"feeds": [ids, mask, SERIES]}
    assert list(make_zero_inputs(both)["inputs"]) == ["series"]


def test_a_model_of_pairs_is_tried_with_one(tmp_path: Path) -> None:
    text = {"ids": "series", "mask": "", "types": "", "pairs": True}
    about = described(SERIES) | {"text": text, "batch": 1}
    assert '{"text": "...", "text_pair": "..."}' in format_try_command(["a"], about)
    (tmp_path / "model.json").write_text(json.dumps(about))
    assert default_event(tmp_path).keys() == {"text", "text_pair"}


def test_a_model_of_a_table_is_tried_with_a_row(tmp_path: Path) -> None:
    table = {"feed": "series", "columns": ["age", "colour", "n"], "categories": {"colour": ["blue", "red"]}}
    about = described(SERIES) | {"table": table, "batch": 1}
    assert '{"row": {"age": 0, "colour": "blue", "n": 0}}' in format_try_command(["a"], about)
    (tmp_path / "model.json").write_text(json.dumps(about))
    assert default_event(tmp_path) == {"row": {"age": 0, "colour": "blue", "n": 0}}
    strings = [{"name": "word", "shape": [2, 1], "feeds": []}]
    wide = about | {"batch": 2, "table": {"columns": ["word", *"abcd"]}, "strings": strings}
    assert '{"row": {"word": "", "a": 0, "b": 0, "c": 0, ...}}' in format_try_command(["a"], wide)
    (tmp_path / "model.json").write_text(json.dumps(wide))
    assert default_event(tmp_path) == {"rows": [{"word": ""} | dict.fromkeys("abcd", 0)] * 2}


def test_the_line_names_the_folder_that_the_command_was_told_to_work_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = format_try_command(["."], described(PICTURE), Path("my faces"))
    assert text.startswith("try it: coldforge -C 'my faces' invoke\n")


@pytest.mark.parametrize("checkout", [True, False])
@pytest.mark.parametrize("about", [described(PICTURE), described(SERIES), {**described(), "text": {"ids": "a"}}])
@pytest.mark.parametrize("models", [["a"], ["a", "b"], ["."]])
def test_the_line_to_try_is_a_command_that_is_there_and_names_no_file_that_is_not(
    checkout: bool, about: dict[str, Any], models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another folder than the checkout has no Makefile, also where the checkout's own command runs."""
    monkeypatch.chdir(HOME if checkout else tmp_path)
    line, hint = format_try_command(models, about).removeprefix("try it: ").split("\n")
    if checkout:
        assert line == f"make invoke MODEL={shlex.quote(' '.join(models))}"
        assert "--" not in hint
        return
    options = make_parser().parse_args(shlex.split(line)[1:])
    assert (options.models, options.image, options.inputs) == (models, None, None)
    (option,) = re.findall("--[a-z]+", hint)
    assert make_parser().parse_args(["invoke", option, "x"]).command is options.command
