"""``python -m benchmarks.function.prepare SUBJECT``: make its bundle as a user builds it, and each peer's model.

It is a process of its own, because it needs TensorFlow. It writes below ``build/bench`` alone; ``dist/`` and the layer
that SAM deploys stay as they are.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import bert_onnx, prepare_trees
from benchmarks import prepare as peers
from benchmarks.function.functions import EMOTION, MINILM, OURS, TREE_PEERS, TREES, Subject
from benchmarks.models import NETWORKS, ROOT
from builder.base.cache import compute_digest, run_cached
from builder.config import ModelSpec, read_spec
from builder.package.bundle import Bundle
from builder.pipeline.build_bundle import build_bundle
from builder.pipeline.workspace import Workspace

TOKENS, WIDTH = 256, 384  # of MiniLM


@dataclass(frozen=True)
class FunctionProject(peers.BenchProject):
    """A project apart from the bare network's: its stages are below ``place``, its bundles in ``variant`` there."""

    place: Path = EMOTION.place
    variant: str = ""

    @property
    def build(self) -> Path:
        return self.place / "project"

    @property
    def dist(self) -> Path:
        return self.place / self.variant / "dist"

    @property
    def layers(self) -> Path:
        return self.place / self.variant / "layers"


def main() -> None:
    if sys.argv[1] == EMOTION.name:
        peers.prepare(NETWORKS[EMOTION.name])
        _describe(EMOTION, _bundle(EMOTION, read_spec(ROOT / "examples" / "emotion" / "model.toml")))
    elif sys.argv[1] == TREES.name:
        for _, *model in TREE_PEERS.values():
            prepare_trees.prepare(*model)
        spec = TREES.place / "model.toml"
        spec.write_text(f'[model]\nname = "trees"\nsource = "{TREES.kinds["lightgbm"].models[0]}"\n')
        _describe(TREES, _bundle(TREES, read_spec(spec)))
    else:
        spec = _minilm()
        _bundle(MINILM, spec)
        plain = replace(spec, weights=replace(spec.weights, type="float32"))
        _describe(MINILM, _bundle(MINILM, plain, "float32"))


def _bundle(subject: Subject, spec: ModelSpec, variant: str = "") -> Bundle:
    project = FunctionProject(ROOT, place=subject.place, variant=variant)
    shutil.copytree(ROOT / "layers" / "dependencies", project.layers / "dependencies", dirs_exist_ok=True)
    return build_bundle(Workspace.from_spec(spec, project)).bundle


def _describe(subject: Subject, bundle: Bundle) -> None:
    """Write our model's description, which the peers' functions read."""
    assert bundle.layer == subject.place / subject.kinds[OURS].layer, bundle.layer
    (subject.place / "description.json").write_text(json.dumps(_described(bundle.library)))


def _minilm() -> ModelSpec:
    """Return the example's spec, and make the model that it names and the peers' files."""
    NETWORKS["minilm_16"].make()
    spec = read_spec(ROOT / "examples" / "minilm" / "model.toml")
    example = ROOT / "build" / "minilm"
    key = compute_digest(Path(bert_onnx.__file__), Path(__file__), example / "model.keras")
    run_cached(MINILM.models, key, lambda fresh: _peers(example, fresh))
    return spec


def _peers(made: Path, folder: Path) -> None:
    """Write ``model.onnx`` for any number of tokens, and below ``fastembed`` the files that it would download."""
    plain = folder / "plain.onnx"
    bert_onnx.write(made / "model.keras", plain, bert_onnx.Form(pooled=True))
    bert_onnx.optimise(plain, folder / "model.onnx", WIDTH)
    plain.unlink()
    shutil.copyfile(made / "tokenizer.json", folder / "tokenizer.json")
    theirs = folder / "fastembed"
    theirs.mkdir()
    bert_onnx.write(made / "model.keras", plain, bert_onnx.Form(pooled=False))
    bert_onnx.optimise(plain, theirs / "model.onnx", WIDTH)
    plain.unlink()
    shutil.copyfile(made / "tokenizer.json", theirs / "tokenizer.json")
    signs = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]"}
    texts = {
        "config.json": {"pad_token_id": 0},
        "tokenizer_config.json": {"model_max_length": TOKENS, "pad_token": "[PAD]"},
        "special_tokens_map.json": signs | {"mask_token": "[MASK]"},
    }
    for name, content in texts.items():
        (theirs / name).write_text(json.dumps(content))


def _described(library: Path) -> object:
    import ctypes

    loaded = ctypes.CDLL(str(library))
    loaded.cf_describe.restype = ctypes.c_char_p
    return json.loads(loaded.cf_describe())


if __name__ == "__main__":
    main()
