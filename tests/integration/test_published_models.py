"""Published .onnx files out of pinned packages, each built and held against ONNX Runtime: `make test-frameworks`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.cli import main
from builder.package.bundle import Bundle
from tests.support.models import empty_project

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.slow]

OCR, VOICE = "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3"


def feed(name: str, line: str) -> str:
    return f'\n[[feeds]]\nname = "{name}"\n{line}\n'


STATE, SAMPLES = feed("state", "shape = [2, 1, 128]"), feed("input", "shape = [1, 576]")
RATE = feed("sr", "value = 16000")
MODELS = [
    (OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", feed("x", "shape = [1, 3, 96, 96]")),
    (OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", feed("x", "shape = [1, 3, 48, 96]")),
    (OCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", feed("x", "shape = [1, 3, 48, 192]")),
    (VOICE, "silero_vad/data/silero_vad.onnx", SAMPLES + STATE + RATE),
    (VOICE, "silero_vad/data/silero_vad_16k_op15.onnx", SAMPLES + STATE + RATE),
    (VOICE, "silero_vad/data/silero_vad_16k_sequence.onnx", ""),
    (VOICE, "silero_vad/data/silero_vad_half.onnx", SAMPLES + STATE),
    (VOICE, "silero_vad/data/silero_vad_op18_ifless.onnx", SAMPLES + STATE + RATE),
    (VOICE, "silero_vad/data/silero_vad_openvino_16k.onnx", ""),
    ("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", ""),
]
SHA256 = {
    "ch_PP-OCRv4_det_infer.onnx": "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    "ch_PP-OCRv4_rec_infer.onnx": "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    "nmp.onnx": "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
    "silero_vad.onnx": "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    "silero_vad_16k_op15.onnx": "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    "silero_vad_16k_sequence.onnx": "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    "silero_vad_half.onnx": "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
    "silero_vad_op18_ifless.onnx": "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
    "silero_vad_openvino_16k.onnx": "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
}


@pytest.mark.parametrize(("package", "file", "feeds"), MODELS, ids=[Path(file).stem for _, file, _ in MODELS])
def test_a_published_model(
    package: str, file: str, feeds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = empty_project(tmp_path, monkeypatch)
    toml = tmp_path / "model.toml"
    name = Path(file).stem.lower().replace("_", "-").replace(".", "-")
    lines = f'[model]\npackage = "{package}"\nfile = "{file}"\nsha256 = "{SHA256[Path(file).name]}"\nname = "{name}"\n'
    toml.write_text(lines + feeds)
    assert main(["bundle", str(toml), "--in", "host"]) == 0
    manifest = json.loads(Bundle.load(project.dist / name).manifest.read_text())
    assert manifest["verification"]["passed"]
