"""How far a library's answers are from TensorFlow's, number by number: counted for a histogram."""

from __future__ import annotations

from typing import Any

import numpy as np

from builder.importers.graph import FrozenGraph
from builder.package.bundle import Bundle
from builder.verify.golden import GoldenFile
from builder.verify.library.opened_model import OpenedModel

PER_DECADE = 2
"""Bars of the histogram between two powers of ten."""

_LEAST, _MOST = -10, 4  # powers of ten; what is beyond is counted in the last bar


def make_histograms(bundle: Bundle, graph: FrozenGraph) -> list[dict[str, Any]]:
    """For each fetch of floats: absolute errors over all golden inputs.

    ``exact``: how many numbers are TensorFlow's own; ``bars``: [from, to, count], from the first bar with a number to
    the last; ``cases``: the worst error of each golden input. Raises VerifyError where this machine cannot run the
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
    places = np.clip(np.floor(np.log10(beyond) * PER_DECADE), _LEAST * PER_DECADE, _MOST * PER_DECADE).astype(int)
    first, last = (int(places.min()), int(places.max())) if places.size else (0, -1)
    counts = np.bincount(places - first, minlength=last - first + 1)
    edges = [10 ** (place / PER_DECADE) for place in range(first, last + 2)]
    return {
        "fetch": name,
        "numbers": int(every.size),
        "exact": int(every.size - beyond.size),
        "worst": float(every.max(initial=0.0)),
        "bars": [[low, high, int(n)] for low, high, n in zip(edges, edges[1:], counts, strict=False)],
        "cases": [{"case": case, "worst": float(found.max(initial=0.0))} for case, found in cases.items()],
    }
