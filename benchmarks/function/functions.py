"""The functions that are measured, each as two folders: the function itself and the packages below it.

All have the same Python and the same dependencies layer: Powertools, Pillow and cffi's backend, without the files that
our function never loads. A peer's own packages are links into this environment's site-packages: its distribution with
all its requirements, and nothing else.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from benchmarks.models import FOLDER, NETWORKS, ROOT
from benchmarks.tree_cases import find_model
from builder.base.lambda_python import PythonInterpreter
from builder.base.project import cache_folder
from builder.measure.local import emulator_parts
from builder.measure.local.emulator import HANDLER, LambdaEmulator

CACHE = cache_folder() / "local"
HANDLERS = Path(__file__).with_name("handlers")
OURS, EMPTY = "coldforge", "empty"

POWERTOOLS = ("deferred_import", "powertools", "typed")
"""The modules of our function that every peer uses, too: the set-up of Powertools."""
PICTURES = ("budget", "crop", "image", "image_header", "named_tuples", "resize")
"""The modules of our function that a peer uses, too: from an image's bytes to a feed's pixels."""


@dataclass(frozen=True)
class Kind:
    """A function. ``source``: a peer's file below handlers/, which imports ``distributions``.

    ``models``: a peer's files below the subject's ``models``; ``layer``: our layer below the subject's ``place``.
    ``other_model``: whether it cannot have our model, so that its answers are others.
    """

    label: str
    settings: str
    source: str = ""
    distributions: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    layer: str = ""
    other_model: bool = False


_EMPTY = Kind("nothing", "answers at once: Python's start and Lambda's runtime client", "empty")
_PICTURES: dict[str, Kind] = {
    EMPTY: _EMPTY,
    OURS: Kind(
        "coldforge",
        "the function as deployed, every event and protocol in it, with emotion's bundle",
        layer="dist/emotion/layer",
    ),
    "litert": Kind(
        "LiteRT",
        "Interpreter with num_threads 1, XNNPACK delegate (the default)",
        "litert",
        ("ai-edge-litert",),
        ("litert/model.tflite",),
    ),
    "onnxruntime": Kind(
        "ONNX Runtime",
        "CPUExecutionProvider, ORT_ENABLE_ALL, intra_op and inter_op 1, sequential",
        "onnxruntime",
        ("onnxruntime",),
        ("onnx/model.onnx",),
    ),
    "tensorflow": Kind(
        "TensorFlow",
        "frozen graph as an eager function (Grappler, oneDNN), intra_op and inter_op 1",
        "tensorflow",
        ("tensorflow-cpu",),
        ("tensorflow/graph.pb", "tensorflow/ports.json"),
        (("TF_CPP_MIN_LOG_LEVEL", "3"),),
    ),
}
_TEXTS: dict[str, Kind] = {
    EMPTY: _EMPTY,
    OURS: Kind(
        "coldforge, float32",
        "the function as deployed, every event and protocol in it, with minilm's bundle in float32",
        layer="float32/dist/minilm/layer",
    ),
    "coldforge_float16": Kind(
        "coldforge, float16",
        "the same with the example's own bundle, whose weights are float16",
        layer="dist/minilm/layer",
    ),
    "onnxruntime": Kind(
        "tokenizers + ONNX Runtime",
        "the network as onnxruntime.transformers.optimizer fuses it, any number of tokens; CPUExecutionProvider, "
        "ORT_ENABLE_ALL, intra_op and inter_op 1, sequential",
        "text_onnxruntime",
        ("onnxruntime", "tokenizers"),
        ("model.onnx", "tokenizer.json"),
    ),
    "fastembed": Kind(
        "fastembed",
        "TextEmbedding with threads=1, for its own all-MiniLM-L6-v2, on the same weights in a folder "
        "(specific_model_path): what it would download",
        "text_fastembed",
        ("fastembed",),
        (
            "fastembed/model.onnx",
            "fastembed/tokenizer.json",
            "fastembed/config.json",
            "fastembed/tokenizer_config.json",
            "fastembed/special_tokens_map.json",
        ),
    ),
}


TREE_PEERS = {
    "lightgbm": ("LightGBM", "lightgbm-100x63-binary", "lightgbm"),
    "onnxruntime": ("ONNX Runtime", "lightgbm-100x63-binary", "onnxruntime_trees"),
    "xgboost-cpu": ("XGBoost", "xgboost-100x6-binary", "xgboost"),
    "scikit-learn": ("scikit-learn", "forest-100x63-binary", "forest"),
}
"""Of each package its label, its case in benchmarks/tree_cases.py, and the engine whose model it has."""
_TREES: dict[str, Kind] = {
    EMPTY: _EMPTY,
    OURS: Kind("coldforge", "the function as deployed, with LightGBM's 100 trees", layer="dist/trees/layer"),
    **{
        name: Kind(label, model[0], "trees", (name,), (str(find_model(*model)),), other_model=name[0] in "xs")
        for name, (label, *model) in TREE_PEERS.items()
    },
}


@dataclass(frozen=True)
class Subject:
    """The example that the functions serve. ``models``: the folder of the peers' files.

    ``service``: the peers' module below handlers/, which reads ``service.json`` and imports our function's ``modules``.
    """

    name: str
    title: str
    serves: str
    differ: str  # a sentence on the differences between the functions
    answer: str
    place: Path
    models: Path
    kinds: dict[str, Kind]
    service: str
    modules: tuple[str, ...] = ()

    @property
    def peers(self) -> list[str]:
        return [name for name, kind in self.kinds.items() if kind.distributions]


PLACE = FOLDER / "function"
EMOTION = Subject(
    "emotion",
    "A function for pictures",
    "the *emotion* network",
    "They have the same Powertools set-up, the same picture code and the same packages beside it. Only the engine's "
    "import, load and run differ.",
    "probabilities",
    PLACE,
    NETWORKS["emotion"].folder,
    _PICTURES,
    "pictures",
    ("errors", "description", *PICTURES),
)
MINILM = Subject(
    "minilm",
    "A function for texts",
    "the example *minilm*",
    "They have the same Powertools set-up and the same packages beside it. A text of 26 tokens comes in, and 384 "
    "numbers go out. Ours makes tokens in plain Python and calculates 32; the others make them by the package "
    "`tokenizers` and calculate 26.",
    "vector",
    FOLDER / "function-minilm",
    FOLDER / "function-minilm" / "peers",
    _TEXTS,
    "texts",
)
TREES = Subject(
    "trees",
    "A function for rows of a table",
    "100 trees (benchmarks/tree_cases.py)",
    "They have the same Powertools set-up and the same packages beside it. A row of 28 numbers comes in, and two "
    "probabilities go out.",
    "probabilities",
    FOLDER / "function-trees",
    FOLDER / "function-trees",
    _TREES,
    "tree_engines",
)
SUBJECTS = {subject.name: subject for subject in (EMOTION, MINILM, TREES)}


@dataclass(frozen=True)
class Function:
    """A packed function: each entry of ``emulator`` is a fresh start; ``sizes`` are the deployed bytes, unzipped."""

    emulator: LambdaEmulator
    sizes: dict[str, int]
    other_model: bool = False


def installed(kind: Kind) -> bool:
    """Return whether the engine is installed."""
    try:
        for name in kind.distributions:
            importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def make(subject: Subject, name: str, python: PythonInterpreter) -> Function:
    """Pack the function called ``name``, whose models exist (see prepare.py). Raises ColdforgeError."""
    kind = subject.kinds[name]
    shared = emulator_parts.build_dependencies(CACHE, python, ROOT / "layers" / "dependencies")
    ours = emulator_parts.pack_function(CACHE, python, ROOT / "handler")
    folder = subject.place / "packed" / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "python").mkdir(parents=True)
    task = folder / "function"
    shutil.copytree(ours, task, ignore=shutil.ignore_patterns("__pycache__", ".key"))
    if kind.source:
        _pack(subject, kind, task)
    compiling = [python.path, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", task]
    subprocess.run(compiling, check=True)
    packages = [path for path in _closure(kind.distributions) if path.name != "__pycache__"]
    for path in packages:
        (folder / "python" / path.name).symlink_to(path)
    runtime = emulator_parts.install_runtime(CACHE, python)
    search = (task, shared / "python", folder / "python", runtime)
    sizes = {"function": size(task), "dependencies": size(shared / "python")}
    layer = subject.place / (kind.layer or subject.kinds[OURS].layer)
    sizes |= {"model": size(layer)} if kind.layer else {"engine": sum(size(path) for path in packages)}
    emulator = LambdaEmulator(
        binary=emulator_parts.install_emulator(CACHE),
        python=python,
        runtime=runtime,
        bundle_layer=layer,
        dependencies=shared,
        function=task,
        environment={"PYTHONPATH": ":".join(map(str, search)), **dict(kind.environment)},
        handler="app.lambda_handler" if kind.source else HANDLER,
    )
    return Function(emulator, sizes, kind.other_model)


def _pack(subject: Subject, kind: Kind, task: Path) -> None:
    """Replace our function in ``task`` by a peer's, and keep the modules of our package that it uses."""
    handler = task / "handler"
    shutil.copyfile(HANDLERS / f"{kind.source}.py", task / "app.py")
    if not kind.distributions:
        shutil.rmtree(handler)
        return
    kept = {f"{name}.py" for name in ("__init__", *POWERTOOLS, *subject.modules)}
    for path in list(handler.iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in kept:
            path.unlink()
    for module in ("service", subject.service):
        shutil.copyfile(HANDLERS / f"{module}.py", task / f"{module}.py")
    for model in kind.models:
        shutil.copyfile(subject.models / model, task / Path(model).name)
    described = json.loads((subject.place / "description.json").read_text())
    (output,) = described["outputs"]
    settings = {"name": described["model"]["name"], "output": output["name"], "labels": output["labels"]}
    (task / "service.json").write_text(json.dumps(settings | {"image": described["image"]}))


def _closure(distributions: tuple[str, ...]) -> list[Path]:
    """Return the entries in site-packages of the distributions and of their installed requirements."""
    todo, seen, paths = list(distributions), set[str](), set[Path]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            installed = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name in distributions:
                raise
            continue  # requirements/bench.overrides.txt leaves it out
        paths |= set(_places(installed))
        for text in installed.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                todo.append(needed.name.lower().replace("_", "-").replace(".", "-"))
    return sorted(paths)


def _places(installed: importlib.metadata.Distribution) -> Iterator[Path]:
    for file in installed.files or []:
        top = file.parts[0]
        if top not in ("..", "__pycache__"):  # scripts lie outside of site-packages
            yield Path(str(installed.locate_file(top))).resolve()


def size(path: Path) -> int:
    """Return the bytes of the file or of the files in the folder, without links."""
    if path.is_file():
        return path.stat().st_size
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file() and not p.is_symlink() and p.name != ".key")
