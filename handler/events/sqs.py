"""Messages of an SQS queue: requests of our own protocol, or notifications of S3, also through SNS.

Answered with the messages that failed (``ReportBatchItemFailures``): Lambda deletes the others, and gives these
again until the queue's redrive policy puts them aside.
"""

from __future__ import annotations

from typing import Any

from .. import storage
from ..deadline import Deadline
from ..errors import MalformedEventError, OutOfTimeError, event_from
from ..server import Call, Server
from ..storage import S3Object
from ..work import answered, deliver, from_json, place
from .messages import tasks


def matches(event: dict[str, Any]) -> bool:
    records = event["Records"]
    first = records[0] if isinstance(records, list) and records else None
    return isinstance(first, dict) and first.get("eventSource") == "aws:sqs"


def handle(event: dict[str, Any], server: Server, call: Call) -> dict[str, Any]:
    deadline = Deadline(call.remaining_ms)
    failures: list[dict[str, str]] = []
    stopped: set[object] = set()  # groups of a FIFO queue: what follows a failure must not overtake it
    for record in event["Records"]:
        message_id = group = None
        try:
            with event_from("SQS"):
                message_id = record["messageId"]
                group = record.get("attributes", {}).get("MessageGroupId")
                body = record["body"]
            if group not in stopped:
                _one(message_id, body, deadline, server, call.correlated(message_id))
                continue
        except Exception as error:
            call.correlated(message_id).refuse(error)
        if group is not None:
            stopped.add(group)
        # An id that is missing makes Lambda give the whole batch again, which is all that can be done for it.
        failures.append({"itemIdentifier": message_id if isinstance(message_id, str) else ""})
    return {"batchItemFailures": failures}


def _one(message_id: str, body: str, deadline: Deadline, server: Server, call: Call) -> None:
    """Each task's result is delivered as it comes, whatever becomes of the others. Raises the last one's error."""
    failure: Exception | None = None
    for task in tasks(from_json(body)):
        try:
            if not deadline.allows_another():
                raise OutOfTimeError("the function ran out of time before it had answered all of this message")
            if isinstance(task, S3Object) and storage.is_result(task):
                raise MalformedEventError(
                    f"{task} is one of this function's own results; send notifications for other prefixes only"
                )
            target = place(task, message_id)  # before anything is read
            deliver(target, task, answered(task, server, call), call)
        except Exception as error:
            if failure is not None:
                call.refuse(failure)
            failure = error
            if isinstance(error, OutOfTimeError):
                break
    if failure is not None:
        raise failure
