"""Networks of Hugging Face's transformers as benchmarks: ``bert_base-64`` is BERT-base for texts of 64 tokens."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.model_files import ModelFile
from benchmarks.models import FOLDER, ROOT
from builder.config import ModelSpec, read_spec
from builder.importers.frameworks.framework_environment import FRAMEWORKS, ensure_environment

_MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}

ARCHITECTURES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "minilm": ("BertModel", _MINILM),
    "bert_base": ("BertModel", {}),
    "vit_b16": ("ViTForImageClassification", {}),
    "convnext_tiny": ("ConvNextForImageClassification", {}),
}
"""The class of transformers and the settings of each network, where they differ from the class's own."""


@dataclass(frozen=True)
class TransformersNetwork(ModelFile):
    """The network ``architecture`` for texts of ``length`` tokens, or for images if that is 0."""

    architecture: str = ""
    length: int = 0

    @property
    def preparation(self) -> tuple[str, ...]:
        return "benchmarks.prepare_file", self.key

    @property
    def onnx_file(self) -> Path:
        """The file for peers, with open sizes; it is made if it is missing."""
        return _make_files(self.architecture)[1]

    @property
    def optimiser(self) -> str:
        """The name under which ONNX Runtime's tool for transformers knows the network; "" if it does not."""
        kind, _ = ARCHITECTURES[self.architecture]
        return next((name for name in ("bert", "vit") if kind.lower().startswith(name)), "")

    @property
    def width(self) -> int:
        """The size of a token's vector."""
        return int(ARCHITECTURES[self.architecture][1].get("hidden_size", 768))

    def read_spec(self) -> ModelSpec:
        """Return the spec of the network, whose weights are beside the library: BERT-base's do not fit a layer."""
        folder, _ = _make_files(self.architecture)
        feeds = "".join(
            f'[[feeds]]\nname = "{name}"\nshape = [{self.batch}, {self.length}]\n'
            for name in (("input_ids", "attention_mask") if self.length else ())
        )
        # Samples are texts, as ONNX Runtime's operators for BERT take it that padding is only at the end.
        text = f'[text]\ntokenizer = "{folder}/tokenizer.json"\n' if self.length else ""
        toml = self.folder / "model.toml"
        toml.parent.mkdir(parents=True, exist_ok=True)
        toml.write_text(
            f'[model]\nsource = "{folder}"\nformat = "transformers"\nname = "{self.key}"\nbatch = {self.batch}\n'
            f'{feeds}{text}[weights]\nplace = "image"\n'
        )
        return read_spec(toml)


def _make_files(architecture: str) -> tuple[Path, Path]:
    """Return the folder of an architecture, and the .onnx file made of it; both are made if they are missing."""
    folder = FOLDER / "transformers" / architecture
    file = folder.with_suffix(".onnx")
    if not file.exists():
        environment = ensure_environment(FRAMEWORKS["transformers"], print)
        script = Path(__file__).with_name("transformers_files.py")
        packages = sysconfig.get_path("purelib")
        variables = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "builder" / "installed")))}
        subprocess.run(
            [environment / "bin" / "python", script, architecture, folder, file, packages],
            env=os.environ | variables | {"HF_HUB_OFFLINE": "1"},
            check=True,
        )
    return folder, file
