"""Notifications, to which nobody reads the answer: from S3, SNS and EventBridge.

The answer to each is in the log and among the results. What a notification brings is an object that is new in S3, or a
request of our own protocol: SNS's message, or EventBridge's ``detail``.
"""

from __future__ import annotations

from urllib.parse import unquote_plus

from ..background import Task, answer_all_tasks, parse_message
from ..errors import event_from
from ..protocols import predict
from ..server import Invocation, Server
from ..storage import S3Object
from ..typed import Any


def matches_event(event: dict[str, Any]) -> bool:
    """Return whether ``event`` is a notification."""
    if "Records" not in event:
        return "source" in event and "detail" in event
    records = event["Records"]
    first = records[0] if isinstance(records, list) and records else None
    return isinstance(first, dict) and (first.get("eventSource") == "aws:s3" or "Sns" in first)


def handle_event(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    """Return the answers to all tasks of the event. Raises RetryLater if one may succeed later."""
    message: Any = event
    try:
        if "Records" not in event:
            with event_from("EventBridge"):
                correlation_id = message_id = str(event["id"])
        elif "Sns" in event["Records"][0]:  # there is always exactly one record
            with event_from("SNS"):
                message = event["Records"][0]["Sns"]
                correlation_id = message_id = str(message["MessageId"])
        else:
            with event_from("S3"):
                message_id = ""
                correlation_id = event["Records"][0].get("responseElements", {}).get("x-amz-request-id")
        call = call.with_correlation_id(correlation_id)
        tasks = find_tasks(message)
    except Exception as error:
        return predict.format_error(call.refuse(error))
    return answer_all_tasks(tasks, message_id, server, call)


def find_tasks(message: object) -> list[Task]:
    """Return the tasks in ``message``: the objects of an S3 notification, whether S3, EventBridge or SNS sends it.

    Any other message is one task, a request of our own protocol. Raises MalformedEventError.
    """
    if not isinstance(message, dict):
        return [message]  # type: ignore[list-item]  # answered as an invalid request
    if message.get("Type") == "Notification" and "TopicArn" in message:
        return find_tasks(parse_message(message.get("Message")))
    if message.get("Event") == "s3:TestEvent":  # sent once, when the notification is set up
        return []
    if "Records" in message:
        with event_from("S3"):
            return [
                _parse_record(record)
                for record in message["Records"]
                if record["eventName"].removeprefix("s3:").startswith("ObjectCreated:")
            ]
    if "detail-type" in message:
        with event_from("EventBridge"):
            return _read_detail(message)
    return [message]


def _parse_record(record: Any) -> S3Object:
    """Return the object of a record of S3's, where the key is URL-encoded as in a form."""
    place = record["s3"]
    return _make_object(place["bucket"]["name"], unquote_plus(place["object"]["key"]), place["object"])


def _read_detail(event: Any) -> list[Task]:
    """Return the tasks of an EventBridge event, in whose ``detail`` S3 leaves keys unencoded."""
    detail = event["detail"]
    if event.get("source") != "aws.s3":
        return [detail]
    if event["detail-type"] != "Object Created":
        return []
    return [_make_object(detail["bucket"]["name"], detail["object"]["key"], detail["object"])]


def _make_object(bucket: str, key: str, rest: Any) -> S3Object:
    return S3Object(str(bucket), str(key), rest.get("versionId") or rest.get("version-id"))
