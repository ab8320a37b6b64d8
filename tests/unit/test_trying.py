"""What the command says a bundle can be tried with."""

from __future__ import annotations

from typing import Any

from builder.report.trying import how_to_try, zeros

PICTURE: dict[str, Any] = {"name": "pixels", "dtype": "uint8", "shape": [1, 8, 8, 1], "bytes": 64}
SERIES: dict[str, Any] = {"name": "series", "dtype": "float32", "shape": [1, 3], "bytes": 12}


def described(*feeds: dict[str, Any]) -> dict[str, Any]:
    return {"feeds": list(feeds), "image": {"feed": "pixels"} if PICTURE in feeds else None}


def test_a_model_that_takes_a_picture_is_tried_with_one() -> None:
    assert how_to_try(["a", "b c"], described(PICTURE)) == "try it: make invoke MODEL='a b c' IMAGE=tests/data/face.jpg"
    assert zeros(described(PICTURE)) == {}


def test_a_model_without_pictures_is_tried_with_tensors() -> None:
    text = how_to_try(["series"], described(SERIES))
    assert text.startswith("try it: make invoke MODEL=series\n")
    assert '{"inputs": {"series": <float32 [1, 3]>}}' in text
    assert "IMAGE" not in text
    assert zeros(described(SERIES)) == {"inputs": {"series": {"b64": "AAAAAAAAAAAAAAAA"}}}


def test_a_model_that_takes_both_is_tried_with_both() -> None:
    assert '{"image": "<base64>", "inputs": {"series": <float32 [1, 3]>}}' in how_to_try(
        ["both"], described(PICTURE, SERIES)
    )
    assert list(zeros(described(PICTURE, SERIES))["inputs"]) == ["series"]


def test_a_model_of_text_is_tried_with_one() -> None:
    ids, mask = SERIES | {"name": "input_ids"}, SERIES | {"name": "attention_mask"}
    about = described(ids, mask) | {"text": {"ids": "input_ids", "mask": "attention_mask", "types": ""}}
    assert how_to_try(["a"], about) == 'try it: make invoke MODEL=a TEXT="..."'
    assert zeros(about) == {}
    both = about | {"feeds": [ids, mask, SERIES]}
    assert list(zeros(both)["inputs"]) == ["series"]
