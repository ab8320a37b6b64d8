"""The functions that are measured, each as two folders: the function itself and the packages below it.

All have the same dependencies layer (Powertools, Pillow, cffi's backend; what ours never loads is taken out of it) and
the same Python. A peer's own packages are links into this environment's site-packages: its distribution with
everything that it requires, and nothing else.
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
from builder.local import parts
from builder.local.emulator import HANDLER, Emulator
from builder.project import cache_folder

NETWORK = NETWORKS["emotion"]
PLACE = FOLDER / "function"
CACHE = cache_folder() / "local"
HANDLERS = Path(__file__).with_name("handlers")
LAYER = PLACE / "dist" / "emotion" / "layer"  # see prepare
OURS, EMPTY = "coldforge", "empty"

PICTURES = ("budget", "exif", "fit", "image", "resize", "survey")
"""The modules of our function that a peer's uses too: from a picture's bytes to a feed's pixels."""


@dataclass(frozen=True)
class Kind:
    """``source``: the peer's file below handlers/. ``models``: its files below the network's folder."""

    label: str
    settings: str
    source: str = ""
    distribution: str = ""
    models: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


KINDS: dict[str, Kind] = {
    EMPTY: Kind("nothing", "answers at once: Python's start and Lambda's runtime client", "empty"),
    OURS: Kind("coldforge", "the function as deployed, every event and protocol in it, with emotion's bundle"),
    "litert": Kind(
        "LiteRT",
        "Interpreter with num_threads 1, XNNPACK delegate (the default)",
        "litert",
        "ai-edge-litert",
        ("litert/model.tflite",),
    ),
    "onnxruntime": Kind(
        "ONNX Runtime",
        "CPUExecutionProvider, ORT_ENABLE_ALL, intra_op and inter_op 1, sequential",
        "onnxruntime",
        "onnxruntime",
        ("onnx/model.onnx",),
    ),
    "tensorflow": Kind(
        "TensorFlow",
        "frozen graph as an eager function (Grappler, oneDNN), intra_op and inter_op 1",
        "tensorflow",
        "tensorflow-cpu",
        ("tensorflow/graph.pb", "tensorflow/ports.json"),
        (("TF_CPP_MIN_LOG_LEVEL", "3"),),
    ),
}
PEERS = [name for name in KINDS if name not in (OURS, EMPTY)]


@dataclass(frozen=True)
class Function:
    """``emulator`` is to be entered, each time a fresh start. ``sizes``: unzipped bytes of what is deployed."""

    emulator: Emulator
    sizes: dict[str, int]


def installed(name: str) -> bool:
    """Whether the engine is there to be measured."""
    try:
        importlib.metadata.distribution(KINDS[name].distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def make(name: str, python: parts.Interpreter) -> Function:
    """The function called ``name``, ready to start; its models are there (see prepare). Raises ColdforgeError."""
    kind = KINDS[name]
    shared = parts.dependencies(CACHE, python, ROOT / "layers" / "dependencies")
    ours = parts.function(CACHE, python, ROOT / "handler")
    folder = PLACE / "packed" / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "python").mkdir(parents=True)
    task = folder / "function"
    shutil.copytree(ours, task, ignore=shutil.ignore_patterns("__pycache__", ".key"))
    if kind.source:
        _pack(kind, task)
    compiling = [python.path, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", task]
    subprocess.run(compiling, check=True)
    packages = [path for path in _closure(kind.distribution) if path.name != "__pycache__"] if kind.distribution else []
    for path in packages:
        (folder / "python" / path.name).symlink_to(path)
    runtime = parts.runtime(CACHE, python)
    search = (task, shared / "python", folder / "python", runtime)
    sizes = {"function": size(task), "dependencies": size(shared / "python")}
    sizes |= {"model": size(LAYER)} if name == OURS else {"engine": sum(size(path) for path in packages)}
    emulator = Emulator(
        binary=parts.emulator(CACHE),
        python=python,
        runtime=runtime,
        bundle_layer=LAYER,
        dependencies=shared,
        function=task,
        environment={"PYTHONPATH": ":".join(map(str, search)), **dict(kind.environment)},
        handler="app.lambda_handler" if kind.source else HANDLER,
    )
    return Function(emulator, sizes)


def _pack(kind: Kind, task: Path) -> None:
    """A peer's function instead of ours; of our own package, only what it uses stays."""
    handler = task / "handler"
    shutil.copyfile(HANDLERS / f"{kind.source}.py", task / "app.py")
    if not kind.distribution:
        shutil.rmtree(handler)
        return
    kept = {f"{name}.py" for name in ("__init__", "errors", "description", *PICTURES)}
    for path in list(handler.iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in kept:
            path.unlink()
    shutil.copyfile(HANDLERS / "service.py", task / "service.py")
    for model in kind.models:
        shutil.copyfile(NETWORK.folder / model, task / Path(model).name)
    described = json.loads((PLACE / "description.json").read_text())
    (output,) = described["outputs"]
    settings = {"name": described["model"]["name"], "output": output["name"], "labels": output["labels"]}
    (task / "service.json").write_text(json.dumps(settings | {"image": described["image"]}))


def _closure(distribution: str) -> list[Path]:
    """What stands in site-packages for a distribution and everything that it requires here."""
    todo, seen, found = [distribution], set[str](), set[Path]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        installed = importlib.metadata.distribution(name)
        found |= set(_places(installed))
        for text in installed.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                todo.append(needed.name.lower().replace("_", "-").replace(".", "-"))
    return sorted(found)


def _places(installed: importlib.metadata.Distribution) -> Iterator[Path]:
    for file in installed.files or []:
        top = file.parts[0]
        if top not in ("..", "__pycache__"):  # scripts are beside site-packages
            yield Path(str(installed.locate_file(top))).resolve()


def size(path: Path) -> int:
    """Bytes of the files in it; a link counts as nothing."""
    if path.is_file():
        return path.stat().st_size
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file() and not p.is_symlink() and p.name != ".key")
