"""A model that no layer holds: refused with what to do, then built and served from each place its weights may be."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest

from builder.base.project import HOME, Project
from builder.base.targets import X86_64
from builder.cli import main
from builder.measure.local.run_event import prepare_emulator
from builder.package.bundle import Bundle
from builder.package.container_image import fill_image_context
from builder.package.lambda_limits import LAMBDA_UNZIPPED
from builder.release.activate_bundle import activate_models
from tests.integration.test_weights import project
from tests.support.aws import client_environment, local_aws
from tests.support.packages import linked

__all__ = ["project"]

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("checkout")]

SPEC = '[model]\nsource = "wide.keras"\nname = "wide"\n[weights]\nplace = "{place}"\n'
WIDTH = 8192


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    subprocess.run(["make", "--silent", ".venv-aws/.done"], cwd=HOME, check=True)
    with local_aws(tmp_path / "aws.log") as aws:
        yield aws.endpoint


def wide(path: Path) -> Any:
    """A network of 294 MB: 784-8192-8192-10, with weights that matter."""
    import keras

    keras.utils.set_random_seed(1)
    layers = [keras.layers.Input((784,), name="x")]
    layers += [keras.layers.Dense(n, activation="relu", bias_initializer="random_normal") for n in (WIDTH, WIDTH)]
    model = keras.Sequential([*layers, keras.layers.Dense(10, activation="softmax", name="scores")])
    model.save(path)
    return model


def bundled(project: Project, place: str) -> int:
    (project.root / "model.toml").write_text(SPEC.format(place=place))
    return main(["bundle", "model.toml", "--in", "host"])


def served(layer: Path, more: Path, x: np.ndarray, **environment: str) -> tuple[np.ndarray, float, int]:
    """The scores for ``x``, milliseconds of init and peak bytes of the function in Lambda's emulator."""
    started = prepare_emulator(layer, environment=environment)
    started.environment["PYTHONPATH"] = f"{started.make_environment('/')['PYTHONPATH']}:{more}"
    with started as running:
        answer = running.invoke({"inputs": {"x": x.tolist()}})
        assert "predictions" in answer, (answer, running.log[-2000:])
        return np.array(answer["predictions"][0]["scores"]), running.init_ms, running.peak_rss


def test_a_model_that_no_layer_holds(
    project: Project, endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).standard_normal((1, 784)).astype(np.float32)
    expected = wide(project.root / "wide.keras")(x).numpy().ravel()

    assert bundled(project, "layer") == 18
    said = capsys.readouterr().err
    ways = [said.index(way) for way in ("PACKAGE=image", "Weights=s3://", "EFS")]
    assert ways == sorted(ways)

    assert bundled(project, "elsewhere") == 0
    bundle = Bundle.load(project.dist / "wide")
    weights = bundle.folder / "wide.weights"
    assert weights.stat().st_size > LAMBDA_UNZIPPED
    assert bundle.sizes.unzipped < 30_000_000
    assert not bundle.weights.exists()

    # Streamed from S3.
    for name, value in client_environment(endpoint).items():
        monkeypatch.setenv(name, value)
    storage = boto3.client("s3")
    storage.create_bucket(Bucket="models")
    storage.upload_file(str(weights), "models", "of/wide.weights")
    more, log = linked(tmp_path / "packages"), {}
    here = client_environment(endpoint)
    for _ in range(int(os.environ.get("REPEAT", "1"))):
        scores, init, peak = served(bundle.layer, more, x, **here, COLDFORGE_WEIGHTS="s3://models/of/")
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-6)
        log.setdefault("s3", []).append((round(init), round(peak / 1e6)))
        # On a file system, as EFS is one; the folder of the bundle stands for it.
        scores, init, peak = served(bundle.layer, more, x, COLDFORGE_WEIGHTS=str(bundle.folder))
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-6)
        log.setdefault("mapped", []).append((round(init), round(peak / 1e6)))
    print(json.dumps(log))

    # Beside the library in a container image.
    assert bundled(project, "image") == 0
    image = Bundle.load(project.dist / "wide")
    assert image.weights.stat().st_size > LAMBDA_UNZIPPED
    assert not image.archive.exists()
    activate_models(["wide"], project, X86_64)
    context = fill_image_context(project)
    assert (context / "opt/lib/model.weights").stat().st_size > LAMBDA_UNZIPPED
    scores, _, _ = served(context / "opt", more, x)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-6)
