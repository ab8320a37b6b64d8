"""``coldforge cost`` where it may make no control group: the function in a container of Lambda's image."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.docker.client import docker
from builder.errors import UsageError
from builder.local.rie import image_event
from builder.measure.bench import started
from builder.measure.contained import containers
from tests.conftest import ROOT
from tests.support import abi_library

pytestmark = pytest.mark.usefixtures("lambda_image")


def test_a_container_is_held_to_its_share_of_a_processor(tmp_path: Path) -> None:
    place = containers(abi_library.layer(tmp_path, abi_library.picture_description(mode="rgb")))
    assert place.image in place.name
    event = image_event(ROOT / "tests" / "data" / "face.jpg")
    imports = []
    for memory in (221, 1769):
        with place.running(memory) as running:
            start = started(running, event)
            assert min(start.imports, start.load, start.first) > 0
            assert 1 << 20 < running.peak_rss <= memory << 20
            assert running.invoke(event)["cold_start"] is False
            imports.append(start.imports)
    assert imports[0] > 3 * imports[1]  # an eighth of a processor, and a whole one
    with pytest.raises(UsageError, match="cannot be had"), place.running(1_000_000):
        pass
    assert docker("ps", "--quiet", "--filter", f"ancestor={place.image}").stdout == ""
