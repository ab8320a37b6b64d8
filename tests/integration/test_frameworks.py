"""Models of other frameworks, each built and held against its framework's own answers: `make test-frameworks`.

The frameworks' environments are made here, which takes minutes the first time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import ImportModelError
from builder.base.tf import import_tensorflow
from builder.cli import main
from builder.config import Format, read_spec
from builder.importers.frameworks.framework_environment import FRAMEWORKS, ensure_environment
from builder.importers.graph import FrozenGraph
from builder.package.bundle import Bundle
from tests.conftest import ROOT
from tests.support.days import today
from tests.support.framework_scripts import run_script
from tests.support.models import empty_project
from tests.support.needs import missing
from tests.support.results import printed
from tests.support.run import run_library

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.slow]

FLAX = ROOT / ".venv-flax" / "bin" / "python"
NETWORKS = ROOT / "tests" / "support" / "frameworks"


@pytest.fixture(scope="module")
def jax_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``flax_networks`` writes."""
    if not FLAX.exists():
        missing("there is no .venv-flax (make test-frameworks makes it)")
    folder = tmp_path_factory.mktemp("flax")
    subprocess.run([FLAX, NETWORKS / "flax_networks.py", folder], check=True, timeout=600)
    return folder


@pytest.mark.parametrize("name", ["dense", "pictures", "attention", "lstm", "gru"])
def test_a_network_of_flax(jax_models: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_builds(jax_models / f"{name}.jax", tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def jax_functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``jax_functions`` writes."""
    python = ensure_environment(FRAMEWORKS["jax"], print) / "bin" / "python"
    folder = tmp_path_factory.mktemp("jax")
    subprocess.run([python, NETWORKS / "jax_functions.py", folder], check=True, timeout=600)
    return folder


@pytest.mark.parametrize("name", ["functions", "algebra"])
def test_functions_that_jax_writes_as_calls(
    jax_functions: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_builds(jax_functions / f"{name}.jax", tmp_path, monkeypatch)


def test_a_program_that_calls_what_is_outside_of_it(jax_functions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(jax_functions / "calls.jax")]) == ImportModelError.exit_code
    assert "calls functions outside it: lapack_ssyevd_ffi" in capsys.readouterr().err


@pytest.fixture(scope="module")
def torch_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``torch_networks`` writes of its small networks."""
    python = ensure_environment(FRAMEWORKS["pytorch"], print) / "bin" / "python"
    folder = tmp_path_factory.mktemp("torch")
    subprocess.run([python, NETWORKS / "torch_networks.py", folder, *SMALL], check=True, timeout=600)
    return folder


SMALL = ("small", "unet", "lstm", "loops", "operators")


@pytest.mark.parametrize("name", SMALL)
def test_a_network_of_pytorch(torch_models: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = assert_builds(torch_models / f"{name}.pt2", tmp_path, monkeypatch)
    if name == "lstm":  # its ids are looked up in a table of 200 rows
        assert [(feed["minimum"], feed["maximum"]) for feed in manifest["feeds"]] == [(0, 199)]


@pytest.mark.parametrize("name", ["choose", "shape_it"])
def test_a_size_that_depends_on_an_input_is_refused_by_its_node(
    onnx_models: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty_project(tmp_path, monkeypatch)
    (tmp_path / "model.toml").write_text(f'[model]\nsource = "{onnx_models / name}.onnx"\n')
    assert main(["bundle", str(tmp_path / "model.toml"), "--in", "host"]) == ImportModelError.exit_code
    assert f'node "{name}": ' in capsys.readouterr().err


@pytest.fixture(scope="module")
def onnx_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``onnx_networks`` writes."""
    python = ensure_environment(FRAMEWORKS["onnx"], print) / "bin" / "python"
    folder = tmp_path_factory.mktemp("onnx")
    subprocess.run([python, NETWORKS / "onnx_networks.py", folder], check=True, timeout=600)
    return folder


@pytest.mark.parametrize(("name", "error"), [("beside", 1e-5), ("half", 2e-3), ("qdq", 0), ("qoperator", 0)])
def test_a_network_of_onnx(
    onnx_models: Path, name: str, error: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integers of 8 bits are summed exactly, so that quantised ones answer to the last bit."""
    assert_builds(onnx_models / f"{name}.onnx", tmp_path, monkeypatch, error)


def test_images_for_a_network_with_channels_first(
    onnx_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What init drafts is built, and answers pixels as ONNX Runtime does the planes that NumPy makes of them."""
    project = empty_project(tmp_path, monkeypatch)
    model = onnx_models / "half.onnx"
    assert main(["init", str(model), "--output", str(tmp_path / "model.toml")]) == 0
    drafted = (tmp_path / "model.toml").read_text()
    scaling = 'mean = [123.675, 116.28, 103.53]\nscale = ["1/58.395", "1/57.12", "1/57.375"]'
    toml = re.sub(r"(?m)^mean = .*", scaling, re.sub(r"(?m)^scale = .*", "", drafted))
    (tmp_path / "model.toml").write_text(toml)
    assert main(["bundle", str(tmp_path / "model.toml"), "--in", "host"]) == 0
    (feed,) = json.loads(Bundle.load(project.dist / "half").manifest.read_text())["feeds"]
    pixels = np.random.default_rng(0).integers(0, 256, feed["shape"], np.uint8)
    planes = (pixels - np.array([123.675, 116.28, 103.53])) / np.array([58.395, 57.12, 57.375])
    np.save(tmp_path / "planes.npy", planes.transpose(0, 3, 1, 2).astype(np.float16))
    script = (
        "import sys, numpy, onnxruntime; session = onnxruntime.InferenceSession(sys.argv[1]);"
        "numpy.save(sys.argv[3], session.run(None, {session.get_inputs()[0].name: numpy.load(sys.argv[2])})[0])"
    )
    python = ensure_environment(FRAMEWORKS["onnx"], print) / "bin" / "python"
    files = [str(tmp_path / name) for name in ("planes.npy", "answer.npy")]
    subprocess.run([python, "-c", script, model, *files], check=True, timeout=600)
    ((answer,),) = run_library(project.dist / "half" / "layer" / "lib" / "libmodel.so", [[pixels]])
    np.testing.assert_allclose(answer, np.load(tmp_path / "answer.npy"), atol=2e-3)


def test_images_and_classes_of_a_quantised_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """int8 in LiteRT: pixels go in, and the numbers that its scores stand for come out."""
    project = empty_project(tmp_path, monkeypatch)
    model = write_quantised(tmp_path / "small.tflite")
    assert main(["init", str(model), "--output", str(tmp_path / "model.toml")]) == 0
    assert main(["bundle", str(tmp_path / "model.toml"), "--in", "host"]) == 0
    manifest = json.loads(Bundle.load(project.dist / "small").manifest.read_text())
    (feed,), (fetch,) = manifest["feeds"], manifest["fetches"]
    assert (feed["dtype"], fetch["dtype"]) == ("uint8", "float32")
    pixels = np.random.default_rng(0).integers(0, 256, feed["shape"], np.uint8)
    np.save(tmp_path / "input.npy", (pixels.astype(int) - 128).astype(np.int8))
    script = (
        "import sys, numpy; from ai_edge_litert.interpreter import Interpreter; i = Interpreter(sys.argv[1]);"
        "i.allocate_tensors(); i.set_tensor(i.get_input_details()[0]['index'], numpy.load(sys.argv[2])); i.invoke();"
        "out = i.get_output_details()[0]; scale, zero = out['quantization'];"
        "numpy.save(sys.argv[3], (i.get_tensor(out['index']).astype('float32') - zero) * numpy.float32(scale))"
    )
    python = ensure_environment(FRAMEWORKS["tflite"], print) / "bin" / "python"
    files = [str(tmp_path / name) for name in ("input.npy", "answer.npy")]
    subprocess.run([python, "-c", script, model, *files], check=True, timeout=600)
    ((answer,),) = run_library(project.dist / "small" / "layer" / "lib" / "libmodel.so", [[pixels]])
    np.testing.assert_array_equal(answer, np.load(tmp_path / "answer.npy"))


def write_quantised(path: Path) -> Path:
    """Write a small network of images that TensorFlow's converter quantised whole."""
    tf = import_tensorflow()
    from keras import Input, Sequential
    from keras import layers as kl

    ends = [kl.GlobalAveragePooling2D(), kl.Dense(10, activation="softmax")]
    network = Sequential([Input((24, 32, 3)), kl.Conv2D(16, 3, strides=2, activation="relu"), *ends])
    random = np.random.default_rng(0)
    converter = tf.lite.TFLiteConverter.from_keras_model(network)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([random.random((1, 24, 32, 3), np.float32)] for _ in range(8))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    path.write_bytes(converter.convert())
    return path


@pytest.mark.parametrize(
    ("form", "script", "printed_last"),
    [
        ("pytorch", "torch_operator_cases.py", "50 runs\n"),
        ("pytorch", "torch_index_cases.py", "17 of 17 agree\n"),
        ("tflite", "tflite_damaged_cases.py", "682 of 682 open or are refused\n"),
        ("jax", "one_hot_cases.py", "8 run\n"),
        ("onnx", "onnx_operator_cases.py", "51 of 51 agree\n"),
        ("onnx", "ml_operator_cases.py", "66 of 66 agree, 3 of 3 are refused\n"),
        ("onnx", "quantised_pattern_cases.py", "12 run\n"),
        ("onnx", "ml_converted_cases.py", "15 of 15 agree\n"),
        ("tflite", "tflite_state_cases.py", "49 of 49 agree\n6 of 6 agree in each of three rows\n"),
        ("tflite", "tflite_integer_cases.py", "285 of 285 agree\n"),
    ],
    ids=[
        "operators that torchax lacks",
        "indices of tables",
        "damaged files",
        "one-hot encodings",
        "operators of com.microsoft",
        "operators of ai.onnx.ml",
        "patterns of quantised layers",
        "models that skl2onnx converts",
        "states",
        "quantised operators",
    ],
)
def test_cases_agree_with_their_framework(form: Format, script: str, printed_last: str) -> None:
    assert run_script(form, script) == printed_last


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``exchange_networks`` writes."""
    python = ensure_environment(FRAMEWORKS["tflite"], print) / "bin" / "python"
    folder = tmp_path_factory.mktemp("exchange")
    command = [python, NETWORKS / "exchange_networks.py", folder]
    subprocess.run(command, check=True, timeout=600, env=os.environ | {"PYTHONPATH": str(ROOT)})
    return folder


def test_operators_that_are_not_read_are_listed(exchanged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(exchanged / "unsupported.tflite")]) == ImportModelError.exit_code
    said = capsys.readouterr().err
    assert "OurOwn, RANDOM_UNIFORM (it draws random numbers)" in said
    assert "coldforge docs tflite" in said


def test_labels_in_a_tflite_file(exchanged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(exchanged / "row.tflite", tmp_path)
    assert main(["init", "row.tflite"]) == 0
    assert read_spec(tmp_path / "model.toml").outputs[0].labels == tuple(f"class {i}" for i in range(6))


def test_sizes_that_a_tflite_file_leaves_open(exchanged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = empty_project(tmp_path, monkeypatch)
    lines = '[[feeds]]\nname = "input0"\nshapes = [[1, 9, 11, 3], [1, 16, 16, 3]]\n'
    (tmp_path / "model.toml").write_text(f'[model]\nsource = "{exchanged}/open.tflite"\nname = "open"\n{lines}')
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    manifest = json.loads(Bundle.load(project.dist / "open").manifest.read_text())
    assert manifest["verification"]["passed"]
    assert len(manifest["verification"]["outputs"]) == 2


def test_states_of_recurrent_operators(exchanged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run after run, the library answers as LiteRT does, to the byte."""
    project = empty_project(tmp_path, monkeypatch)
    (tmp_path / "model.toml").write_text(f'[model]\nsource = "{exchanged}/recurrent.tflite"\nname = "recurrent"\n')
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    library = project.dist / "recurrent" / "layer" / "lib" / "libmodel.so"
    with np.load(exchanged / "recurrent.npz") as recorded:
        answers = run_library(library, [[feed] for feed in recorded["feed"]])
        np.testing.assert_array_equal([answer for (answer,) in answers], recorded["fetch"])
    assert FrozenGraph.load(project.build / "recurrent" / "import").warnings, "items of a request are one sequence"


@pytest.mark.parametrize("form", ["tflite", "onnx"])
def test_a_batch_of_a_model_that_is_made_for_one_row(
    exchanged: Path, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row is answered as the framework answers it alone."""
    project = empty_project(tmp_path, monkeypatch)
    (tmp_path / "model.toml").write_text(f'[model]\nsource = "{exchanged}/row.{form}"\nname = "row"\nbatch = [1, 3]\n')
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    manifest = json.loads(Bundle.load(project.dist / "row").manifest.read_text())
    assert manifest["verification"]["passed"]
    library = project.dist / "row" / "layer" / "lib" / "libmodel.so"
    rows = np.random.default_rng(0).standard_normal((3, 2, 3)).astype(np.float32)
    powers = np.exp(rows.reshape(3, 6))
    alone = [run_library(library, [[rows[i : i + 1]]])[0][0] for i in range(3)]
    np.testing.assert_allclose(np.concatenate(alone), powers / powers.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("lines", "runs"), [("", "encode"), ('signature = ["decode", "encode"]\n', "decode")])
def test_signatures_of_tflite(
    exchanged: Path, lines: str, runs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = empty_project(tmp_path, monkeypatch)
    (tmp_path / "model.toml").write_text(f'[model]\nsource = "{exchanged}/signatures.tflite"\nname = "coder"\n{lines}')
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    bundle = Bundle.load(project.dist / "coder")
    assert json.loads(bundle.manifest.read_text())["verification"]["passed"]
    library = project.dist / "coder" / "layer" / "lib" / "libmodel.so"
    assert_answers(library, exchanged / f"signatures-{runs}.npz", 1e-5)


def test_a_signature_that_a_tflite_file_lacks(
    exchanged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty_project(tmp_path, monkeypatch)
    (tmp_path / "model.toml").write_text(f'[model]\nsource = "{exchanged}/signatures.tflite"\nsignature = "train"\n')
    assert main(["bundle", "model.toml", "--in", "host"]) == ImportModelError.exit_code
    assert "has no signature 'train'. It has encode, decode" in capsys.readouterr().err


def test_a_file_of_pytorch_is_read_only_if_it_is_trusted(
    torch_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(torch_models / "small.pt2")]) == ImportModelError.exit_code
    assert "may run code when it is loaded" in capsys.readouterr().err
    assert main(["inspect", str(torch_models / "small.pt2"), "--trust", "--json"]) == 0
    found = printed("inspect", capsys.readouterr().out)
    assert [(port["name"], port["shape"]) for port in found["feeds"]] == [
        ("picture", [None, 3, 16, 16]),
        ("numbers", [None, 6]),
    ]
    assert [port["name"] for port in found["fetches"]] == ["scores", "features"]


@pytest.mark.parametrize("cases", ["onnx_nodes", "tflite_operators"])
def test_cases_of_single_operators(cases: str) -> None:
    """A seventh of the cases each day; `make conformance GROUPS="onnx-nodes tflite-operators"` runs all of them."""
    python = ensure_environment(FRAMEWORKS["onnx"], print) / "bin" / "python"
    command = [python, "-m", f"tests.conformance.{cases}", "--part", f"{today().toordinal() % 7}/7"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=900, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("form", [".pt2", ".jax", ".onnx", ".tflite"])
def test_a_file_that_is_none(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"model{form}"
    path.write_bytes(b"no model at all")
    assert main(["inspect", str(path), "--trust"]) == ImportModelError.exit_code
    assert f"model{form} is not" in capsys.readouterr().err


def test_convolutions_of_channels_first_run_channels_last() -> None:
    if not FLAX.exists():
        missing("there is no .venv-flax (make test-frameworks makes it)")
    command = [FLAX, NETWORKS / "channels_last_cases.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.stdout == "68 runs\n"


def assert_builds(
    model: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: float = 1e-5,
    lines: str = "",
    recorded: str = ".npz",
) -> Any:
    """Build the model, whose library answers as is recorded beside the model. Returns the bundle's manifest.

    ``lines``: further ones of model.toml.
    """
    project = empty_project(folder, monkeypatch)
    toml = folder / "model.toml"
    trust = "trust = true\n" if model.suffix in (".pt2", ".joblib") else ""
    toml.write_text(f'[model]\nsource = "{model}"\nname = "{model.stem}"\n{trust}{lines}')
    assert main(["bundle", str(toml), "--in", "host"]) == 0
    manifest = json.loads(Bundle.load(project.dist / model.stem).manifest.read_text())
    assert manifest["verification"]["passed"]
    assert_answers(project.dist / model.stem / "layer" / "lib" / "libmodel.so", model.with_suffix(recorded), error)
    return manifest


def assert_answers(library: Path, recorded: Path, error: float) -> None:
    """The library answers as the framework did, in a process that knows nothing of coldforge."""
    with np.load(recorded) as file:
        feeds = [file[key] for key in file.files if key.startswith("feed")]
        wanted = [file[key] for key in file.files if key.startswith("fetch")]
    (found,) = run_library(library, [feeds])
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=10 * error, atol=error * max(1.0, float(np.abs(theirs).max())))
