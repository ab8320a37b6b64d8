"""S3 notifications from a bucket: each new object is answered in the log and among the results."""

from __future__ import annotations

from ..errors import event_from
from ..protocols import predict
from ..server import Invocation, Server
from ..typed import Any
from ..work import answer_all_tasks
from .messages import find_tasks


def matches_event(event: dict[str, Any]) -> bool:
    records = event["Records"]
    first = records[0] if isinstance(records, list) and records else None
    return isinstance(first, dict) and first.get("eventSource") == "aws:s3"


def handle_event(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    """Return the answers to all tasks of the event. Raises RetryLater if one may succeed later."""
    try:
        with event_from("S3"):
            call = call.with_correlation_id(event["Records"][0].get("responseElements", {}).get("x-amz-request-id"))
        tasks = find_tasks(event)
    except Exception as error:
        return predict.format_error(call.refuse(error))
    return answer_all_tasks(tasks, "", server, call)
