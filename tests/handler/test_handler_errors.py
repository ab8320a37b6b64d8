"""The catalogue of errors: complete, documented, and telling a caller nothing that is not theirs to know."""

from __future__ import annotations

import pytest

from handler import errors
from handler.errors import HandlerError, event_from, make_refusal
from tests.conftest import ROOT

CATALOGUE = HandlerError.__subclasses__()


def test_every_error_has_a_code_of_its_own_and_a_meaning() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    codes = [error.code for error in CATALOGUE]
    assert len(set(codes)) == len(codes)
    for error in CATALOGUE:
        assert "code" in vars(error)
        assert error.__doc__
        assert f"`{error.code}` | {error.status} |" in page


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.WrongFieldError, 400),
        (errors.MalformedEventError, 400),
        (errors.UnknownModelError, 404),
        (errors.TooLargeError, 413),
        (errors.AnswerTooLargeError, 413),
        (errors.NotAnImageError, 415),
        (errors.WrongShapeError, 422),
        (errors.OutOfTimeError, 503),
    ],
)
def test_statuses(error: type[HandlerError], status: int) -> None:
    told = make_refusal(error("why"), "request-1")
    assert (told.status, told.code, told.message, told.retryable) == (status, error.code, "why", status == 503)


def test_any_other_error_is_opaque() -> None:
    told = make_refusal(OSError(2, "no such file", "/opt/lib/libmodel.so"), "request-1")
    assert (told.status, told.code, told.retryable) == (500, "internal", True)
    assert told.message == "the function failed; its log has more under request request-1"


@pytest.mark.parametrize("error", [KeyError("a"), TypeError(), ValueError(), AttributeError(), IndexError()])
def test_what_is_missing_in_an_event_is_the_events_fault(error: Exception) -> None:
    said = "does not have the form that S3 sends"
    with pytest.raises(errors.MalformedEventError, match=said), event_from("S3"):
        raise error
    with pytest.raises(errors.TooLargeError), event_from("S3"):
        raise errors.TooLargeError("x")
