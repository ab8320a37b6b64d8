"""What the tests of all fused kernels share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fused import Kernels, build
from tests.support.layers import LIBRARY


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    """Built for the module, or those of the library that is to be tested instead."""
    given_library = os.environ.get(LIBRARY)
    loaded = Kernels(Path(given_library) if given_library else build(tmp_path_factory.mktemp("kernels")))
    yield loaded
    loaded.close()
