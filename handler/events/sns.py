"""A message of an SNS topic: a request of our own protocol, or a notification of S3."""

from __future__ import annotations

from typing import Any

from ..errors import shape_of
from ..protocols import predict
from ..server import Call, Server
from ..work import background, loaded, tasks


def matches(event: dict[str, Any]) -> bool:
    records = event["Records"]
    return isinstance(records, list) and bool(records) and isinstance(records[0], dict) and "Sns" in records[0]


def handle(event: dict[str, Any], server: Server, call: Call) -> dict[str, Any]:
    """Raises RetryLater."""
    try:
        with shape_of("SNS"):
            message = event["Records"][0]["Sns"]  # there is always exactly one
            message_id = str(message["MessageId"])
            text = message["Message"]
        call = call.correlated(message_id)
        found = tasks(loaded(text))
    except Exception as error:
        return predict.error(call.refuse(error))
    return background(found, message_id, server, call)
