"""The server of requests: the bundle's models, opened once, and the limits of a request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from .budget import RequestLimits
from .deadline import Deadline, seconds_left
from .description import Description
from .errors import OutOfTimeError, Refusal, UnknownModelError, library_errors
from .inputs import RunContext, load_kinds
from .named_tuples import NamedTuple
from .request import Reference, Request, count_items, make_feeds, split_request
from .sources import NOWHERE, Sources
from .typed import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Model
    from .text import LocatedText


class Invocation(NamedTuple):
    """One invocation of the function.

    ``remaining_ms``: milliseconds until Lambda ends it. ``observe``: records a result. ``refuse``: logs and counts an
    error, and returns the part that the caller may see. ``report``: logs an answer that nobody waits for.
    ``correlate``: see ``with_correlation_id``.
    """

    request_id: str
    cold_start: bool
    remaining_ms: Callable[[], int]
    observe: Callable[[Result], None]
    refuse: Callable[[Exception], Refusal]
    report: Callable[[str, dict[str, object]], None] = lambda message, fields: None
    correlate: Callable[[str], Invocation] | None = None

    def count_seconds_left(self) -> float:
        """Return the seconds left for the request."""
        return seconds_left(self.remaining_ms())

    def with_correlation_id(self, correlation_id: object) -> Invocation:
        """Return this invocation with log lines that carry the sender's id of the request."""
        return self.correlate(str(correlation_id)[:128]) if self.correlate and correlation_id else self


class Result(NamedTuple):
    """The outputs of a request. ``batches``: the fetches of each run, and the number of its items that were asked for.

    ``left``: the number of items at the end that there was no time for.
    """

    description: Description
    batches: tuple[tuple[list[memoryview], int], ...]
    timings_ms: dict[str, float]  # decode (with crop and resize), infer, total; fetch if images were elsewhere
    left: int = 0
    spans: tuple[tuple[float, float], ...] = ()  # the times of a recording's windows: see ``Request``
    tokens: int = 0  # the number of tokens in texts, special ones included
    sizes: tuple[tuple[int, int], ...] = ()  # of each image as it was sent, upright; empty for tensors
    texts: tuple[LocatedText, ...] = ()  # with the places of their tokens; empty if no output is about them

    @property
    def items(self) -> int:
        """The number of items that were answered."""
        return sum(count for _, count in self.batches)


class Server(NamedTuple):
    """The models by name, the first of which serves requests without a model's name."""

    models: Mapping[str, Model]
    limits: RequestLimits
    sources: Sources = NOWHERE

    def find_model(self, name: str | None) -> Model:
        """Return the model ``name``, or the first if it is None. Raises UnknownModelError."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise UnknownModelError(f'there is no model "{name[:64]}"; choose from {", ".join(sorted(self.models))}')
        return self.models[name]

    def find_description(self, name: str | None) -> Description:
        """Return the description of the model ``name``, or of the first if it is None. Raises UnknownModelError."""
        return self.find_model(name).description

    def describe_request(self, request: Request) -> Description:
        """Return the model of ``request`` in its signature and size. Raises UnknownModelError, WrongFieldError."""
        return self.find_description(request.model).select_signature(request.signature).select_size(request.size)

    def prepare_request(self, request: Request, call: Invocation) -> Request:
        """Return ``request`` with its recording as windows, its texts as token ids, and its strings as rows of numbers.

        Raises HandlerError.
        """
        context = self._make_context(request, call)
        for kind in load_kinds(context.describe_request(request)):
            request = kind.prepare_request(request, context)
        return request

    def _make_context(self, request: Request, call: Invocation) -> RunContext:
        return RunContext(self.find_model(request.model), self.limits, self.sources, call.remaining_ms)

    @library_errors()
    def run_inference(self, request: Request, call: Invocation) -> Result:
        """Run ``request`` batch after batch, decoding each at its turn. Raises HandlerError, InferenceError.

        If time runs out, a request that takes a partial result gets what is done; otherwise OutOfTimeError is raised.
        """
        request = self.prepare_request(request, call)
        began = time.perf_counter()
        context = self._make_context(request, call)
        model, description = context.model, context.describe_request(request)
        _require_memory(request, description, self.limits)
        places: list[int] = []
        kinds = load_kinds(description)
        if lengths := next(filter(None, (kind.measure_lengths(request, context) for kind in kinds)), None):
            from .text.rows import reorder_items, restore_order, sort_by_length

            if places := sort_by_length(lengths, description):
                request = reorder_items(request, places, description)
        seconds: dict[str, float] = dict(request.seconds)
        if any(isinstance(p, Reference) for p in request.images):
            from .remote import fetch_files

            request = fetch_files(request, self.sources, self.limits, call.remaining_ms())
            seconds["fetch"] = time.perf_counter() - began
        seconds |= {"decode": seconds.get("decode", 0.0), "infer": 0.0}
        deadline = Deadline(call.remaining_ms)
        batches: list[tuple[list[memoryview], int]] = []
        sizes: list[tuple[int, int]] = []
        left = count_items(request, description)
        with model.start_sequence():  # state lives for one request, so no caller sees another's
            for part in split_request(request, description):
                if not deadline.allows_another():
                    break
                start = time.perf_counter()
                try:
                    for kind in kinds:
                        part = kind.fill_inputs(part, context)
                except OutOfTimeError:
                    if request.partial and batches:
                        break
                    raise
                middle = time.perf_counter()
                tensors = make_feeds(part.inputs, description.select_size(part.size))
                fetches = model.run(tensors, part.size, request.signature, count_items(request, description) - left)
                sizes += part.image_sizes
                batches.append((fetches, count_items(part, description)))
                left -= batches[-1][1]
                seconds["decode"] += middle - start
                seconds["infer"] += time.perf_counter() - middle
        if left and not (request.partial and batches):
            raise OutOfTimeError("the function ran out of time before the request was done; send fewer items at a time")
        if places:
            batches = [restore_order(batches, places, description)]
        seconds["total"] = time.perf_counter() - began + sum(request.seconds.values())
        timings = {name: round(value * 1000, 3) for name, value in seconds.items()}
        tokens = _count_tokens(request, description)
        result = Result(
            description, tuple(batches), timings, left, request.spans, tokens, tuple(sizes), request.located
        )
        call.observe(result)
        return result


def _count_tokens(request: Request, description: Description) -> int:
    """Count the tokens of texts for a tokenizer."""
    if description.text is None:
        return 0
    port = next(port for port in description.feeds if port.name == description.text.ids)
    return sum(len(row[port.name]) for row in request.rows) // (port.size // port.elements)


def _require_memory(request: Request, description: Description, limits: RequestLimits) -> None:
    """Raise OverBudgetError for more items than there is memory for: all tensors and results are kept to the end."""
    count = count_items(request, description)
    if count > description.batch:
        runs = -(-count // description.batch)
        size = sum(map(len, request.inputs.values())) + sum(len(data) for row in request.rows for data in row.values())
        limits.require_memory(size + 2 * runs * sum(port.size for port in description.fetches))
