"""Writes folders of image models of transformers with random weights, and says whether they are read correctly.

Run in the environment of PyTorch: ``python image_cases.py FOLDER``. The published pipelines' answers to the files of
tests/data lie beside those folders that tests build, as ``answers.json`` in them.
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
from builder.importers.frameworks.channels_last import make_channels_last
from builder.importers.frameworks.transformers_model import open_transformers
from tests.support.frameworks.agreement import report_agreement, run_in_folder

PHOTOS = Path(__file__).parents[2] / "data"
NAMES = ("astronaut.jpg", "coffee.jpg", "face.jpg", "cat_exif_rotated.jpg")
LABELS = ["cat", "dog", "cup", "tree", "none"]
SIDE = 64
TRANSFORMER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "initializer_range": 0.2,
    "image_size": SIDE,
    "patch_size": 16,
}
STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}
WINDOWS = {"image_size": SIDE, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
MOBILE = {"image_size": SIDE, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 16, 24, 32]}
LEVIT = {
    "image_size": SIDE,
    "hidden_sizes": [16, 32, 48],
    "num_attention_heads": [2, 2, 2],
    "depths": [1, 1, 1],
    "key_dim": [8, 8, 8],
}
EFFICIENT = {"width_coefficient": 0.25, "depth_coefficient": 0.25, "image_size": SIDE, "hidden_dim": 320}
DETR = {
    "use_timm_backbone": False,
    "backbone_config": {"model_type": "resnet", **STAGES, "embedding_size": 8, "out_features": ["stage4"]},
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "num_queries": 6,
    "init_std": 0.5,
    "init_xavier_std": 3.0,
}
OBJECTS = {"size": {"shortest_edge": SIDE, "longest_edge": 2 * SIDE}}
WHOLE = {"size": {"height": SIDE, "width": SIDE}}
MIDDLE = {"crop_size": {"height": SIDE, "width": SIDE}}
SHORT = MIDDLE | {"size": {"shortest_edge": 72}}
PART = {"size": {"shortest_edge": SIDE}, "crop_pct": 0.875}
MODELS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "vit": (TRANSFORMER, "ViT", WHOLE),
    "deit": (TRANSFORMER, "DeiT", MIDDLE | {"size": {"height": 72, "width": 72}}),
    "beit": (TRANSFORMER, "Beit", WHOLE | {"resample": 3}),
    "dinov2": (TRANSFORMER | {"patch_size": 8, "image_size": 40}, "Bit", SHORT),
    "clip_vision_model": (TRANSFORMER, "CLIP", SHORT),
    "siglip_vision_model": (TRANSFORMER, "Siglip", WHOLE),
    "swin": (WINDOWS, "ViT", WHOLE),
    "convnext": (STAGES, "ConvNext", PART),
    "convnextv2": (STAGES, "ConvNext", PART),
    "resnet": (STAGES | {"embedding_size": 8}, "ConvNext", PART),
    "regnet": (STAGES | {"embedding_size": 8, "groups_width": 4}, "ConvNext", PART),
    "mobilenet_v1": ({"depth_multiplier": 0.25, "image_size": SIDE}, "MobileNetV1", SHORT),
    "mobilenet_v2": ({"depth_multiplier": 0.35, "image_size": SIDE}, "MobileNetV2", SHORT),
    "efficientnet": (EFFICIENT, "EfficientNet", WHOLE | {"resample": 0, "rescale_offset": True}),
    "poolformer": (STAGES, "PoolFormer", MIDDLE | PART),
    "mobilevit": (MOBILE, "MobileViT", SHORT),
    "levit": (LEVIT, "Levit", MIDDLE | {"size": {"shortest_edge": SIDE}}),
    "segformer": (STAGES | {"decoder_hidden_size": 16}, "Segformer", WHOLE),
    "yolos": (TRANSFORMER | {"image_size": [64, 96], "num_detection_tokens": 6}, "Yolos", OBJECTS),
    "detr": (DETR, "Detr", OBJECTS),
}
"""The configuration of each architecture, and the class and the settings of its image processor."""

ARCHITECTURES = {"levit": "LevitForImageClassificationWithTeacher", "deit": "DeiTForImageClassification"}
"""Classes of architectures that have more than one for images' classes."""
TASKS = {
    "classes": transformers.AutoModelForImageClassification,
    "embedding": transformers.AutoModel,
    "pixels": transformers.AutoModelForSemanticSegmentation,
    "objects": transformers.AutoModelForObjectDetection,
}
BOTH = ("classes", "embedding")
OTHERS = {
    **dict.fromkeys(("vit", "dinov2", "resnet", "poolformer"), BOTH),
    **dict.fromkeys(("clip_vision_model", "siglip_vision_model"), ("embedding",)),
    **dict.fromkeys(("yolos", "detr"), ("objects",)),
    "segformer": ("pixels",),
}
"""The tasks of architectures that are not compared for classes alone."""
BUILT = {"pets": ("resnet", "classes"), "streets": ("segformer", "pixels"), "finds": ("yolos", "objects")}
"""The folders that tests build."""


def write_folder(folder: Path, kind: str, task: str, **settings: Any) -> None:
    """Write a model of random weights, with its image processor's settings."""
    sizes, processor, pixels = MODELS[kind]
    named = dict(enumerate(settings.pop("labels", LABELS)))
    settings |= {"id2label": named, "label2id": {name: number for number, name in named.items()}}
    torch.manual_seed(len(kind) + len(task))
    if kind in ARCHITECTURES and task == "classes":
        settings["architectures"] = [ARCHITECTURES[kind]]
    config = transformers.AutoConfig.for_model(kind, **sizes, **settings)
    model = TASKS[task].from_config(config)
    settle(model)
    model.save_pretrained(folder)
    written = {"image_processor_type": f"{processor}ImageProcessor", **pixels}
    (folder / "preprocessor_config.json").write_text(json.dumps(written))


def settle(model: Any) -> None:
    """Give convolutions and normalisations weights, and statistics, by which answers depend on the image."""
    for value in model.parameters():
        if value.ndim == 4:
            torch.nn.init.kaiming_normal_(value.data)
        elif value.ndim == 1:
            value.data += (torch.rand(value.shape) - 0.5) / 4
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d | torch.nn.BatchNorm1d):
            layer.momentum = None  # The mean of all runs, of which there is one.
    with torch.no_grad():
        model.train()(pixel_values=torch.randn(16, 3, SIDE, SIDE))
    model.eval()


def ask_published(folder: Path, task: str) -> Any:
    """Return the answers of the library's own pipeline to the photographs NAMES; a class of each pixel for "pixels"."""
    name, options = {
        "classes": ("image-classification", {}),
        "pixels": ("image-segmentation", {}),
        "objects": ("object-detection", {"threshold": 0.0}),
    }[task]
    pipeline = transformers.pipeline(name, model=str(folder), device="cpu", dtype=torch.float32)
    answers = [pipeline(str(PHOTOS / photo), **options) for photo in NAMES]
    if task != "pixels":
        return answers
    return [sum((np.array(row["mask"]) > 0) * LABELS.index(row["label"]) for row in rows).tolist() for rows in answers]


def agrees(folder: Path) -> bool:
    """Say whether the JAX function, with channels last, gives what the library's own module gives.

    The pixels of photographs must be those of its own processor, too.
    """
    model = open_transformers(folder)
    assert model.ports.facts
    known = model.ports.facts.image
    assert known
    shape = 3, 3, known.image.height, known.image.width
    pixels = np.random.default_rng(0).standard_normal(shape, np.float32)
    answers = jax.jit(make_channels_last(model.make_function()))(pixels)
    same = [known.mean < 0.5]
    for wanted, answer in zip(model.answer([pixels]), answers, strict=True):
        largest = np.abs(wanted).max()
        same += [np.ptp(wanted, 0).max() > largest / 100, np.abs(wanted - answer).max() < 1e-4 * largest]
    return all(same)


def main(folder: Path) -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name, (kind, task) in BUILT.items():
        write_folder(folder / name, kind, task)
        (folder / name / "answers.json").write_text(json.dumps([NAMES, ask_published(folder / name, task)]))
    write_folder(folder / "traits", "vit", "classes", problem_type="multi_label_classification")
    write_folder(folder / "vectors", "vit", "embedding")
    write_folder(folder / "blind", "vit", "classes")
    (folder / "blind" / "preprocessor_config.json").unlink()
    write_folder(folder / "timm", "vit", "classes")
    (folder / "timm" / "config.json").write_text('{"architecture": "resnet18", "pretrained_cfg": {}}')
    write_folder(folder / "any_size", "resnet", "classes")
    write_folder(folder / "several", "yolos", "objects")
    for name, processor in (("any_size", "ViT"), ("several", "ConditionalDetr")):
        settings = {"image_processor_type": f"{processor}ImageProcessor", "do_resize": False}
        (folder / name / "preprocessor_config.json").write_text(json.dumps(settings))
    same = {}
    with TemporaryDirectory() as scratch:
        for kind in MODELS:
            for task in OTHERS.get(kind, ("classes",)):
                write_folder(Path(scratch) / kind / task, kind, task)
                same[f"{kind} {task}"] = agrees(Path(scratch) / kind / task)
    assert MODELS.keys() == TESTED["images"].keys()
    report_agreement(same)


if __name__ == "__main__":
    run_in_folder(main)
