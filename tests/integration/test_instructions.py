"""No run takes more instructions than it did: times are too noisy to say so where tests run."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from builder.compiler.lower import LoweringPath
from builder.package.bundle import Bundle
from tests.support import instructions
from tests.support.build import build_library, freeze_function, spec_of

pytestmark = pytest.mark.integration

SHAPES = {"dense": (1, 512), "convolution": (1, 28, 28, 32), "depthwise": (1, 28, 28, 64)}
NETWORKS = ("unet", "detector", "tcn", "gru", "wide_deep")
"""Those of ``make bench-wide`` with other kinds of layers than a chain of convolutions; images of 64 x 64."""


def count_of(bundle: Bundle, folder: Path) -> int:
    described = json.loads(bundle.description.read_text(encoding="utf-8"))
    (feed,), (fetch,) = described["feeds"], described["fetches"]
    return instructions.count(bundle.library, feed, fetch["bytes"], folder)


def test_emotion(emotion: Bundle, tmp_path: Path) -> None:
    instructions.hold("emotion", count_of(emotion, tmp_path))


def test_digits(digits: Bundle, tmp_path: Path) -> None:
    instructions.hold("digits", count_of(digits, tmp_path))


def layer(kind: str) -> Any:
    """One layer of Keras, with what is usually behind it."""
    from keras import layers as kl

    return {
        "dense": lambda: kl.Dense(256, activation="relu"),
        "convolution": lambda: kl.Conv2D(48, 3, padding="same", activation="relu"),
        "depthwise": lambda: kl.DepthwiseConv2D(3, padding="same", activation="relu"),
    }[kind]()


def layer_count(kind: str, folder: Path, path: LoweringPath = "optimised") -> int:
    import keras

    keras.utils.set_random_seed(1)
    made, shape = layer(kind), SHAPES[kind]
    made.build(shape)
    return model_count(made, shape, folder, path)


def network_count(name: str, folder: Path) -> int:
    import keras

    from benchmarks.untuned import UNTUNED

    keras.utils.set_random_seed(1)
    build = UNTUNED[name].build
    made = build(side=64) if "side" in inspect.signature(build).parameters else build()
    return model_count(made, (1, *made.input_shape[1:]), folder)


def model_count(made: Any, shape: tuple[int, ...], folder: Path, path: LoweringPath = "optimised") -> int:
    import tensorflow as tf

    concrete = tf.function(made, autograph=False).get_concrete_function(tf.TensorSpec(shape, tf.float32, name="x"))
    graph = freeze_function(concrete, ["x"], folder)
    library = build_library(graph, spec_of(folder.name), folder, path)
    (fetch,) = graph.fetches
    port = {"dtype": "float32", "shape": shape}
    return instructions.count(library.path, port, 4 * fetch.spec.elements, folder)


@pytest.mark.parametrize("kind", SHAPES)
def test_a_layer(kind: str, tmp_path: Path) -> None:
    instructions.hold(kind, layer_count(kind, tmp_path))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network(name: str, tmp_path: Path) -> None:
    instructions.hold(name, network_count(name, tmp_path))


def test_a_worse_kernel_is_noticed(tmp_path: Path) -> None:
    """XLA's own convolution in place of ours."""
    found = layer_count("convolution", tmp_path, "faithful")
    assert "are allowed" in str(instructions.verdict("convolution", found, instructions.load()))


KNOWN = {"allowed": 0.02, "counts": {"net": 1_000}}


@pytest.mark.parametrize(("found", "said"), [
    (1_020, None), (980, None), (1_021, r"1,021 .* 1,000: \+2.1%\. 2% are allowed"), (979, "not lost again"),
])  # fmt: skip
def test_both_sides_of_the_limit(found: int, said: str | None) -> None:
    problem = instructions.verdict("net", found, KNOWN)
    assert (problem is None) if said is None else re.search(said, problem or "")
    assert "no count" in str(instructions.verdict("other", 1, KNOWN))


def test_only_the_librarys_own_instructions_count() -> None:
    """What callgrind writes: a cost for each line of a function, and after ``calls=`` what the callee took."""
    ours = "ob=/a/lib.so\nfn=one\n0 40\ncfn=memset\ncob=/libc.so\ncalls=2 0\n0 900\n+1 2\n"
    assert instructions.within(Path("/a/lib.so"), f"{ours}\nob=/libc.so\nfn=memset\n0 900\n") == 42
