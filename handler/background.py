"""Requests that no caller waits for: answering each, and delivering its answer.

``events/notifications.py`` finds them in an event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from . import storage
from .answer import ANSWER_LIMIT, compute_min_answer_length, require_room, require_size
from .deadline import Deadline
from .errors import AnswerTooLargeError, MalformedEventError, NotTextError, OutOfTimeError, RetryLater
from .inputs import find_file_kind
from .protocols import predict
from .request import File
from .server import Invocation, Server
from .storage import S3Object
from .typed import Any

LOGGED = 100_000  # characters of one answer; CloudWatch cuts lines at 256 KB

Task = S3Object | dict[str, Any]
"""An image, recording or text in S3, or a request of our own protocol."""


def parse_message(text: object) -> object:
    """Parse the message ``text`` as JSON. Raises MalformedEventError."""
    try:
        if isinstance(text, str):
            return json.loads(text)
    except (ValueError, RecursionError):
        pass
    raise MalformedEventError("the message is not JSON")


def answer_task(
    task: Task, server: Server, call: Invocation, *, partial: bool = False, limit: int | None = None
) -> dict[str, Any]:
    """Answer ``task`` in our own protocol. ``limit``: see ``predict.answer_event``. Raises HandlerError."""
    if not isinstance(task, S3Object):
        return predict.answer_event(task, server, call, partial=partial, limit=limit)
    data, _ = storage.read_object(task, read_limit(server), call.count_seconds_left())
    return answer_file(data, task, server, call, partial=partial, limit=limit)


def read_limit(server: Server) -> int:
    """Return the most bytes that an object may have."""
    return server.limits.recording if server.find_description(None).audio else server.limits.encoded


def answer_file(
    data: bytes, task: S3Object, server: Server, call: Invocation, *, partial: bool = False, limit: int | None = None
) -> dict[str, Any]:
    """Answer ``task``, an object with the bytes ``data``, as ``answer_task`` does. Raises HandlerError."""
    description, limits = server.find_description(None), server.limits
    kind = find_file_kind(description)
    is_json = task.key.endswith(".json") if description.text_alone else not task.key.lower().endswith(".csv")
    may_be_json = description.text_alone or description.table
    if kind is None or not kind.stands_alone or (may_be_json and is_json):
        # The model needs or allows more than a file, so the object is a request in JSON.
        try:
            event = parse_message(data.decode("utf-8-sig"))
        except UnicodeDecodeError:  # replacing invalid bytes would answer another text
            raise NotTextError(f"{task} is not UTF-8") from None
        return predict.answer_event(event, server, call, partial=partial, limit=limit)
    request = predict.make_file_request([File(data, str(task))], description, limits)
    return predict.answer_request(request, server, call, limit)


def deliver_answer(target: S3Object | None, task: Task, answer: dict[str, Any], call: Invocation) -> None:
    """Log the answer, and write it to ``target`` if there is one. Raises StorageUnavailableError."""
    text = json.dumps(answer)
    origin = {"object": str(task)} if isinstance(task, S3Object) else {}
    fields: dict[str, object] = {"result": answer} if len(text) <= LOGGED else {"result_characters": len(text)}
    call.report("result", origin | fields)
    if target:
        storage.write_object(target, text, call.remaining_ms() / 1000)


def locate_task_result(task: Task, message_id: str) -> S3Object | None:
    """Return the object for the task's result, unique to its object or message; None where results are not kept.

    Raises KeyTooLongError.
    """
    return storage.locate_result(f"{task.bucket}/{task.key}" if isinstance(task, S3Object) else message_id)


def skip_results(tasks: list[Task], call: Invocation) -> Iterator[Task]:
    """Yield ``tasks`` but for objects that lie among the results, as answering these would never end."""
    for task in tasks:
        if isinstance(task, S3Object) and storage.is_result(task):
            call.report("object skipped: it lies among the results", {"object": str(task)})
        else:
            yield task


def answer_all_tasks(tasks: list[Task], message_id: str, server: Server, call: Invocation) -> dict[str, Any]:
    """Answer and deliver each task; an error is delivered, too.

    Raises RetryLater if any failed that may succeed later, or was not begun for lack of time.
    """
    deadline = Deadline(call.remaining_ms)
    answers: list[dict[str, Any]] = []
    count = retries = least = 0
    for task in skip_results(tasks, call):
        retry, target = False, None
        try:
            if not deadline.allows_another():
                raise OutOfTimeError("the function ran out of time before this item")
            target = locate_task_result(task, message_id)  # before anything is read
            answer = answer_task(task, server, call)
        except Exception as error:
            refusal = call.refuse(error)
            answer, retry = predict.format_error(refusal), refusal.retryable
        count += 1
        least += compute_min_answer_length(answer)
        if least <= ANSWER_LIMIT:  # answers that are too large already need not be kept
            answers.append(answer)
        try:
            if not retry:
                deliver_answer(target, task, answer, call)
        except Exception as error:
            retry = call.refuse(error).retryable
        retries += retry
    if retries:
        raise RetryLater(f"{retries} of {count} items failed and may succeed later; see request {call.request_id}")
    try:
        require_size(least, ANSWER_LIMIT)
        require_room(*answers)
    except AnswerTooLargeError as error:  # Lambda would count it as a failure and deliver the event again
        return predict.format_error(call.refuse(error))
    return {"results": answers}
