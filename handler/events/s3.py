"""An S3 notification, sent to the function by the bucket: each new object is answered, in the log and among the
results."""

from __future__ import annotations

from ..errors import event_from
from ..protocols import predict
from ..server import Call, Server
from ..typed import Any
from ..work import background
from .messages import tasks


def matches(event: dict[str, Any]) -> bool:
    records = event["Records"]
    first = records[0] if isinstance(records, list) and records else None
    return isinstance(first, dict) and first.get("eventSource") == "aws:s3"


def handle(event: dict[str, Any], server: Server, call: Call) -> dict[str, Any]:
    """The answers to all that the event asks for. Raises RetryLater where one may succeed later."""
    try:
        with event_from("S3"):
            call = call.correlated(event["Records"][0].get("responseElements", {}).get("x-amz-request-id"))
        found = tasks(event)
    except Exception as error:
        return predict.error(call.refuse(error))
    return background(found, "", server, call)
