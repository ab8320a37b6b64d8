"""Whole builds through the command line: what a person sees, what is left behind, what is built again."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.cache import compute_digest
from builder.base.project import Project
from builder.cli import main
from builder.importers.graph import FrozenGraph
from builder.package.bundle import Bundle
from builder.pipeline.preflight import check_graph
from tests.conftest import ROOT
from tests.support.models import empty_project, save_keras
from tests.support.results import printed
from tests.support.run import run_library

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small convolutional network in .keras format."""
    import keras

    network = keras.Sequential(
        [
            keras.layers.Input((12, 12, 3), name="picture"),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(4, name="classes"),
        ]
    )
    return save_keras(network, tmp_path_factory.mktemp("model") / "small.keras")


SPEC = """\
[model]
source = "small.keras"
name = "small"
{model}
[image]
width = 12
height = 12
scale = "1/255"

[[outputs]]
name = "kind"
kind = "classification"
labels = ["a", "b", "c", "d"]
activation = "softmax"
{rest}
"""


@pytest.fixture
def project(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the model in it and nothing built, but for the dependencies layer."""
    made = empty_project(tmp_path, monkeypatch)
    shutil.copy(model, tmp_path)
    return made


def write_spec(project: Project, model: str = "", rest: str = "") -> str:
    path = project.root / "model.toml"
    path.write_text(SPEC.format(model=model, rest=rest))
    return str(path)


def stages(stderr: str) -> dict[str, str]:
    """Stage name to what its line ends with: a time or ``cached``."""
    lines = [line.split() for line in stderr.splitlines() if line.startswith("  ") and "·" in line]
    return {words[0]: " ".join(words).rsplit("· ", 1)[1] for words in lines}


def attempts(stderr: str) -> list[str]:
    """The lowerings that were verified, in their order."""
    found: list[str] = []
    for line in stderr.splitlines():
        if lowering := re.search(r"thunks to steps, buffers and C \(([^)]+)\)", line):
            found.append(lowering[1])
        elif line.startswith("  verify"):
            found.append("verified")
    return [name for name, then in itertools.pairwise(found) if then == "verified"]


@pytest.mark.quick
def test_a_build_and_its_repeat(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(project)
    assert main(["bundle", spec]) == 0
    first = capsys.readouterr()
    assert "model layer" in first.out
    assert "agrees" in first.out
    assert f"try it: coldforge invoke {spec}\n" in first.out
    bundle = Bundle.load(project.dist / "small")
    before = compute_digest(bundle.folder)
    manifest = json.loads(bundle.manifest.read_text())
    assert manifest["verification"]["passed"]
    assert (project.layers / "model" / "content" / "lib" / "libmodel.so").is_file()

    assert main(["bundle", spec, "--json"]) == 0
    said = capsys.readouterr()
    (built,) = printed("bundle", said.out)["bundles"]
    assert (built["folder"], built["sizes"]) == (str(bundle.folder), manifest["sizes"])
    again = stages(said.err)
    assert {name: again[name] for name in ("import", "compile", "lower", "link")} == dict.fromkeys(
        ("import", "compile", "lower", "link"), "cached"
    )
    assert compute_digest(bundle.folder) == before


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of 3x3 convolutions in .keras format, so deep that Winograd's rounding shows."""
    import keras

    same = [keras.layers.Conv2D(32, 3, padding="same", activation="relu") for _ in range(6)]
    network = keras.Sequential([keras.layers.Input((24, 24, 3)), *same])
    return save_keras(network, tmp_path_factory.mktemp("deep") / "deep.keras")


def write_deep(project: Project, model: str = "", tolerance: float = 1e-2) -> str:
    path = project.root / "deep.toml"
    image = "[image]\nwidth = 24\nheight = 24\nscale = '1/255'"
    path.write_text(
        f"[model]\nsource = 'deep.keras'\n{model}\n{image}\n[tolerance]\nabsolute = {tolerance}\nrelative = 0.0\n"
    )
    return str(path)


def test_what_disagrees_is_built_the_safer_way_and_that_is_said(
    project: Project, deep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(deep, project.root)

    def built(spec: str) -> tuple[dict[str, Any], float]:
        assert main(["bundle", spec]) == 0
        manifest = json.loads((project.dist / "deep" / "manifest.json").read_text())
        return manifest["lowering"], manifest["verification"]["outputs"][0]["max_absolute"]

    fast, large = built(write_deep(project))
    assert fast["path"] == "optimised"
    assert "winograd4" in [s["algorithm"] for s in fast["fused_steps"]]
    assert (fast["given_up"], fast["tuned"]) == ([], 0)
    layer = next(s for s in fast["fused_steps"] if s["algorithm"] == "winograd4")
    assert layer["geometry"] == "3x3 24x24x32-32"
    assert layer["chosen_by"] == "rule"
    assert (layer["packing"]["panel"], layer["packing"]["band"]) == (16, 36)

    forbidden, small = built(write_deep(project, "winograd = false"))
    assert forbidden["path"] == "optimised, without Winograd"
    assert {s["algorithm"] for s in forbidden["fused_steps"]} == {"direct"}
    assert forbidden["given_up"] == []
    assert large > 1.2 * small

    capsys.readouterr()
    fallback, error = built(write_deep(project, tolerance=(large * small) ** 0.5))
    said = capsys.readouterr()
    assert error == small
    assert fallback["path"] == "optimised, without Winograd"
    assert fallback["fused_steps"] == forbidden["fused_steps"]
    (given_up,) = fallback["given_up"]
    assert given_up["path"] == "optimised"
    assert "is off by" in given_up["because"]
    assert attempts(said.err) == ["optimised", "optimised, without Winograd"]
    assert f"· DISAGREES: {given_up['because']}" in said.err
    assert "lowering: optimised, without Winograd; 6 of" in said.out
    assert f"gave up optimised: {given_up['because']}" in said.out


def test_tuning_decides_and_only_where_it_can(project: Project, deep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(deep, project.root)
    spec, path, label = write_deep(project), project.root / "deep.tuning.json", "3x3 24x24x32-32"

    def built() -> tuple[dict[str, Any], str, str, bytes]:
        capsys.readouterr()
        assert main(["bundle", spec]) == 0
        said = capsys.readouterr()
        bundle = project.dist / "deep"
        lowering = json.loads((bundle / "manifest.json").read_text())["lowering"]
        return lowering, said.out, said.err, (bundle / "layer" / "lib" / "libmodel.so").read_bytes()

    def changed(**fields: Any) -> None:
        path.write_text(json.dumps(tuning | fields))

    *_, by_rule = built()
    assert main(["tune", spec, "--seconds", "0.001"]) == 0
    table = capsys.readouterr().out
    assert label in table
    assert "wrote deep.tuning.json" in table
    tuning = json.loads(path.read_text())
    (entry,) = tuning["layers"].values()
    assert set(tuning["layers"]) == {label}
    for isa, times in entry["microseconds"].items():
        assert isa.startswith("x86-64-v")
        assert set(times) == {"direct", "winograd2", "winograd4"}
        assert all(time > 0 for time in times.values())

    changed(layers={label: entry | {"algorithm": "direct"}})
    lowering, out, err, library = built()
    assert {s["algorithm"] for s in lowering["fused_steps"]} == {"direct"}
    assert [s["chosen_by"] for s in lowering["fused_steps"]] == ["rule", *["tuning"] * 5]  # the first has no choice
    assert f"6 of {lowering['steps']} steps fused, 5 as tuned" in out
    assert "tuning.json" not in err
    assert library != by_rule

    changed(layers=tuning["layers"] | {"3x3 7x7x64-64": entry})
    assert "deep.tuning.json tells of layers that the model does not have (3x3 7x7x64-64)" in built()[2]
    changed(kernels="0" * 16, layers={label: entry | {"algorithm": "direct"}})
    lowering, _, err, library = built()
    assert err.count("deep.tuning.json was measured with other kernels") == 1
    assert lowering["tuned"] == 0
    assert library == by_rule

    changed(layers={label: entry | {"algorithm": "winograd4"}})
    write_deep(project, "winograd = false")
    lowering, *_ = built()
    assert {s["algorithm"] for s in lowering["fused_steps"]} == {"direct"}
    assert lowering["tuned"] == 0
    path.unlink()
    assert main(["tune", spec, "--seconds", "0.001"]) == 0
    assert "No layer of this model has a choice" in capsys.readouterr().out
    assert not path.exists()


def test_new_labels_do_not_compile_again(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    main(["bundle", write_spec(project)])
    capsys.readouterr()
    assert main(["bundle", write_spec(project, rest="top_k = 2")]) == 0
    ran = stages(capsys.readouterr().err)
    assert ran["compile"] == "cached"
    assert ran["lower"] != "cached"
    assert json.loads((project.dist / "small" / "model.json").read_text())["outputs"][0]["top_k"] == 2


def test_the_same_model_gives_the_same_bytes_again(project: Project, tmp_path: Path) -> None:
    """From every stage but the compiler's cache: tests/e2e has the same bytes from a container's empty one."""
    spec = write_spec(project)
    main(["bundle", spec])
    archive = project.dist / "small" / "layer.zip"
    first = archive.read_bytes()
    for folder in ("import", "compile", "lower", "link"):
        shutil.rmtree(project.build / "small" / folder)
    archive.unlink()
    main(["bundle", spec])
    assert archive.read_bytes() == first
    library = (project.dist / "small" / "layer" / "lib" / "libmodel.so").read_bytes()
    assert str(tmp_path).encode() not in library


@pytest.mark.parametrize(
    ("extra", "rest", "code", "says"),
    [
        ("", "absolute = 0.0\nrelative = 0.0\n", 17, "output kind"),
        ("", "\n[limits]\nunzipped = 100000\n", 18, "Too large"),
        ("batch = 0", "", 10, "batch"),
    ],
    ids=["disagreement", "too large", "bad spec"],
)
def test_a_failed_build_leaves_the_last_good_bundle(
    project: Project, capsys: pytest.CaptureFixture[str], extra: str, rest: str, code: int, says: str
) -> None:
    assert main(["bundle", write_spec(project)]) == 0
    good = compute_digest(project.dist, project.layers / "model" / "content")
    capsys.readouterr()
    assert main(["bundle", write_spec(project, extra, rest)]) == code
    said = capsys.readouterr().err
    assert says in said
    if code == 17:
        assert attempts(said) == ["optimised", "faithful"]  # without Winograd it would have been the same library
        assert said.count("DISAGREES: output kind is off by") == 2
    assert "Traceback" not in said
    assert compute_digest(project.dist, project.layers / "model" / "content") == good


@pytest.mark.quick
def test_init_writes_a_spec_that_builds(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "small.keras", "--json"]) == 0
    assert printed("init", capsys.readouterr().out) == {"file": str(project.root / "model.toml")}
    assert main(["init", "small.keras"]) == 2  # not over a file that a person may have edited
    assert "--force" in capsys.readouterr().err
    text = (project.root / "model.toml").read_text()
    assert "width = 12" in text
    assert main(["bundle", "model.toml"]) == 0


def test_inspect_as_text_and_json(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "small.keras"]) == 0
    said = capsys.readouterr().out
    assert "inputs\n  picture  float32 [?, 12, 12, 3]\noutputs\n  classes  float32 [?, 4]\n" in said
    assert "\ninput picture: as it is\nfile: written by Keras 3" in said
    assert "\nparameters: 292\n" in said
    assert "XLA has a kernel for each" in said
    assert main(["inspect", write_spec(project), "--json"]) == 0
    found = printed("inspect", capsys.readouterr().out)
    (feed,) = found["feeds"]
    assert {"name": "picture", "dtype": "float32", "shape": [None, 12, 12, 3]}.items() <= feed.items()
    assert not any(feed[name] for name in ("value", "rows", "dimensions", "quantised"))
    assert [fetch["name"] for fetch in found["fetches"]] == ["classes"]
    (scaling,) = found["facts"]["scalings"]
    assert scaling["scale"] == [1, 1, 1], "the model's own, without what [image] adds"
    assert found["unsupported"] == []
    assert found["weights"] > 4 * found["parameters"] > 1000


def test_a_model_that_is_not_there(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "nothing"]) == 2
    assert "no model.toml" in capsys.readouterr().err


def test_the_forecast_is_near_what_is_built(digits: Bundle, emotion: Bundle) -> None:
    for bundle in (digits, emotion):
        sizes = json.loads(bundle.manifest.read_text())["sizes"]
        unzipped = {component["name"]: component["unzipped"] for component in sizes["components"]}
        forecast = check_graph(FrozenGraph.load(ROOT / "build" / bundle.folder.name / "import"))
        assert forecast.library == pytest.approx(bundle.library.stat().st_size, rel=0.1)
        assert forecast.dependencies == pytest.approx(unzipped["dependencies layer"] + unzipped["function"], rel=0.04)
        assert forecast.unzipped == pytest.approx(sizes["unzipped"], rel=0.05)
        assert forecast.least < sizes["unzipped"]


@pytest.mark.quick
def test_digits_are_read_as_well_as_tensorflow_reads_them(digits: Bundle) -> None:
    """At least 96 % of digits that training never saw, and never another answer than TensorFlow's."""
    from builder.base.tf import import_tensorflow

    held_out = np.load(ROOT / "build" / "digits" / "held_out.npz")
    images, labels = held_out["images"], held_out["labels"]
    pixels = images.reshape(-1, 1, 28, 28, 1).astype(np.uint8)
    ours = np.array([a[0].argmax() for a in run_library(digits.library, [[p] for p in pixels])])
    model = import_tensorflow().keras.models.load_model(ROOT / "build" / "digits" / "model.keras")
    theirs = model.predict(pixels.reshape(-1, 28, 28).astype(np.float32) / 255, verbose=0).argmax(axis=1)
    assert len(labels) >= 1000
    assert (theirs == labels).mean() >= 0.96
    assert (ours == labels).mean() >= 0.96
    assert (ours == theirs).all()


@pytest.mark.quick
def test_the_command_line_starts_without_tensorflow() -> None:
    code = "import sys, builder.cli; sys.exit('tensorflow' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, env=os.environ)


@pytest.mark.quick
def test_a_build_in_docker_needs_no_packages_here() -> None:
    """``-S``: without site-packages, as on a machine that has Python and Docker only."""
    subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            "import builder.cli, builder.pipeline.docker.docker_run, builder.package.join_bundles",
        ],
        cwd=ROOT,
        check=True,
    )
