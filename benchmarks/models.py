"""The networks that are measured, each saved once as ``build/bench/<name>/keras/model.keras``.

Every engine gets the same network, with float32 or ids of tokens in and float32 out. The cast and scaling of images
that a build would add in front are left out, because the peers would not have them.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "bench"
READY = "ready.json"
"""The file in a network's folder that lists what was prepared, and how."""

SAMPLES = 3  # inputs, each a batch, that every engine has to answer like TensorFlow before it is timed
BATCH_CLAIMS = {"digits": (1.3, 1.3)}
"""The target ratios for several inputs a run, where they differ from those for one input."""


@dataclass(frozen=True)
class Network:
    """A network, whose Keras model ``build()`` gives; ``low``, ``high`` are the range of its images' values.

    ``claim`` is the target ratio with one and two threads: the best peer's median over ours.
    """

    name: str
    what: str
    build: Callable[[], Any]
    claim: tuple[float, float]
    low: float = -1
    high: float = 1
    trained: bool = False  # or its weights come from an example's own script
    batch: int = 1
    tokens: int = 0  # of a network that takes ids and a mask; 0: it takes images or features
    tolerance: float = 1e-4
    """The largest allowed difference from the right answer, as a share of that answer's largest value."""

    @property
    def key(self) -> str:
        """The name with the batch, which ``find_network`` reads."""
        return self.name if self.batch == 1 else f"{self.name}-batch{self.batch}"

    @property
    def preparation(self) -> tuple[str, ...]:
        """The module that makes its models ready, and what it is called with."""
        return "benchmarks.prepare", self.key

    @property
    def folder(self) -> Path:
        return FOLDER / self.key

    def batched(self, batch: int) -> Network:
        """Return this network with ``batch`` inputs a run."""
        if batch in (1, self.batch):
            return self
        return replace(self, batch=batch, claim=BATCH_CLAIMS.get(self.name, self.claim))

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())

    def inputs(self, count: int, shape: tuple[int, ...], seed: int) -> Any:
        """Return float32 [count, ...], the same every time: noise for sequences, soft blobs for images.

        Blobs have growing contrast and a little noise: images of noise alone look all the same to a deep network."""
        import numpy as np

        rng = np.random.default_rng([self.seed, seed])
        noise = rng.standard_normal((count, *shape), np.float32)
        if len(shape) != 3:
            return noise
        height, width, channels = shape
        grid = rng.uniform(-1, 1, (count, 7, 7, channels)).astype(np.float32)
        blobs = np.kron(grid, np.ones((1, -(-height // 7), -(-width // 7), 1), np.float32))[:, :height, :width]
        contrast = np.linspace(0.25, 1, count, dtype=np.float32).reshape(-1, 1, 1, 1)
        middle, reach = (self.high + self.low) / 2, (self.high - self.low) / 2
        return np.clip(middle + reach * (contrast * blobs + 0.05 * noise), self.low, self.high)

    def feeds(self, model: Any, count: int, seed: int) -> dict[str, Any]:
        """Return arrays [count, ...] by the name of the model's input, the same every time."""
        if not self.tokens:
            (port,) = model.inputs
            return {port.name: self.inputs(count, port.shape[1:], seed)}
        import numpy as np

        rng = np.random.default_rng([self.seed, seed])
        lengths = rng.integers(self.tokens * 3 // 4, self.tokens, (count, 1), endpoint=True)
        mask = (np.arange(self.tokens) < lengths).astype(np.int32)
        ids = rng.integers(*MINILM_WORDS, (count, self.tokens), np.int32) * mask
        return {"input_ids": ids, "attention_mask": mask}

    def make(self) -> Any:
        """Return the Keras model with the weights that it is measured with."""
        import keras

        from benchmarks.weights import stir

        keras.utils.set_random_seed(self.seed)
        model = self.build()
        if not self.trained:
            stir(model, self.inputs(8, model.inputs[0].shape[1:], seed=1), self.seed)
        return model


def _emotion() -> Any:
    import keras

    from builder.base.project import cache_folder
    from builder.config import read_spec
    from builder.sources import locate_model

    path = locate_model(read_spec(ROOT / "examples" / "emotion" / "model.toml"), cache_folder())
    return keras.saving.load_model(path, compile=False)


def _example(name: str, script: str) -> Callable[[], Any]:
    def build() -> Any:
        import keras

        path = ROOT / "build" / name / "model.keras"
        if not path.exists():
            subprocess.run([sys.executable, ROOT / "examples" / name / script], check=True)
        return keras.saving.load_model(path, compile=False)

    return build


def application(name: str, size: int = 224, **options: Any) -> Callable[[], Any]:
    """Return the builder of a network of keras.applications, without trained weights."""

    def build() -> Any:
        import keras

        return getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), **options)

    return build


LSTM_STEPS, LSTM_FEATURES, LSTM_UNITS = 64, 64, 128


def _lstm() -> Any:
    import keras

    x = keras.Input((LSTM_STEPS, LSTM_FEATURES), name="x")
    y = keras.layers.LSTM(LSTM_UNITS)(x)
    return keras.Model(x, keras.layers.Dense(10, activation="softmax")(y), name="lstm")


def _transformer(steps: int = 128, width: int = 256, heads: int = 4) -> Any:
    """Return a post-norm encoder block with BERT-mini's sizes."""
    import keras
    from keras import layers as kl

    x = keras.Input((steps, width), name="x")
    y = kl.LayerNormalization()(x + kl.MultiHeadAttention(heads, width // heads)(x, x))
    z = kl.Dense(width)(kl.Dense(4 * width, activation="gelu")(y))
    return keras.Model(x, kl.LayerNormalization()(y + z), name="transformer")


def _pitch(frames: int = 86, bins: int = 264, harmonics: int = 8) -> Any:
    """Return a network that transcribes music from a spectrogram, three bins a semitone, harmonics as channels.

    Most of its convolutions have 1 to 8 output channels, and one has a filter that is as wide as an octave.
    """
    import keras
    from keras import layers as kl

    def convolve(y: Any, channels: int, size: tuple[int, int], step: int = 1) -> Any:
        y = kl.Conv2D(channels, size, strides=(1, step), padding="same")(y)
        return kl.ReLU()(kl.BatchNormalization()(y))

    def detect(y: Any, size: tuple[int, int]) -> Any:
        return kl.Conv2D(1, size, padding="same", activation="sigmoid")(y)

    x = keras.Input((frames, bins, harmonics), name="x")
    contours = detect(convolve(convolve(x, 16, (5, 5)), 8, (5, 39)), (5, 5))
    notes = detect(convolve(contours, 32, (7, 7), 3), (7, 3))
    onsets = detect(kl.Concatenate()([notes, convolve(x, 32, (5, 5), 3)]), (3, 3))
    return keras.Model(x, kl.Concatenate()([notes, onsets]), name="pitch")


MINILM_WORDS = (1000, 30522)  # ids of whole words and of pieces; below are signs and unused tokens


def _minilm(tokens: int) -> Callable[[], Any]:
    """Return a builder of the example for one length, without the steps that a build would add behind it."""

    def build() -> Any:
        import keras

        trained = _example("minilm", "make_model.py")()
        inputs = [keras.Input((tokens,), dtype=port.dtype, name=port.name) for port in trained.inputs]
        return keras.Model(inputs, trained(inputs), name="minilm")

    return build


NETWORKS: dict[str, Network] = {
    network.name: network
    for network in (
        Network("emotion", "mini-Xception, 64×64×1, trained", _emotion, (1.3, 1.3), -1, 1, trained=True),
        Network("digits", "784-128-10, trained", _example("digits", "train.py"), (2, 2), 0, 1, trained=True),
        Network(
            "age_gender",
            "WideResNet-16-8, 64×64×3",
            _example("age_gender", "make_model.py"),
            (1.8, 1.8),
            0,
            255,
            trained=True,
        ),
        Network("mobilenet_v2", "224×224×3", application("MobileNetV2"), (1.25, 1.25)),
        Network(
            "mobilenet_v3_small",
            "224×224×3",
            application("MobileNetV3Small", include_preprocessing=False),
            (1.3, 1.3),
        ),
        Network("efficientnet_b0", "224×224×3", application("EfficientNetB0"), (1.3, 1.3), 0, 255),
        Network("resnet50", "224×224×3", application("ResNet50"), (1.15, 1.15)),
        Network("lstm", f"{LSTM_STEPS} steps of {LSTM_FEATURES}, {LSTM_UNITS} units", _lstm, (1.5, 1.5)),
        Network("transformer", "encoder block, 128 tokens × 256, 4 heads", _transformer, (1.2, 1.2)),
        Network("pitch", "notes and onsets in a second of sound, 86×264×8, thin convolutions", _pitch, (1.2, 1.2)),
        *(
            Network(
                f"minilm_{tokens}",
                f"all-MiniLM-L6-v2, {tokens} tokens, trained",
                _minilm(tokens),
                (1.2, 1.2),
                trained=True,
                tokens=tokens,
            )
            for tokens in (16, 64, 256)
        ),
    )
}
