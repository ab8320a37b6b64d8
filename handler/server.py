"""What answers requests: the bundle's models, opened once, and what one request may ask of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .description import Description
from .errors import Refusal, UnknownModelError
from .image import Limits
from .model import Model
from .request import Reference, Request, decoded, runs
from .sources import NOWHERE, Sources


@dataclass(frozen=True)
class Call:
    """One invocation of the function.

    ``remaining_ms``: milliseconds until Lambda ends it. ``observe``: counts what was done. ``refuse``: logs and
    counts an error, and gives what the caller may know of it.
    """

    request_id: str
    cold_start: bool
    remaining_ms: Callable[[], int]
    observe: Callable[[Result], None]
    refuse: Callable[[Exception], Refusal]


@dataclass(frozen=True)
class Result:
    """``batches``: the fetches of each run, and how many items of its batch were asked for."""

    description: Description
    batches: tuple[tuple[list[memoryview], int], ...]
    timings_ms: dict[str, float]  # decode (with crop and resize), infer, total; fetch where pictures were elsewhere

    @property
    def items(self) -> int:
        return sum(count for _, count in self.batches)


@dataclass(frozen=True)
class Server:
    """The models by name, the first of which is meant where a request names none."""

    models: Mapping[str, Model]
    limits: Limits
    sources: Sources = NOWHERE

    def model(self, name: str | None) -> Model:
        """Raises UnknownModelError."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise UnknownModelError(f'there is no model "{name[:64]}"; there is {", ".join(sorted(self.models))}')
        return self.models[name]

    def description(self, name: str | None) -> Description:
        """Raises UnknownModelError."""
        return self.model(name).description

    def infer(self, request: Request, call: Call) -> Result:
        """All of ``request``, batch after batch. Raises HandlerError, InferenceError."""
        began = time.perf_counter()
        model = self.model(request.model)
        description = model.description
        seconds: dict[str, float] = {}
        if any(isinstance(p, Reference) for p in request.pictures):
            from .remote import fetched

            request = fetched(request, self.sources, self.limits, call.remaining_ms())
            seconds["fetch"] = time.perf_counter() - began
        arrived = time.perf_counter()
        pictures = decoded(request, description, self.limits)
        start = time.perf_counter()
        batches = tuple((model.run(feeds), count) for feeds, count in runs(pictures, request.inputs, description))
        end = time.perf_counter()
        seconds |= {"decode": start - arrived, "infer": end - start, "total": end - began}
        timings = {name: round(value * 1000, 3) for name, value in seconds.items()}
        result = Result(description, batches, timings)
        call.observe(result)
        return result
