"""Reads folders of Hugging Face's transformers and sentence-transformers.

The libraries load a folder themselves, and never run code that is in it. What the folder's task needs, as a module of
PyTorch, then goes the way of a program that ``torch.export`` saved.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import transformers

from builder.base.errors import ImportModelError
from builder.base.escape import describe_error, escape_invisible
from builder.importers.frameworks.framework_model import FrameworkModel, make_port
from builder.importers.frameworks.transformers_audio import SOUND_READERS, is_of_sound
from builder.importers.frameworks.transformers_images import IMAGE_READERS, takes_images
from builder.importers.frameworks.transformers_task import HOW_TO_EXPORT, TaskModel
from builder.importers.frameworks.transformers_texts import MODULES, TEXT_READERS, read_modules
from builder.importers.frameworks.transformers_towers import list_towers, read_tower
from builder.importers.ports import ModelPorts

_HEADS = ("HeadModel", "HeadsModel")
"""Endings of models that write texts, such as GPT2LMHeadModel, and not encoders."""


def open_transformers(path: Path, trust: bool = False, signature: str | None = None) -> FrameworkModel:
    """Open the model in the folder ``path``, or the tower ``signature`` of it; ``trust``: its weights may be pickles.

    Raises ImportModelError for a task or an architecture that is not supported, and for a folder without weights that
    the task needs.
    """
    task = open_task(path, trust, signature)
    fetches = (make_port(name, "float32", shape) for name, shape in task.measure_results().items())
    ports = ModelPorts(
        task.feeds,
        tuple(fetches),
        facts=task.facts,
        labels=task.labels,
        signature=task.signature,
        signatures=task.signatures,
        origin=f"read by transformers {transformers.__version__}",
    )
    return FrameworkModel(
        ports,
        lambda: task.make_function(path.name),
        task.answer,
        channels_first=task.process_images is not None,
        encode_texts=task.encode_texts,
        process_images=task.process_images,
    )


def open_task(path: Path, trust: bool = False, signature: str | None = None) -> TaskModel:
    """Return the task of the model in the folder ``path``, as a module of PyTorch. See ``open_transformers``."""
    transformers.logging.set_verbosity_error()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    transformers.logging.disable_progress_bar()
    config = _read_config(path)
    try:
        if list_towers(config):
            return read_tower(path, trust, config, signature)
        if signature is not None:
            raise ImportModelError(f"{path.name} has no signatures: write none.")
        return _choose_reader(path, config)(path, trust)
    except ImportModelError:
        raise
    except Exception as error:  # The libraries take for granted what a folder's files say.
        raise ImportModelError(f"{path.name} cannot be read: {describe_error(error)}. {HOW_TO_EXPORT}.") from error


def _read_config(path: Path) -> Any:
    try:
        content = json.loads((path / "config.json").read_text(encoding="utf-8"))
        if "pretrained_cfg" in content:
            raise ImportModelError(
                f"{path.name} is a model of timm, which is not read. Export it by torch.export.save or to ONNX, and "
                "name that file instead."
            )
        kind = str(content.get("model_type"))
        if kind not in transformers.CONFIG_MAPPING:
            own = " needs code of its own, which is not run" if "auto_map" in content else " is not known"
            raise ImportModelError(
                f'{path.name}: the architecture "{escape_invisible(kind)}"{own} to transformers '
                f"{transformers.__version__}. {HOW_TO_EXPORT}."
            )
        return transformers.AutoConfig.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ImportModelError(f"{path.name}/config.json cannot be read: {describe_error(error)}") from error


def _choose_reader(path: Path, config: Any) -> Callable[[Path, bool], TaskModel]:
    """Return the function that reads the folder, by sentence-transformers' modules or the architecture's task."""
    if (path / MODULES).is_file():
        return read_modules
    (architecture, *_) = config.architectures or [""]
    readers = IMAGE_READERS if takes_images(architecture) else SOUND_READERS if is_of_sound(config) else TEXT_READERS
    for ending, read in readers.items():
        if architecture.endswith(ending) and not architecture.endswith(_HEADS):
            return read
    known = ", ".join({**TEXT_READERS, **SOUND_READERS, **IMAGE_READERS})
    raise ImportModelError(
        f"{path.name}: {architecture or 'an architecture without a name'} is not supported. Models are read whose "
        f"architecture ends in {known}, and those of sentence-transformers. {HOW_TO_EXPORT}."
    )
