"""Random weights for networks that are not trained, which make every part of an engine matter for the answer.

With Keras' initial weights, BatchNorm folds to one scalar, biases vanish and some networks give the same answer to any
input, so that an engine that skipped half the work would pass.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

LOGIT_SPREAD = 2.0  # standard deviation of the logits: a saturated softmax would hide every mistake before it


def stir(network: keras.Model, inputs: Any, seed: int) -> None:
    """Set seeded kernels, biases, scales, shifts, BatchNorm statistics of ``inputs``, and the spread of the logits."""
    rng = np.random.default_rng(seed)
    for variable in network.weights:
        kind, shape = variable.path.rsplit("/", 1)[-1], variable.shape
        if kind == "gamma":
            variable.assign(rng.uniform(0.6, 1.4, shape))
        elif kind in ("beta", "bias"):
            variable.assign(rng.normal(0, 0.2, shape))
        elif "kernel" in kind:
            variable.assign(rng.standard_normal(shape, np.float32) * _spread(variable.path, shape))
    norms = [layer for layer in network._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]
    if norms:
        for layer in norms:
            layer.momentum = 0.0  # one pass in training mode leaves exactly this batch's statistics
        network(inputs, training=True)
    answers = network(inputs, training=False)
    # The logarithm of a softmax gives the logits up to a shift.
    if np.allclose(np.sum(answers, axis=-1), 1.0, atol=1e-3):
        last = [layer for layer in network._flatten_layers() if hasattr(layer, "kernel")][-1]
        factor = LOGIT_SPREAD / float(np.std(np.log(answers)))
        last.kernel.assign(last.kernel * factor)
        last.bias.assign(last.bias * factor)


def _spread(path: str, shape: tuple[int, ...]) -> Any:
    """Return the kernel's deviation that keeps a layer's output about as large as its input."""
    depthwise = "depthwise" in path and len(shape) == 4
    fan_in = int(np.prod(shape[:2] if depthwise else shape[:-1])) or 1
    return np.float32((1.7 / fan_in) ** 0.5)
