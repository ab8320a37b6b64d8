"""Histograms of the differences between a library's answers and TensorFlow's, number by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from builder.importers.graph import FrozenGraph
from builder.package.bundle import Bundle
from builder.verify.golden import GoldenFile
from builder.verify.library.opened_model import OpenedModel

PER_DECADE = 2
"""Number of bars in the histogram between two powers of ten."""

_LEAST, _MOST = -10, 4  # Powers of ten; larger values are counted in the last bar.


def make_histograms(bundle: Bundle, graph: FrozenGraph) -> list[dict[str, Any]]:
    """Return the absolute errors over all golden inputs, for each fetch of floats.

    ``exact``: the count of numbers equal to TensorFlow's; ``bars``: [from, to, count], from the first bar with a number
    to the last; ``cases``: the worst error of each golden input. Raises VerifyError where this machine cannot run the
    library.
    """
    fetches = [port.spec for port in graph.fetches]
    errors: dict[str, dict[str, Any]] = {fetch.name: {} for fetch in fetches if fetch.dtype.startswith("float")}
    with (
        GoldenFile.open(graph.golden_path) as golden,
        OpenedModel(bundle.library, 0, bundle.weights_elsewhere) as model,
    ):
        for case in golden.cases:
            feeds = [golden.read_feed(case, port.spec.name) for port in graph.feeds]
            call = model.bind_call(feeds, [fetch.size for fetch in fetches])
            call()
            for fetch, answer in zip(fetches, call.fetches, strict=True):
                if fetch.name in errors:
                    theirs = golden.read_fetch(case, fetch.name).astype(np.float64).ravel()
                    ours = answer.view(fetch.dtype)[: theirs.size].astype(np.float64)
                    difference = np.where(ours == theirs, 0.0, np.abs(ours - theirs))
                    errors[fetch.name][case] = difference[np.isfinite(difference)]
    return [_make_histogram(name, cases) for name, cases in errors.items()]


def _make_histogram(name: str, cases: dict[str, Any]) -> dict[str, Any]:
    every = np.concatenate(list(cases.values()))
    beyond = every[every > 0]
    bins = np.clip(np.floor(np.log10(beyond) * PER_DECADE), _LEAST * PER_DECADE, _MOST * PER_DECADE).astype(int)
    first, last = (int(bins.min()), int(bins.max())) if bins.size else (0, -1)
    counts = np.bincount(bins - first, minlength=last - first + 1)
    edges = [10 ** (step / PER_DECADE) for step in range(first, last + 2)]
    return {
        "fetch": name,
        "numbers": int(every.size),
        "exact": int(every.size - beyond.size),
        "worst": float(every.max(initial=0.0)),
        "bars": [[low, high, int(n)] for low, high, n in zip(edges, edges[1:], counts, strict=False)],
        "cases": [{"case": case, "worst": float(case_errors.max(initial=0.0))} for case, case_errors in cases.items()],
    }
