"""Messages of an SQS queue: requests of our own protocol, or notifications of S3, also through SNS or EventBridge.

The answer lists the messages that failed (``ReportBatchItemFailures``): Lambda deletes the others, and delivers these
again until the queue's redrive policy moves them away. A message may come twice; its result is then the same object.
"""

from __future__ import annotations

import os

from ..background import Task, answer_task, deliver_answer, locate_task_result, parse_message, skip_results
from ..deadline import Deadline
from ..errors import ObjectNotFoundError, OutOfTimeError, event_from
from ..protocols import predict
from ..server import Invocation, Server
from ..storage import S3Object
from ..typed import Any
from .notifications import find_tasks

ATTEMPTS = "COLDFORGE_QUEUE_ATTEMPTS"
"""The variable with the number of deliveries of the stack's own FIFO queue; empty where another queue may be used."""


def matches_event(event: dict[str, Any]) -> bool:
    """Return whether ``event`` has messages of a queue."""
    records = event["Records"]
    first = records[0] if isinstance(records, list) and records else None
    return isinstance(first, dict) and first.get("eventSource") == "aws:sqs"


def handle_event(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    """Answer all messages, and return those that failed."""
    deadline = Deadline(call.remaining_ms)
    failures: list[dict[str, str]] = []
    stopped: set[object] = set()  # groups of a FIFO queue in which a message failed: the next must not overtake it
    for record in event["Records"]:
        message_id, group, done, last = None, None, False, False
        try:
            with event_from("SQS"):
                message_id = record["messageId"]
                if str(record.get("eventSourceARN")).endswith(".fifo"):  # in other queues groups have no order
                    group = record["attributes"]["MessageGroupId"]
                    last = _is_last(record["attributes"])
                body = record["body"]
            if group not in stopped:
                done = _answer_message(message_id, body, deadline, server, call.with_correlation_id(message_id))
        except Exception as error:
            call.with_correlation_id(message_id).refuse(error)
        if done:
            continue
        if group is not None and not last:
            stopped.add(group)
        # A missing id makes Lambda deliver the whole batch again, which is all that can be done for it.
        failures.append({"itemIdentifier": message_id if isinstance(message_id, str) else ""})
    return {"batchItemFailures": failures}


def _is_last(attributes: dict[str, Any]) -> bool:
    """Return whether the queue moves the message to its dead-letter queue if it fails now, so that no other must wait.

    The messages behind it were delivered as often, untried: returning them now would move them there, too.
    """
    most, count = os.environ.get(ATTEMPTS, ""), str(attributes.get("ApproximateReceiveCount"))
    return most.isdecimal() and count.isdecimal() and len(count) < 9 and int(count) >= int(most)


def _answer_message(message_id: str, body: str, deadline: Deadline, server: Server, call: Invocation) -> bool:
    """Answer the message and return whether all of it is answered. Each task's result is delivered by itself.

    Raises HandlerError for a message that cannot be read.
    """
    done = True
    for task in skip_results(find_tasks(parse_message(body)), call):
        target = None
        try:
            if not deadline.allows_another():
                raise OutOfTimeError("the function ran out of time before it had answered all of this message")
            target = locate_task_result(task, message_id)  # before anything is read
            deliver_answer(target, task, answer_task(task, server, call), call)
        except Exception as error:
            done = False
            refusal = call.refuse(error)
            if isinstance(error, OutOfTimeError):
                break
            # An object that is gone may have been answered when the message came before.
            if target and not refusal.retryable and not isinstance(error, ObjectNotFoundError):
                _deliver_error(target, task, predict.format_error(refusal), call)
    return done


def _deliver_error(target: S3Object, task: Task, answer: dict[str, Any], call: Invocation) -> None:
    """Deliver an error, ignoring failures because the message comes again anyway."""
    try:
        deliver_answer(target, task, answer, call)
    except Exception as error:
        call.refuse(error)
