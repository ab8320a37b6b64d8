"""What can be wrong with a request, and what can stop the function from starting.

The subclasses of HandlerError are the catalogue: docs/errors.md is made of it, docstrings included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .tuples import NamedTuple


class Refusal(NamedTuple):
    """What a caller is told of an error: ``status`` is HTTP's, ``code`` is for programs, ``message`` for people."""

    status: int
    code: str
    message: str
    retryable: bool = False  # the same request may succeed later


def refusal(error: Exception, request_id: str) -> Refusal:
    """An error that is not the caller's is only named by the request that its log lines stand under."""
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

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WrongFieldError(HandlerError):
    """A field is missing or unknown, or excludes another field of the request."""

    code = "wrong_field"


class MalformedEventError(HandlerError):
    """An AWS event lacks a field that such events always have, or its body is not valid base64."""

    code = "malformed_event"


@contextmanager
def event_from(sender: str) -> Iterator[None]:
    """A context in which an event of ``sender`` is taken apart: what it lacks or has another type for raises
    MalformedEventError.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError):
        raise MalformedEventError(f"the event does not have the form that {sender} sends") from None


class WrongTypeError(HandlerError):
    """A field holds the wrong kind of value."""

    code = "wrong_type"


class NotJsonError(HandlerError):
    """The body is not JSON."""

    code = "not_json"


class WrongShapeError(HandlerError):
    """A tensor does not have the model's shape."""

    code = "wrong_shape"
    status = 422


class NotBase64Error(HandlerError):
    """The text of a file is not base64."""

    code = "not_base64"


class NotAnImageError(HandlerError):
    """The bytes are not in an image format that the function accepts."""

    code = "not_an_image"
    status = 415


class DamagedImageError(HandlerError):
    """The image cannot be decoded."""

    code = "damaged_image"
    status = 422


class UnsupportedImageError(HandlerError):
    """The image is of a kind that the function does not take, within a format that it does: a BMP with run-length
    encoding, a JPEG that is neither baseline nor progressive.
    """

    code = "unsupported_image"
    status = 422


class TruncatedImageError(HandlerError):
    """The image ends too early."""

    code = "truncated_image"
    status = 422


class TooLargeError(HandlerError):
    """The file or request has more encoded bytes than allowed."""

    code = "too_large"
    status = 413


class TooManyPixelsError(HandlerError):
    """The image has more pixels than allowed, whatever the size of the file."""

    code = "too_many_pixels"
    status = 413


class OverBudgetError(HandlerError):
    """Answering would take more memory or processor time than the function gives to one request, whatever the size of
    the file. Send smaller files or fewer items, or give the function more memory.
    """

    code = "over_budget"
    status = 413


class NotAudioError(HandlerError):
    """The bytes are neither WAV nor FLAC."""

    code = "not_audio"
    status = 415


class DamagedAudioError(HandlerError):
    """The recording cannot be decoded, or has no samples."""

    code = "damaged_audio"
    status = 422


class UnsupportedAudioError(HandlerError):
    """The recording is of a kind that the function does not take, within a format that it does: a WAV with A-law,
    more than 8 channels, a rate below 1,000 or above 384,000 Hz.
    """

    code = "unsupported_audio"
    status = 422


class TruncatedAudioError(HandlerError):
    """The recording ends too early, or a part of it is damaged."""

    code = "truncated_audio"
    status = 422


class RecordingTooLongError(HandlerError):
    """The recording lasts longer than allowed, or has more windows than one request may have items."""

    code = "recording_too_long"
    status = 413


class NotTextError(HandlerError):
    """The text is not UTF-8, or has half of a surrogate pair."""

    code = "not_text"
    status = 422


class TextTooLongError(HandlerError):
    """The text has more tokens or words than the model takes, and is not to be cut off (`truncate` in `model.toml`)."""

    code = "text_too_long"
    status = 422


class UnfitTextError(HandlerError):
    """The text is none that the model can take, such as a word where it takes a number, or characters that its
    tokenizer has no token for.
    """

    code = "unfit_text"
    status = 422


class UnfitInputError(HandlerError):
    """The model cannot take a number, such as an id that its table has no row for; or the number is NaN or an
    infinity, and `model.toml` has no `nan = true` for the input.
    """

    code = "unfit_input"
    status = 422


class WrongExampleError(HandlerError):
    """The bytes are no tf.Example, or a feature of it is missing, damaged, of another type or of another length."""

    code = "wrong_example"
    status = 422


class TooManyImagesError(HandlerError):
    """The request has more images, texts or other items than allowed."""

    code = "too_many_images"
    status = 413


class AnswerTooLargeError(HandlerError):
    """The answer has more bytes than Lambda passes on (6 MB; 1 MB behind a load balancer). Ask for fewer items at a
    time, or for binary tensors.
    """

    code = "answer_too_large"
    status = 413


class ResultTooLargeError(HandlerError):
    """The model found more than it was built for: `max_size` under `[[fetches]]` in `model.toml`."""

    code = "result_too_large"
    status = 422


class SourceNotAllowedError(HandlerError):
    """The request names a file that this function is not permitted to fetch."""

    code = "source_not_allowed"
    status = 403


class SourceUnavailableError(HandlerError):
    """The request names a file that the function cannot fetch, or not in time."""

    code = "source_unavailable"
    status = 422


class UnknownModelError(HandlerError):
    """The bundle has no model of this name."""

    code = "unknown_model"
    status = 404


class NotFoundError(HandlerError):
    """Nothing is served at this path. The message lists what is."""

    code = "not_found"
    status = 404

    def __init__(self, path: str, models: Iterable[str]) -> None:
        super().__init__(
            f"nothing is served at {path[:100]}; there are POST /predict, GET /health, /docs and /openapi.json, and "
            f"/v1/models/<name> and /v2/models/<name> of {', '.join(sorted(models))[:300]}"
        )


class ObjectNotFoundError(HandlerError):
    """The S3 object does not exist, or the function's role may not read it."""

    code = "object_not_found"
    status = 404


class ObjectChangedError(HandlerError):
    """The S3 object has other bytes now than when the list was made that names it with its ETag."""

    code = "object_changed"
    status = 409


class KeyTooLongError(HandlerError):
    """The result's key in S3 would have more than 1,024 bytes: the object's own key is too long."""

    code = "key_too_long"


class StorageUnavailableError(HandlerError):
    """S3 did not deliver or store an object in time, or asked to slow down."""

    code = "storage_unavailable"
    status = 503
    retryable = True


class OutOfTimeError(HandlerError):
    """Lambda's time limit was too near to begin this item. Send fewer items at a time, or raise Timeout."""

    code = "out_of_time"
    status = 503
    retryable = True


class LibraryError(Exception):
    """A library ended in an error that is no Exception. Not the caller's fault: it is answered as ``internal``."""


@contextmanager
def library_errors() -> Iterator[None]:
    """A context or decorator that turns a library's BaseException, as Rust's panic is one, into LibraryError.

    Otherwise it would pass every ``except Exception`` and end the process. What Python itself raises to end it passes.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise LibraryError(f"{type(error).__name__} from a library") from error


class RetryLater(Exception):
    """Raised out of the function where nobody reads its answer, so that Lambda delivers the event again."""


class MethodNotAllowedError(HandlerError):
    """The path does not take this method. The header ``Allow`` lists those that it takes."""

    code = "method_not_allowed"
    status = 405

    def __init__(self, method: str, path: str, allow: str) -> None:
        super().__init__(f"{path[:100]} takes {allow}, not {method[:8]}")
        self.allow = allow


class WrongMediaTypeError(HandlerError):
    """The path does not take a body of this type."""

    code = "wrong_media_type"
    status = 415


class StartupError(Exception):
    """The model cannot be opened; the message is one line that says what to do about it."""


class InferenceError(Exception):
    """The compiled model reported a failure. Not the caller's fault: it is answered as ``internal``."""
