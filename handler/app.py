"""The function's entry point, ``handler.app.lambda_handler``, which opens the model once and keeps it warm.

event (``events/``) → request → inference (``server``) → answer; over HTTP a protocol (``protocols/``) is between.

An error is returned, not raised: an exception reaches the caller with its stack and paths. The metric ``Error`` counts
errors. Only where nobody reads the answer, as with S3's events, is an opaque RetryLater raised, so that Lambda delivers
the event again. If the model cannot be opened, the log has one line that says what to do, and the process ends, without
telling callers why.
"""

from __future__ import annotations

import gc

gc.disable()  # during the imports, whose objects stay: collecting again and again would take 2 ms

# ruff: noqa: E402
import itertools
import os
import sys
import time

from .budget import RequestLimits
from .errors import RetryLater, StartupError
from .events import answer_event
from .inputs import load_kinds
from .model import open_models
from .processes import count_processes
from .server import Server
from .sources import Sources
from .telemetry import Telemetry, logger
from .typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

_START = os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE")
_WARM = _START in ("provisioned-concurrency", "lambda-managed-instances")  # no request waits for a start
_SNAPSHOT = _START == "snap-start"
_AHEAD = _WARM or _SNAPSHOT  # the start comes ahead of any request, so nobody waits

try:
    _began = time.perf_counter()
    models = open_models()
    # A snapshot was made long before, so its load time does not count.
    _load_ms = None if _SNAPSHOT else (time.perf_counter() - _began) * 1000
    for description in (models.first.description, *models.first.description.others):
        load_kinds(description)  # imports what requests of these kinds need
    # Lambda's processor is faster while the function starts. PNG's plugin takes 2 ms more, which a caller with another
    # kind of image would wait for, too.
    if models.first.description.image:
        from .image import load_decoders

        load_decoders(*(["Png"] if _AHEAD else []))
    memory = int(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE") or 10_240)
    limits = RequestLimits.for_memory(memory // count_processes(), os.environ.get("COLDFORGE_FORMATS", ""))
    sources = Sources.from_environment(os.environ)
    # A snapshot (SnapStart) holds the memory's content: a run of each model loads every page of the weights, so that a
    # restored instance waits for none.
    if _SNAPSHOT:
        from .snapstart import register_hooks

        for model in models.values():
            model.warm_up()
        register_hooks()
except StartupError as error:
    logger.critical(str(error))
    sys.exit(1)
except Exception:
    logger.critical("the model cannot be opened", exc_info=True)
    sys.exit(1)

gc.freeze()  # the objects that exist now are never collected
gc.enable()

server = Server(models, limits, sources)
_invocations = itertools.count()  # is safe in threads, too


def lambda_handler(event: object, context: LambdaContext) -> Any:
    """Answer one event without affecting the next. Raises RetryLater for an event that nobody waits for."""
    first = next(_invocations) == 0
    telemetry = Telemetry(context, models.first.description, cold_start=first and not _WARM)
    if first:
        telemetry.record_start(_load_ms)
    try:
        return answer_event(event, server, telemetry.make_invocation())
    except RetryLater as error:
        raise error.with_traceback(None) from None
    finally:
        telemetry.write_metrics()
