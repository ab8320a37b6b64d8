"""Requests that no caller waits for: how each is answered, and where its answer goes.

``events/messages.py`` says which an event holds.
"""

from __future__ import annotations

import json

from . import storage
from .answer import ANSWER_LIMIT, compute_min_answer_length, require_room, require_size
from .deadline import Deadline, seconds_left
from .errors import AnswerTooLargeError, MalformedEventError, NotTextError, OutOfTimeError, RetryLater
from .inputs import find_file_kind
from .protocols import predict
from .request import File
from .server import Invocation, Server
from .storage import S3Object
from .typed import Any

LOGGED = 100_000  # characters of one answer; CloudWatch cuts lines at 256 KB

Task = S3Object | dict[str, Any]
"""A picture, recording or text in S3, or a request of our own protocol."""


def parse_message(text: object) -> object:
    """The value that ``text``, a message, holds as JSON. Raises MalformedEventError."""
    try:
        if isinstance(text, str):
            return json.loads(text)
    except (ValueError, RecursionError):
        pass
    raise MalformedEventError("the message is not JSON")


def answer_task(
    task: Task, server: Server, call: Invocation, *, partial: bool = False, limit: int | None = None
) -> dict[str, Any]:
    """The answer to ``task`` in our own protocol. ``limit``: see ``predict.answer_event``. Raises HandlerError."""
    if not isinstance(task, S3Object):
        return predict.answer_event(task, server, call, partial=partial, limit=limit)
    data = storage.read_object(task, read_limit(server), seconds_left(call.remaining_ms()))
    return answer_file(data, task, server, call, partial=partial, limit=limit)


def read_limit(server: Server) -> int:
    """Bytes of an object, at most."""
    return server.limits.recording if server.find_description(None).audio else server.limits.encoded


def answer_file(
    data: bytes, task: S3Object, server: Server, call: Invocation, *, partial: bool = False, limit: int | None = None
) -> dict[str, Any]:
    """As ``answer_task``, of an object whose bytes are ``data``. Raises HandlerError."""
    description, limits = server.find_description(None), server.limits
    kind = find_file_kind(description)
    if kind is None or not kind.stands_alone(description) or (description.text_alone and task.key.endswith(".json")):
        # More than a file is asked for, or may be: a request in JSON.
        event = parse_message(_decode_object(data, task))
        return predict.answer_event(event, server, call, partial=partial, limit=limit)
    request = predict.make_file_request([File(data, str(task))], description, limits)
    return predict.answer_request(request, server, call, limit)


def _decode_object(data: bytes, task: S3Object) -> str:
    """An object's UTF-8, perhaps after a byte order mark.

    Raises NotTextError: with something else in the place of what is wrong, another text would be answered.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotTextError(f"{task} is not UTF-8") from None


def deliver_answer(target: S3Object | None, task: Task, answer: dict[str, Any], call: Invocation) -> None:
    """Log the answer, and write it to ``target`` if there is one. Raises StorageUnavailableError."""
    text = json.dumps(answer)
    origin = {"object": str(task)} if isinstance(task, S3Object) else {}
    shown: dict[str, object] = {"result": answer} if len(text) <= LOGGED else {"result_characters": len(text)}
    call.report("result", origin | shown)
    if target:
        storage.write_object(target, text, call.remaining_ms() / 1000)


def locate_task_result(task: Task, message_id: str) -> S3Object | None:
    """Where the task's result goes, which no other object's or message's does; None where none are kept.

    Raises KeyTooLongError.
    """
    return storage.locate_result(f"{task.bucket}/{task.key}" if isinstance(task, S3Object) else message_id)


def answer_all_tasks(found: list[Task], message_id: str, server: Server, call: Invocation) -> dict[str, Any]:
    """Answer and deliver each task, wrong ones' errors too.

    Raises RetryLater when any failed that may succeed later, or was not begun for want of time.
    """
    deadline = Deadline(call.remaining_ms)
    answers: list[dict[str, Any]] = []
    done = again = least = 0
    for task in found:
        if isinstance(task, S3Object) and storage.is_result(task):
            call.report("object skipped: it lies among the results", {"object": str(task)})
            continue
        retry, target = False, None
        try:
            if not deadline.allows_another():
                raise OutOfTimeError("the function ran out of time before this item")
            target = locate_task_result(task, message_id)  # before anything is read
            answer = answer_task(task, server, call)
        except Exception as error:
            refusal = call.refuse(error)
            answer, retry = predict.format_error(refusal), refusal.retryable
        done += 1
        least += compute_min_answer_length(answer)
        if least <= ANSWER_LIMIT:  # what is too large already need not be kept
            answers.append(answer)
        try:
            if not retry:
                deliver_answer(target, task, answer, call)
        except Exception as error:
            retry = call.refuse(error).retryable
        again += retry
    if again:
        raise RetryLater(f"{again} of {done} items failed and may succeed later; see request {call.request_id}")
    try:
        require_size(least, ANSWER_LIMIT)
        require_room(*answers)
    except AnswerTooLargeError as error:  # to Lambda a failure, after which it delivers the event again
        return predict.format_error(call.refuse(error))
    return {"results": answers}
