"""What can be wrong with a request, and what can stop the function from starting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """What a caller is told of an error: ``status`` is HTTP's, ``code`` is for programs, ``message`` for people."""

    status: int
    code: str
    message: str


def refusal(error: Exception, request_id: str) -> Refusal:
    """An error that is not the caller's is only named by the request that its log lines stand under."""
    if isinstance(error, HandlerError):
        return Refusal(error.status, error.code, error.message)
    return Refusal(500, "internal", f"the function failed; its log has more under request {request_id}")


class HandlerError(Exception):
    """A request that cannot be answered; ``code`` is for programs, ``message`` for people.

    The message may repeat field names of the request, shortened, never its data.
    """

    code = "bad_request"
    status = 400  # of the answer over HTTP

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WrongFieldError(HandlerError):
    """A field is missing, unknown, or stands beside one that excludes it."""

    code = "wrong_field"


class WrongTypeError(HandlerError):
    """A field holds the wrong kind of value."""

    code = "wrong_type"


class WrongShapeError(HandlerError):
    """A tensor does not have the model's shape."""

    code = "wrong_shape"
    status = 422


class NotBase64Error(HandlerError):
    """The image's text is not base64."""

    code = "not_base64"


class NotAnImageError(HandlerError):
    """The bytes are of no image format that is accepted."""

    code = "not_an_image"
    status = 415


class DamagedImageError(HandlerError):
    """An image whose inside cannot be decoded."""

    code = "damaged_image"
    status = 422


class TruncatedImageError(HandlerError):
    """An image that ends too early."""

    code = "truncated_image"
    status = 422


class TooLargeError(HandlerError):
    """More encoded bytes than allowed."""

    code = "too_large"
    status = 413


class TooManyPixelsError(HandlerError):
    """More pixels than allowed, whatever the size of the file."""

    code = "too_many_pixels"
    status = 413


class TooManyImagesError(HandlerError):
    """More images in one request than allowed."""

    code = "too_many_images"
    status = 413


class SourceNotAllowedError(HandlerError):
    """A picture is named that this function was not told to fetch."""

    code = "source_not_allowed"
    status = 403


class SourceUnavailableError(HandlerError):
    """A picture is named that cannot be fetched, or not in time."""

    code = "source_unavailable"
    status = 422


class UnknownModelError(HandlerError):
    """The bundle has no model of this name."""

    code = "unknown_model"
    status = 404


class NotFoundError(HandlerError):
    """Nothing is served at this path, or not by this method."""

    code = "not_found"
    status = 404


class StartupError(Exception):
    """The model cannot be opened; the message is one line that says what to do about it."""


class InferenceError(Exception):
    """The compiled model reported a failure. Not the caller's fault: it is answered as ``internal``."""
