"""Messages of an SNS topic: requests of our own protocol, or notifications of S3."""

from __future__ import annotations

from ..errors import event_from
from ..protocols import predict
from ..server import Invocation, Server
from ..typed import Any
from ..work import answer_all_tasks, parse_message
from .messages import find_tasks


def matches_event(event: dict[str, Any]) -> bool:
    records = event["Records"]
    return isinstance(records, list) and bool(records) and isinstance(records[0], dict) and "Sns" in records[0]


def handle_event(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    """Return the answers to all tasks of the event. Raises RetryLater if one may succeed later."""
    try:
        with event_from("SNS"):
            message = event["Records"][0]["Sns"]  # there is always exactly one record
            message_id = str(message["MessageId"])
            text = message["Message"]
        call = call.with_correlation_id(message_id)
        tasks = find_tasks(parse_message(text))
    except Exception as error:
        return predict.format_error(call.refuse(error))
    return answer_all_tasks(tasks, message_id, server, call)
