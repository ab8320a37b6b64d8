"""A message of an SNS topic: a request of our own protocol, or a notification of S3."""

from __future__ import annotations

from ..errors import event_from
from ..protocols import predict
from ..server import Call, Server
from ..typed import Any
from ..work import background, from_json
from .messages import tasks


def matches(event: dict[str, Any]) -> bool:
    records = event["Records"]
    return isinstance(records, list) and bool(records) and isinstance(records[0], dict) and "Sns" in records[0]


def handle(event: dict[str, Any], server: Server, call: Call) -> dict[str, Any]:
    """The answers to all that the event asks for. Raises RetryLater where one may succeed later."""
    try:
        with event_from("SNS"):
            message = event["Records"][0]["Sns"]  # there is always exactly one
            message_id = str(message["MessageId"])
            text = message["Message"]
        call = call.correlated(message_id)
        found = tasks(from_json(text))
    except Exception as error:
        return predict.error(call.refuse(error))
    return background(found, message_id, server, call)
