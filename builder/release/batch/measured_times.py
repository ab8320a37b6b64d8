"""Times of a bundle on this machine, from which a run is planned where a person gives none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from builder.config.tensor import TensorSpec
from builder.importers.samples.golden_inputs import make_random_values
from builder.measure.bench import Spread, benchmark_bundle, time_calls
from builder.measure.local import run_event
from builder.package.bundle import Bundle
from builder.release.batch.batch_plan import BatchTimes
from builder.verify.library.loaded_library import OpenedModel


def measure_bundle(bundle: Bundle, seconds: float = 1.0) -> BatchTimes:
    """Run ``bundle`` here for about ``seconds`` in each of its batches, and in Lambda's emulator.

    Raises VerifyError where this machine cannot run the library, EnvironmentSetupError for the function.
    """
    manifest = json.loads(bundle.manifest.read_text(encoding="utf-8"))
    benchmark = benchmark_bundle(bundle, seconds=seconds, starts=1)
    assert benchmark.function is not None  # The benchmark measured one start, so there is a cold start.
    size = manifest["batch"]
    around = max(0.0, benchmark.function.handler - benchmark.library.p50) / size  # each item of a run is decoded
    times = {size: benchmark.function.handler}
    for batch in manifest.get("batches", [size]):
        if batch != size:
            times[batch] = around * batch + _time_library(bundle, manifest, batch / size, seconds)
    return BatchTimes(times, benchmark.function.start.total, _count_characters(bundle))


def _count_characters(bundle: Bundle) -> float:
    """Return the number of characters of the answer to an item."""
    with run_event.prepare_emulator(bundle.layer) as running:
        answer = running.invoke(run_event.default_event(bundle.folder))
    run_event.require_answer(answer)
    return len(json.dumps(answer["predictions"])) / len(answer["predictions"])


def _time_library(bundle: Bundle, manifest: Mapping[str, Any], times: float, seconds: float) -> float:
    """Time the library on ``times`` as many items as its first batch has; return the median."""
    with OpenedModel(bundle.library, 1, bundle.weights_elsewhere) as model:
        ports = [TensorSpec.from_dict(feed) for feed in manifest["feeds"]]
        larger = [replace(port, shape=(round(port.shape[0] * times), *port.shape[1:])) for port in ports]
        fetches = [round(fetch["bytes"] * times) for fetch in manifest["fetches"]]
        call = model.bind_call([make_random_values(port, 0) for port in larger], fetches)
        return Spread.from_times(time_calls(call, seconds)).p50
