"""The errors of a request, and those that stop the function from starting.

The subclasses of HandlerError are the catalogue: docs/errors.md is made of it, docstrings included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .named_tuples import NamedTuple


class Refusal(NamedTuple):
    """An error as a caller sees it: ``status`` is HTTP's, ``code`` is for programs, ``message`` for people."""

    status: int
    code: str
    message: str
    retryable: bool = False  # the same request may succeed later


def make_refusal(error: Exception, request_id: str) -> Refusal:
    """Return ``error`` as a caller may see it; an internal error only names the request to look up in the log."""
    if isinstance(error, HandlerError):
        return Refusal(error.status, error.code, error.message, error.retryable)
    return Refusal(500, "internal", f"the function failed; its log has more under request {request_id}", True)


class HandlerError(Exception):
    """A request that cannot be answered; ``code`` is for programs, ``message`` for people.

    The message may repeat field names of the request, shortened, never its data.
    """

    code = "bad_request"
    status = 400  # of the answer over HTTP
    retryable = False

    def __init_subclass__(cls, code: str, status: int = 400, retryable: bool = False) -> None:
        cls.code, cls.status, cls.retryable = code, status, retryable

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WrongFieldError(HandlerError, code="wrong_field"):
    """A field is missing or unknown, or excludes another field of the request."""


class MalformedEventError(HandlerError, code="malformed_event"):
    """An AWS event lacks a field that such events always have, or its body is not valid base64."""


@contextmanager
def event_from(sender: str) -> Iterator[None]:
    """Return a context that parses an event of ``sender``: a missing or mistyped field raises MalformedEventError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError):
        raise MalformedEventError(f"the event does not have the form that {sender} sends") from None


class WrongTypeError(HandlerError, code="wrong_type"):
    """A field holds the wrong kind of value."""


class NotJsonError(HandlerError, code="not_json"):
    """The body is not JSON."""


class WrongShapeError(HandlerError, code="wrong_shape", status=422):
    """A tensor does not have the model's shape."""


class NotBase64Error(HandlerError, code="not_base64"):
    """The text of a file is not base64."""


class NotAnImageError(HandlerError, code="not_an_image", status=415):
    """The bytes are not in an image format that the function accepts."""


class DamagedImageError(HandlerError, code="damaged_image", status=422):
    """The image cannot be decoded."""


class UnsupportedImageError(HandlerError, code="unsupported_image", status=422):
    """The image is of an unsupported kind, such as a BMP with run-length encoding or a lossless JPEG."""


class TruncatedImageError(HandlerError, code="truncated_image", status=422):
    """The image ends too early."""


class TooLargeError(HandlerError, code="too_large", status=413):
    """The file or request has more encoded bytes than allowed."""


class TooManyPixelsError(HandlerError, code="too_many_pixels", status=413):
    """The image has more pixels than allowed, whatever the size of the file."""


class OverBudgetError(HandlerError, code="over_budget", status=413):
    """Answering would take more memory or work than the function gives to one request, whatever the size of the file.

    Send smaller files or fewer items, or give the function more memory.
    """


class NotAudioError(HandlerError, code="not_audio", status=415):
    """The bytes are neither WAV, FLAC nor MP3."""


class DamagedAudioError(HandlerError, code="damaged_audio", status=422):
    """The recording cannot be decoded, or has no samples."""


class UnsupportedAudioError(HandlerError, code="unsupported_audio", status=422):
    """The recording is of an unsupported kind: a WAV with A-law, over 8 channels, a rate not of 1,000 to 384,000 Hz."""


class TruncatedAudioError(HandlerError, code="truncated_audio", status=422):
    """The recording ends too early, or a part of it is damaged."""


class RecordingTooLongError(HandlerError, code="recording_too_long", status=413):
    """The recording lasts longer than allowed, or has more windows than one request may have items."""


class NotTextError(HandlerError, code="not_text", status=422):
    """The text is not UTF-8, or has half of a surrogate pair."""


class TextTooLongError(HandlerError, code="text_too_long", status=422):
    """The text has more tokens or words than the model takes, and is not to be cut off (`truncate` in `model.toml`)."""


class UnknownPromptError(HandlerError, code="unknown_prompt", status=422):
    """The model has no prompt of this name (`prompts` in `model.toml`)."""


class UnfitTextError(HandlerError, code="unfit_text", status=422):
    """The model cannot take the text, such as a word where it takes a number, or characters without a token."""


class UnfitInputError(HandlerError, code="unfit_input", status=422):
    """The model cannot take a number, such as an id that its table has no row for.

    Or the number is NaN or an infinity, and `model.toml` has no `nan = true` for the input.
    """


class WrongExampleError(HandlerError, code="wrong_example", status=422):
    """The bytes are no tf.Example, or a feature of it is missing, damaged, of another type or of another length."""


class TooManyImagesError(HandlerError, code="too_many_images", status=413):
    """The request has more images, texts or other items than allowed."""


class AnswerTooLargeError(HandlerError, code="answer_too_large", status=413):
    """The answer has more bytes than Lambda passes on (6 MB; 1 MB behind a load balancer).

    Ask for fewer items at a time, or for binary tensors.
    """


class ResultTooLargeError(HandlerError, code="result_too_large", status=422):
    """The model found more than it was built for: `max_size` under `[[fetches]]` in `model.toml`."""


class SourceNotAllowedError(HandlerError, code="source_not_allowed", status=403):
    """The request names a file that this function is not permitted to fetch."""


class SourceUnavailableError(HandlerError, code="source_unavailable", status=422):
    """The request names a file that the function cannot fetch, or not in time."""


class UnknownModelError(HandlerError, code="unknown_model", status=404):
    """The bundle has no model of this name."""


class NotFoundError(HandlerError, code="not_found", status=404):
    """Nothing is served at this path. The message lists what is."""

    def __init__(self, path: str, models: Iterable[str]) -> None:
        super().__init__(
            f"nothing is served at {path[:100]}; there are POST /predict, GET /health, /docs and /openapi.json, and "
            f"/v1/models/<name> and /v2/models/<name> of {', '.join(sorted(models))[:300]}"
        )


class NotDescribedError(HandlerError, code="not_described", status=404):
    """The bundle holds no description of what is served, as it was built before coldforge wrote one."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the bundle was built without {path}; build and deploy it again")


class ObjectNotFoundError(HandlerError, code="object_not_found", status=404):
    """The S3 object does not exist, or the function's role may not read it."""


class ObjectChangedError(HandlerError, code="object_changed", status=409):
    """The S3 object has other bytes now than when the list was made that names it with its ETag."""


class KeyTooLongError(HandlerError, code="key_too_long"):
    """The result's key in S3 would have more than 1,024 bytes: the object's own key is too long."""


class StorageUnavailableError(HandlerError, code="storage_unavailable", status=503, retryable=True):
    """S3 did not deliver or store an object in time, or asked to slow down."""


class OutOfTimeError(HandlerError, code="out_of_time", status=503, retryable=True):
    """Lambda's time limit was too near to begin this item. Send fewer items at a time, or raise Timeout."""


class LibraryError(Exception):
    """A library raised an error that is no Exception. It is not the caller's fault and is answered as ``internal``."""


@contextmanager
def library_errors() -> Iterator[None]:
    """Return a context or decorator that turns a library's BaseException, such as Rust's panic, into LibraryError.

    Otherwise it would pass every ``except Exception`` and end the process. Python's own exceptions of that kind pass.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise LibraryError(f"{type(error).__name__} from a library") from error


class RetryLater(Exception):
    """Raised from the function where nobody reads its answer, so that Lambda delivers the event again."""


class MethodNotAllowedError(HandlerError, code="method_not_allowed", status=405):
    """The path does not take this method. The header ``Allow`` lists those that it takes."""

    def __init__(self, method: str, path: str, allow: str) -> None:
        super().__init__(f"{path[:100]} takes {allow}, not {method[:8]}")
        self.allow = allow


class WrongMediaTypeError(HandlerError, code="wrong_media_type", status=415):
    """The path does not take a body of this type."""


class StartupError(Exception):
    """The model cannot be opened; the message is one line that says what to do about it."""


class InferenceError(Exception):
    """The compiled model reported a failure. It is not the caller's fault and is answered as ``internal``."""
