"""``transformers_files.py NAME FOLDER FILE PACKAGES``: make a network of transformers, and its .onnx file for peers.

Run it with the Python of PyTorch's environment. PACKAGES is a folder of installed packages with ``onnx`` among them,
which that environment lacks. The module in FILE is the one that coldforge exports of FOLDER; its weights are random.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
import transformers

from benchmarks.transformers_networks import ARCHITECTURES
from builder.importers.frameworks.transformers_model import open_task


def write_folder(name: str, folder: Path) -> None:
    """Write the network's configuration and weights, and the tokenizer of one word that a reader asks for."""
    kind, settings = ARCHITECTURES[name]
    torch.manual_seed(0)
    model = getattr(transformers, kind)
    config = model.config_class(**settings)
    model(config).eval().save_pretrained(folder)
    if "ViT" in kind or "ConvNext" in kind:
        size = {"height": 224, "width": 224}
        transformers.ViTImageProcessor(size=size).save_pretrained(folder)
    else:
        words = folder / "vocab.txt"
        words.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
        transformers.BertTokenizer(str(words)).save_pretrained(folder)


def write_onnx(folder: Path, file: Path) -> None:
    """Write the module of the folder's task, with open batches and lengths."""
    task = open_task(folder)
    for part in task.module.modules():
        if isinstance(part, transformers.PreTrainedModel):
            part.set_attn_implementation("eager")  # The form of attentions that ONNX Runtime's tool puts together.
    opened = {
        feed.name: {axis: f"size{axis}" for axis, size in enumerate(feed.shape or ()) if size is None}
        for feed in task.feeds
    }
    with torch.no_grad():
        torch.onnx.export(
            task.module,
            (),
            str(file),
            kwargs=dict(task.examples),
            input_names=list(opened),
            dynamic_axes=opened,
            opset_version=17,
            dynamo=False,
        )


if __name__ == "__main__":
    sys.path.append(sys.argv[4])
    warnings.simplefilter("ignore")
    write_folder(sys.argv[1], Path(sys.argv[2]))
    write_onnx(Path(sys.argv[2]), Path(sys.argv[3]))
