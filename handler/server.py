"""What answers requests: the bundle's models, opened once, and what one request may ask of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from .budget import Limits
from .deadline import Deadline, seconds_left
from .description import Description, Port
from .errors import OutOfTimeError, Refusal, UnknownModelError, library_errors
from .request import File, Reference, Request, decoded, feeds, items, parts
from .sources import NOWHERE, Sources
from .tuples import NamedTuple
from .typed import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Model
    from .text import Located


class Call(NamedTuple):
    """One invocation of the function.

    ``remaining_ms``: milliseconds until Lambda ends it. ``observe``: counts what was done. ``refuse``: logs and
    counts an error, and gives what the caller may know of it. ``report``: logs an answer that nobody waits for.
    ``correlate``: see ``correlated``.
    """

    request_id: str
    cold_start: bool
    remaining_ms: Callable[[], int]
    observe: Callable[[Result], None]
    refuse: Callable[[Exception], Refusal]
    report: Callable[[str, dict[str, object]], None] = lambda message, fields: None
    correlate: Callable[[str], Call] | None = None

    def correlated(self, correlation_id: object) -> Call:
        """This call with log lines that carry the id by which the sender's side knows the request."""
        return self.correlate(str(correlation_id)[:128]) if self.correlate and correlation_id else self


class Result(NamedTuple):
    """``batches``: the fetches of each run, and how many items of its batch were asked for.

    ``left``: how many items at the end there was no time for.
    """

    description: Description
    batches: tuple[tuple[list[memoryview], int], ...]
    timings_ms: dict[str, float]  # decode (with crop and resize), infer, total; fetch where pictures were elsewhere
    left: int = 0
    spans: tuple[tuple[float, float], ...] = ()  # of a recording's windows: see ``Request``
    tokens: int = 0  # of texts, with special ones
    sizes: tuple[tuple[int, int], ...] = ()  # of each picture as it was sent, upright; none where tensors were
    texts: tuple[Located, ...] = ()  # with the places of their tokens; none where no output is of them

    @property
    def items(self) -> int:
        return sum(count for _, count in self.batches)


class Server(NamedTuple):
    """The models by name, the first of which is meant where a request names none."""

    models: Mapping[str, Model]
    limits: Limits
    sources: Sources = NOWHERE

    def model(self, name: str | None) -> Model:
        """The model ``name``; the first where it is None. Raises UnknownModelError."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise UnknownModelError(f'there is no model "{name[:64]}"; choose from {", ".join(sorted(self.models))}')
        return self.models[name]

    def description(self, name: str | None) -> Description:
        """The description of the model ``name``; of the first where it is None. Raises UnknownModelError."""
        return self.model(name).description

    def described(self, request: Request) -> Description:
        """The model that ``request`` is of, in its signature and size. Raises UnknownModelError, WrongFieldError."""
        return self.description(request.model).of_signature(request.signature).of_size(request.size)

    def make_clock(self, call: Call) -> Callable[[], float]:
        """Return a function that tells how many seconds are left for the request."""
        return lambda: seconds_left(call.remaining_ms())

    def prepared(self, request: Request, call: Call) -> Request:
        """``request`` with its recording, if it has one, as windows among its inputs, with the ids of its texts, or
        with numbers in the place of its strings.

        Raises HandlerError.
        """
        if request.texts and not request.ids:
            return self._encoded(request, call)
        if request.strings:
            return self._numbered(request, call)
        return request if request.recording is None else self._windowed(request, call)

    def _encoded(self, request: Request, call: Call) -> Request:
        from .text import size_for

        began = time.perf_counter()
        description = self.described(request)
        texts = self.model(request.model).texts
        asked = request.texts, self.limits, lambda: seconds_left(call.remaining_ms())
        tagged = any(output.kind == "tokens" for output in description.outputs)
        ids, located = texts.located(*asked) if tagged else (texts.encoded(*asked), ())
        # Each run has the shortest size for its texts, unless answers of different sizes could not stand together.
        size = request.size if description.alike else size_for(ids, description)
        seconds = {"decode": time.perf_counter() - began}
        return request._replace(ids=ids, located=located, size=size, seconds=seconds)

    def _numbered(self, request: Request, call: Call) -> Request:
        """``request`` with rows of numbers in the place of its strings."""
        began = time.perf_counter()
        description = self.described(request)
        words = self.model(request.model).words[description.signature]
        sizes = _sizes(description) if words.pads else [_ports(description)]
        count = max(map(len, request.strings.values()))
        self.limits.require_memory(count * sum(port.size // port.shape[0] for port in sizes[-1].values()))
        limits, left = self.limits, lambda: seconds_left(call.remaining_ms())
        rows = words.rows(request.strings, sizes[-1], limits, left)
        located: tuple[Located, ...] = ()
        if (tokens := words.tokens) is not None:
            most = sizes[-1][tokens.feed].shape[1]
            located = tokens.located(request.strings[tokens.source], most, limits, left)
        # Each run has the shortest size for its texts, unless answers of different sizes could not stand together.
        size = request.size if description.alike else request.size + words.size_for(rows, sizes)
        seconds = {"decode": time.perf_counter() - began}
        return request._replace(strings={}, rows=rows, located=located, size=size, seconds=seconds)

    def _windowed(self, request: Request, call: Call) -> Request:
        from .audio import windows

        began = time.perf_counter()
        model, description = self.model(request.model), self.described(request)
        seconds: dict[str, float] = {}
        if isinstance(request.recording, Reference):
            from .remote import fetched

            request = fetched(request, self.sources, self.limits, call.remaining_ms())
            seconds["fetch"] = time.perf_counter() - began
        assert description.audio is not None
        assert isinstance(request.recording, File)
        start, file = time.perf_counter(), request.recording
        left = seconds_left(call.remaining_ms())
        samples, spans = windows(file.data, file.where, description.audio, self.limits, model.decoders, left)
        inputs = request.inputs | {description.audio.feed: samples}
        seconds["decode"] = time.perf_counter() - start
        return request._replace(recording=None, inputs=inputs, spans=spans, seconds=seconds)

    @library_errors()
    def infer(self, request: Request, call: Call) -> Result:
        """``request``, batch after batch, each decoded when its turn comes. Raises HandlerError, InferenceError.

        Where time runs out, what is done is the result if the request takes a partial one, and OutOfTimeError if not.
        """
        request = self.prepared(request, call)
        began = time.perf_counter()
        model = self.model(request.model)
        description = self.described(request)
        _require_memory(request, description, self.limits)
        places: list[int] = []
        if request.ids or request.rows:
            from .text.order import by_length, in_order, restored

            if places := by_length(_lengths(request, description, model), description):
                request = in_order(request, places, description)
        seconds: dict[str, float] = dict(request.seconds)
        if any(isinstance(p, Reference) for p in request.pictures):
            from .remote import fetched

            request = fetched(request, self.sources, self.limits, call.remaining_ms())
            seconds["fetch"] = time.perf_counter() - began
        seconds |= {"decode": seconds.get("decode", 0.0), "infer": 0.0}
        deadline = Deadline(call.remaining_ms)
        batches: list[tuple[list[memoryview], int]] = []
        sizes: list[tuple[int, int]] = []
        left = items(request, description)
        with model.sequence():  # state lives for the items of one request: no caller sees another's
            for part in parts(request, description):
                if not deadline.allows_another():
                    break
                start = time.perf_counter()
                try:
                    pictures = decoded(part, description, self.limits, call.remaining_ms)
                except OutOfTimeError:
                    if request.partial and batches:
                        break
                    raise
                if part.ids:
                    part = _with_text(part, description, model)
                elif part.rows:
                    part = _with_rows(part, description, model)
                middle = time.perf_counter()
                taken = feeds(pictures, part.inputs, description.of_size(part.size))
                fetches = model.run(taken, part.size, request.signature, items(request, description) - left)
                sizes += [picture.size for picture in pictures]
                batches.append((fetches, items(part, description)))
                left -= batches[-1][1]
                seconds["decode"] += middle - start
                seconds["infer"] += time.perf_counter() - middle
        if left and not (request.partial and batches):
            raise OutOfTimeError("the function ran out of time before the request was done; send fewer items at a time")
        if places:
            batches = [restored(batches, places, description)]
        seconds["total"] = time.perf_counter() - began + sum(request.seconds.values())
        timings = {name: round(value * 1000, 3) for name, value in seconds.items()}
        tokens = sum(map(len, request.ids))
        result = Result(
            description, tuple(batches), timings, left, request.spans, tokens, tuple(sizes), request.located
        )
        call.observe(result)
        return result


def _with_text(part: Request, description: Description, model: Model) -> Request:
    """``part`` with its ids among the inputs, of the size that they need."""
    from .text import size_for, tensors

    size = size_for(part.ids, description) if description.alike else part.size
    found = tensors(part.ids, model.texts.pad, description.of_size(size))
    return part._replace(inputs=part.inputs | found, size=size)


def _with_rows(part: Request, description: Description, model: Model) -> Request:
    """``part`` with its rows among the inputs, of the size that they need."""
    words, size = model.words[description.signature], part.size
    if words.pads and description.alike:
        size = words.size_for(part.rows, _sizes(description))
    found = words.filled(part.rows, _ports(description.of_size(size)))
    return part._replace(inputs=part.inputs | found, size=size)


def _lengths(request: Request, description: Description, model: Model) -> list[int]:
    """What tells which of the texts are shorter: how many tokens each has, or which size it needs."""
    if request.ids:
        return list(map(len, request.ids))
    words, sizes = model.words[description.signature], _sizes(description)
    return [words.size_for([row], sizes) for row in request.rows] if words.pads else []


def _sizes(description: Description) -> list[dict[str, Port]]:
    """The model's feeds in each of its sizes."""
    return [_ports(sized) for sized in description.in_sizes]


def _ports(description: Description) -> dict[str, Port]:
    return {port.name: port for port in description.feeds}


def _require_memory(request: Request, description: Description, limits: Limits) -> None:
    """Raises OverBudgetError for more items than there is memory for: tensors are there until the last is answered, and
    what the runs give, before and after it is put together.
    """
    count = items(request, description)
    if count > description.batch:
        runs = -(-count // description.batch)
        given = sum(map(len, request.inputs.values())) + sum(len(data) for row in request.rows for data in row.values())
        limits.require_memory(given + 2 * runs * sum(port.size for port in description.fetches))
