"""Models that take sound, from the trained model to the function's answers; TensorFlow is the judge."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.config import AudioSpec
from handler.budget import RequestLimits
from handler.errors import Refusal, make_refusal
from handler.model import Model
from handler.protocols import predict
from handler.request import File
from handler.server import Invocation, Server
from tests.support import sounds
from tests.support.build import build_library
from tests.support.models import freeze, save_keras, spec_for

pytestmark = pytest.mark.integration

RATE, LENGTH, HOP, BATCH = 8_000, 400, 160, 4


def answer(library: Path, data: bytes) -> list[dict[str, Any]]:
    """What the function answers to a recording."""

    def refuse(error: Exception) -> Refusal:
        return make_refusal(error, "request-1")

    model, call = Model(str(library)), Invocation("request-1", False, lambda: 60_000, lambda result: None, refuse)
    server = Server({model.description.name: model}, RequestLimits())
    request = predict.make_file_request([File(data, "it")], model.description, server.limits)
    found: list[dict[str, Any]] = predict.answer_request(request, server, call, None)["predictions"]
    return found


def windows(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """[count, LENGTH]; the last one filled up with zeros."""
    starts = range(0, max(len(samples) - LENGTH, 0) + HOP, HOP)
    padded = np.pad(samples, (0, LENGTH))
    return np.stack([padded[at : at + LENGTH] for at in starts if at == 0 or at < len(samples) - LENGTH + HOP])


def wave_file(frames: int) -> bytes:
    """16 bits, two channels, by the standard library's writer."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((2, 2, RATE, frames, "NONE", ""))
        writer.writeframes(sounds.tune(frames, 2, 16).astype("<i2").tobytes())
    return file.getvalue()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A Keras network from a mel spectrogram to three classes, and its library for windows of mean 0 and variance 1."""
    import keras

    keras.utils.set_random_seed(3)
    x = keras.Input((LENGTH,), name="sound")
    mel = {"fft_length": 128, "sequence_stride": 64, "num_mel_bins": 12, "sampling_rate": RATE, "max_freq": RATE // 2}
    y = keras.layers.MelSpectrogram(**mel)(x)
    y = keras.layers.Conv2D(6, 3, activation="relu")(keras.layers.Reshape((*y.shape[1:], 1))(y))
    y = keras.layers.Dense(3, activation="softmax", name="word")(keras.layers.GlobalAveragePooling2D()(y))
    model = keras.Model(x, y)
    folder = tmp_path_factory.mktemp("network")
    audio = AudioSpec(None, RATE, LENGTH, HOP, normalise="standard")
    path = save_keras(model, folder / "model.keras")
    graph = freeze(path, folder / "graph", audio=audio, batch=BATCH)
    library = build_library(graph, spec_for(path, audio=audio, batch=BATCH), _made(folder / "library"))
    return model, library.path


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("kind", ["wav", "wav of one short window", "flac", "flac of another rate"])
def test_the_function_answers_as_tensorflow(network: tuple[Any, Path], kind: str) -> None:
    import tensorflow as tf

    model, library = network
    if kind.startswith("wav"):
        data = wave_file(900 if kind == "wav" else 250)
        decoded, rate = tf.audio.decode_wav(data)
        assert int(rate) == RATE
        samples = decoded.numpy().mean(axis=1)
    else:
        data, samples, rate = sounds.flac("mono16.flac" if kind == "flac" else "stereo24.flac")
        if rate != RATE:
            samples = sounds.resampled(samples, rate, RATE).astype(np.float32)
    cut = windows(samples)
    centred = cut - cut.mean(axis=1, keepdims=True)
    wanted = model(centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-7)).numpy()
    found = answer(library, data)
    assert len(found) == len(wanted) == {"wav": 5, "flac": 6}.get(kind, 1)
    assert np.abs([item["word"] for item in found] - wanted).max() < 1e-5
    assert [item["start"] for item in found] == [round(at * HOP / RATE, 6) for at in range(len(found))]
    assert found[-1]["end"] == round(len(samples) / RATE, 6)


def test_a_waveform_without_a_batch(tmp_path: Path) -> None:
    """As YAMNet has it: [any number of samples] in the range of 16 bits, frames and their mean out."""
    import tensorflow as tf

    class Network(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="waveform")])
        def frames(self, waveform: Any) -> Any:
            power = tf.abs(tf.signal.stft(waveform, 128, 64))
            return {"frames": power, "mean": tf.reduce_mean(power)}

    module = Network()
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=module.frames.get_concrete_function())
    audio = AudioSpec("waveform", RATE, LENGTH, normalise="peak", scale=32_768.0)
    graph = freeze(tmp_path / "saved", tmp_path / "graph", audio=audio)
    spec = spec_for(tmp_path / "saved", audio=audio)
    library = build_library(graph, spec, _made(tmp_path / "library")).path
    data, samples, _ = sounds.flac("mono16.flac")
    found = answer(library, data)
    assert [(item["start"], item["end"]) for item in found] == [(0, 0.05), (0.05, 0.1), (0.1, 0.15)]
    for item, window in zip(found, samples.reshape(3, LENGTH), strict=True):
        wanted = module.frames(window / np.abs(window).max() * np.float32(32_768))
        assert np.allclose(item["frames"], wanted["frames"], rtol=1e-4, atol=0.5)
        assert np.allclose(item["mean"], wanted["mean"], rtol=1e-5)


def test_a_length_that_is_not_the_model_s(network: tuple[Any, Path], tmp_path: Path) -> None:
    model, _ = network
    path = save_keras(model, tmp_path / "model.keras")
    with pytest.raises(ImportModelError, match=r"says 500 samples in batches of 1, .* input 'sound' is .*, 400"):
        freeze(path, tmp_path / "graph", audio=AudioSpec(None, RATE, 500))
