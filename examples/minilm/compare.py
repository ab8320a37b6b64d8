"""How near the bundle's vectors come to the network's own: ``PYTHONPATH=. python examples/minilm/compare.py``.

Texts are pieces of Keras' documentation, as many of each of the model's lengths. The function's own code makes vectors
of them with the library in ``dist/minilm`` (or those that are named), and Keras with the trained network, in float32.
Told are the cosines of each two, and how well texts are ordered by their likeness: the Spearman correlation over all
pairs of texts, and how many of each text's ten nearest are the same.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import numpy.typing as npt

from handler.answer import collect_tensors
from handler.budget import RequestLimits
from handler.errors import make_refusal
from handler.model import Model
from handler.request import Request
from handler.server import Invocation, Server

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "dist" / "minilm" / "layer" / "lib" / "libmodel.so"
LENGTHS = (16, 32, 64, 128, 256)
NEAREST = 10
SEED = 1

Array = npt.NDArray[Any]


def documentation() -> list[str]:
    """The words of all docstrings of Keras, module by module."""
    words: list[str] = []
    for path in sorted(Path(keras.__file__).parent.joinpath("src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                words += (ast.get_docstring(node) or "").split()
    return words


def pieces(model: Model, each: int) -> Iterator[list[str]]:
    """So many texts of each length: more tokens than the next shorter one, special ones with them."""
    words, chance = documentation(), random.Random(SEED)
    for shorter, length in zip((4, *LENGTHS), LENGTHS, strict=False):
        found: list[str] = []
        while len(found) < each:
            start, count = chance.randrange(len(words)), chance.randint(2, length)
            text = " ".join(words[start : start + count])
            encoding = model.texts.encoder.encode(text, length + 1)
            if shorter < len(encoding.ids) <= length:
                found.append(text)
        yield found


def ours(server: Server, texts: list[str]) -> Array:
    """float32 [texts, 384]."""
    call = Invocation("it", False, lambda: 900_000, lambda result: None, lambda error: make_refusal(error, "it"))
    result = server.infer(Request((), {}, texts=tuple(texts)), call)
    (found,) = collect_tensors(result.description, result.batches)
    return np.frombuffer(found.data, np.float32).reshape(found.shape).copy()


def theirs(network: Any, model: Model, texts: list[str]) -> Array:
    """The same by Keras, in texts of about one length at a time."""
    rows = [model.texts.encoder.encode(text, max(LENGTHS)).ids for text in texts]
    longest = max(map(len, rows))
    ids = np.array([row + [0] * (longest - len(row)) for row in rows], np.int32)
    mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in rows], np.int32)
    found: Array = network.predict([ids, mask], batch_size=50, verbose=0)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def ranks(values: Array) -> Array:
    """The place of each in their order."""
    found = np.empty(len(values), np.float64)
    found[values.argsort(kind="stable")] = np.arange(len(values))
    return found


def cosines(one: Array, other: Array) -> Array:
    """float64 [texts], of float32 [texts, 384] each."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    found: Array = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    return found


def told(one: Array, other: Array) -> str:
    """What is printed of the vectors of all texts."""
    near = cosines(one, other)
    likeness = [vectors @ vectors.T for vectors in (one, other)]
    pairs = np.triu_indices(len(one), 1)
    spearman = np.corrcoef(*(ranks(matrix[pairs]) for matrix in likeness))[0, 1]
    for matrix in likeness:
        np.fill_diagonal(matrix, -2)
    nearest = [np.argpartition(-matrix, NEAREST)[:, :NEAREST] for matrix in likeness]
    same = [len(set(a) & set(b)) for a, b in zip(*(found.tolist() for found in nearest), strict=True)]
    return (
        f"{len(one):,} texts: cosine 1 - {1 - near.min():.1e} at least, 1 - {1 - near.mean():.1e} on average\n"
        f"Spearman over {len(pairs[0]):,} pairs {spearman:.5f}; of the {NEAREST} nearest "
        f"{np.mean(same) / NEAREST:.2%} are the same"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", default=[str(LIBRARY)], metavar="LIBRARY")
    parser.add_argument("--each", type=int, default=1_000, help="texts of each length")
    options = parser.parse_args()
    models = {path: Model(path) for path in options.libraries}
    first = next(iter(models.values()))
    network = keras.models.load_model(ROOT / "build" / "minilm" / "model.keras", compile=False)
    texts = list(pieces(first, options.each))
    exact = [theirs(network, first, given) for given in texts]
    for path, model in models.items():
        server = Server({"minilm": model}, RequestLimits())
        found = [ours(server, given) for given in texts]
        print(f"{path}, {Path(path).stat().st_size / 1e6:.2f} MB")
        for length, one, other in zip(LENGTHS, found, exact, strict=True):
            print(f"{length} tokens: least cosine {cosines(one, other).min():.7f}")
        print(told(np.concatenate(found), np.concatenate(exact)), flush=True)


if __name__ == "__main__":
    main()
