"""Two real models in one layer, in Lambda's emulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.measure.local import run_event
from builder.package.bundle import Bundle
from builder.package.join_bundles import combine_bundles
from tests.conftest import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.quick, pytest.mark.xdist_group("checkout")]


def test_each_answers_by_its_name(digits: Bundle, emotion: Bundle, tmp_path: Path) -> None:
    joined = combine_bundles([digits, emotion], tmp_path)
    event = run_event.image_event(ROOT / "tests" / "data" / "face.jpg")
    with run_event.prepare_emulator(joined.layer) as running:
        first, named, back = (running.invoke(event | more) for more in ({}, {"model": "emotion"}, {"model": "digits"}))
        unknown = running.invoke(event | {"model": "cats"})
    assert [answer["model"]["name"] for answer in (first, named, back)] == ["digits", "emotion", "digits"]
    assert named["predictions"][0]["emotion"][0]["label"] == "happy"
    assert back["predictions"] == first["predictions"]
    assert unknown["error"]["message"] == 'there is no model "cats"; choose from digits, emotion'
