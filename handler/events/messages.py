"""The tasks in a message: in S3's notifications, EventBridge's events, and SNS's envelope."""

from __future__ import annotations

from urllib.parse import unquote_plus

from ..errors import event_from
from ..storage import S3Object
from ..typed import Any
from ..work import Task, parse_message


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
            return [_parse_record(record) for record in message["Records"] if _is_created(record["eventName"])]
    if "detail-type" in message:
        with event_from("EventBridge"):
            return _read_detail(message)
    return [message]


def _is_created(event: str) -> bool:
    return event.removeprefix("s3:").startswith("ObjectCreated:")


def _parse_record(record: Any) -> S3Object:
    """Return the object of a record of S3's, where the key is URL-encoded as in a form."""
    return _make_object(
        record["s3"]["bucket"]["name"], unquote_plus(record["s3"]["object"]["key"]), record["s3"]["object"]
    )


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
