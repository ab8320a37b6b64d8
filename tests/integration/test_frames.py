"""The Python package under Ray and Spark, on real pictures: the function's own answers. And in 16 processes: one copy.

Needs .venv-frames and, for Spark, Java (`make test-all`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.package.bundle import Bundle
from handler.budget import RequestLimits
from handler.image import read_pixels
from handler.model import Model
from tests.conftest import ROOT, make_bundle
from tests.support import needs
from tests.support.shared_memory import measure_memory

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("checkout")]

PYTHON = ROOT / ".venv-frames" / "bin" / "python"
JOBS = ROOT / "tests" / "support" / "frames"
PICTURES = ("astronaut.jpg", "cat_exif_rotated.jpg", "coffee.jpg", "face.jpg")
COPIES = 6
BROKEN = "broken.jpg"
TOLERANCE = 1e-6
"""Of probabilities. The library and the decoder are the same; only the number of threads differs."""

Columns = Mapping[str, Any]


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return make_bundle("age_gender")


@pytest.fixture(scope="module")
def package(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the Python package, whose library no other process has mapped."""
    folder = tmp_path_factory.mktemp("package")
    command = [sys.executable, "-m", "builder.cli", "bindings", "age_gender", "--lang", "python", "--out", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def expected(bundle: Bundle) -> Columns:
    """The function's own answers, by picture: what its code decodes, run by its model."""
    model = Model(str(bundle.library))
    image, found = model.description.image, {}
    assert image is not None
    for name in PICTURES:
        decoded = read_pixels((ROOT / "tests" / "data" / name).read_bytes(), name, image, RequestLimits())
        found[name] = [np.array(fetch) for fetch in model.run([decoded])]
    assert [port.name for port in model.description.fetches] == ["gender", "age"]
    model.close()
    return found


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real pictures, several times, and a file that is none."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(COPIES):
        for name in PICTURES:
            shutil.copy(ROOT / "tests" / "data" / name, folder / f"{number}-{name}")
    (folder / BROKEN).write_bytes(b"no picture at all")
    return folder


def job(name: str, block: str, package: Path, pictures: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """What ``name`` answers, by way and column; ``block``: of the page."""
    if not PYTHON.exists():
        needs.missing("there is no .venv-frames (make test-all makes it)")
    page = (ROOT / "docs" / "bindings.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"^```python\n# {block}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (folder / block).write_text(code)
    (ROOT / "build" / "mine").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(ROOT / "build" / "mine" / f"ages-{name.partition('_')[0]}", ignore_errors=True)
    environment = os.environ | {
        "PYTHONPATH": f"{package}:{JOBS}",
        "PYSPARK_PYTHON": str(PYTHON),
        "RAY_USAGE_STATS_ENABLED": "0",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    answers = folder / "answers.npz"
    done = subprocess.run(
        [PYTHON, JOBS / f"{name}.py", folder / block, pictures, answers],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    ways: dict[str, dict[str, Any]] = {}
    with np.load(answers) as file:
        for key in file.files:
            way, column = key.split(" ")
            ways.setdefault(way, {})[column] = file[key]
    return ways


def assert_right(found: Columns, expected: Columns, names: tuple[str, ...]) -> None:
    """One row for each of ``names``, with the function's answers; NaN and a code where a file is no picture."""
    assert sorted(found["path"]) == sorted(names)
    for row, path in enumerate(found["path"]):
        if path == BROKEN:
            assert np.isnan(found["gender"][row]).all()
            assert "error" not in found or found["error"][row] == "not_an_image"
            continue
        gender, age = expected[path.partition("-")[2] or path]
        np.testing.assert_allclose(found["gender"][row], gender, atol=TOLERANCE, rtol=0)
        if "age" in found:
            np.testing.assert_allclose(found["age"][row], age, atol=TOLERANCE, rtol=0)
        if "gender_label" in found:
            assert found["gender_label"][row] == ("female", "male")[int(gender.argmax())]
            assert found["age_label"][row] == str(age.argmax())
            assert found["age_probability"][row] == pytest.approx(age.max(), abs=TOLERANCE)
            assert found["error"][row] == ""


def test_ray(package: Path, pictures: Path, expected: Columns, tmp_path: Path) -> None:
    ways = job("ray_job", "on_ray.py", package, pictures, tmp_path)
    assert list(ways) == ["page", "actors", "arrow", "pandas", "tensors"]
    names = tuple(path.name for path in pictures.iterdir())
    assert_right(ways["page"], expected, PICTURES)
    for way in ("actors", "arrow", "pandas"):
        assert_right(ways[way], expected, names)
    assert_right(ways["tensors"], expected, tuple(name for name in names if name != BROKEN))
    assert len(set(ways["actors"]["process"])) == 2
    assert set(ways["actors"]["opened"]) == {1}


def test_spark(package: Path, pictures: Path, expected: Columns, tmp_path: Path) -> None:
    needs.needs("java", "default-jre-headless")
    ways = job("spark_job", "on_spark.py", package, pictures, tmp_path)
    assert list(ways) == ["page", "pandas", "function", "tensors"]
    names = tuple(path.name for path in pictures.iterdir())
    assert_right(ways["page"], expected, PICTURES)
    for way in ("pandas", "function"):
        assert_right(ways[way], expected, names)
    assert_right(ways["tensors"], expected, tuple(name for name in names if name != BROKEN))


def test_processes_share_one_copy_of_the_weights(package: Path) -> None:
    """45 MB for 2 processes as for 16: each further one has variables and relocated addresses of its own, no more."""
    size = (package / "age_gender" / "libmodel.so").stat().st_size
    two, sixteen = (measure_memory(count, [str(package), "age_gender"]) for count in (2, 16))
    assert size > 44e6
    assert 0.9 * size < two.library < size + 1e6
    assert (sixteen.library - two.library) / 14 < 0.5e6
    assert (sixteen.pss - two.pss) / 14 < size  # Python, NumPy and working memory: less than the weights alone
