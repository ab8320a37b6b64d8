"""Writes folders of transformers' models of sound with random weights, and says whether they are read as published.

Run in the environment of PyTorch: ``python transformers_audio_cases.py FOLDER``. The answers of the published pipeline
to the recording of ``tests.support.sounds`` lie beside the folder that tests build, as ``answers.json`` in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
import torch
import transformers

from builder.importers.frameworks.architectures import TESTED
from builder.importers.frameworks.transformers_model import open_transformers
from tests.support.frameworks.agreement import report_agreement, run_in_folder
from tests.support.sounds import tune

LABELS = ("speech", "music", "silence")
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": (16, 16, 16),
    "conv_kernel": (10, 3, 3),
    "conv_stride": (5, 4, 4),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "classifier_proj_size": 24,
    "initializer_range": 0.2,
}
LAYERED = {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "use_weighted_layer_sum": True}
SPECTROGRAM = {"max_length": 64, "num_mel_bins": 32, "frequency_stride": 16, "time_stride": 16}
WHISPER = {
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "num_mel_bins": 16,
    "max_source_positions": 50,
    "classifier_proj_size": 24,
    "init_std": 0.2,
}
ENCODERS: dict[str, dict[str, Any]] = {
    "wav2vec2": SIZES,
    "hubert": SIZES,
    "wavlm": SIZES | {"num_buckets": 32, "max_bucket_distance": 80},
    "unispeech": SIZES,
    "unispeech-sat": SIZES | LAYERED,
    "sew": SIZES | {"squeeze_factor": 2},
    "sew-d": SIZES | {"squeeze_factor": 2, "feature_layer_norm_eps": 1e-5},
    "data2vec-audio": SIZES,
    "wav2vec2-conformer": SIZES | {"conv_depthwise_kernel_size": 5},
    "audio-spectrogram-transformer": {name: SIZES[name] for name in list(SIZES)[:4]} | SPECTROGRAM,
    "whisper": WHISPER,
}
"""The configuration of each architecture."""


def write_folder(folder: Path, encoder: str, task: Any, **settings: Any) -> None:
    """Write a model of random weights, with its feature extractor."""
    named = dict(enumerate(LABELS))
    settings |= {"id2label": named, "label2id": {name: number for number, name in named.items()}}
    torch.manual_seed(len(encoder))
    config = transformers.AutoConfig.for_model(encoder, **ENCODERS[encoder], **settings)
    task.from_config(config).save_pretrained(folder)
    if encoder == "whisper":
        extractor = transformers.WhisperFeatureExtractor(WHISPER["num_mel_bins"], chunk_length=1)
    elif encoder == "audio-spectrogram-transformer":
        extractor = transformers.ASTFeatureExtractor(num_mel_bins=32, max_length=64)
    else:
        extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask="feat_extract_norm" in settings)
    extractor.save_pretrained(folder)


def agrees(folder: Path) -> bool:
    """Say whether the JAX function gives what the published extractor and model give, also for a short recording."""
    model = open_transformers(folder)
    length = (model.ports.feeds[0].shape or ())[1] or 6_000
    samples = (tune(length, 2, 16).T / 32_768).astype(np.float32)
    samples[1, length // 2 :] = 0
    (wanted,), (answer,) = model.answer([samples]), jax.jit(model.make_function())(samples)
    return wanted.std() > 0 and np.allclose(wanted, answer, rtol=1e-4, atol=1e-4)


def ask_published(folder: Path, samples: Any) -> Any:
    """Return the answers of transformers' pipeline to each window of ``samples`` [windows, length]."""
    pipeline = transformers.pipeline("audio-classification", model=str(folder), device="cpu", dtype=torch.float32)
    return json.loads(json.dumps([pipeline(window) for window in samples], default=float))


def main(folder: Path) -> None:
    transformers.logging.set_verbosity_error()
    classifier, encoder = transformers.AutoModelForAudioClassification, transformers.AutoModel
    write_folder(folder / "sounds", "wav2vec2", classifier)
    write_folder(folder / "whole", "audio-spectrogram-transformer", classifier)
    write_folder(folder / "vectors", "hubert", encoder)
    write_folder(folder / "many", "wavlm", classifier, problem_type="multi_label_classification")
    recording = (tune(12_000, 1, 16)[:, 0] / 32_768).astype(np.float32)
    asked = {"sounds": recording.reshape(2, -1), "whole": recording[None, :6_000]}
    for name, windows in asked.items():
        (folder / name / "answers.json").write_text(json.dumps(ask_published(folder / name, windows)))
    same = {name: agrees(folder / name) for name in ("vectors", "many")}
    with TemporaryDirectory() as scratch:
        for name in ENCODERS:
            write_folder(Path(scratch) / name, name, classifier)
            same[name] = agrees(Path(scratch) / name)
    assert ENCODERS.keys() == TESTED["sound"].keys()
    report_agreement(same)


if __name__ == "__main__":
    run_in_folder(main)
