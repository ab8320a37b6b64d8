"""Events of Step Functions: a batch of a Distributed Map, or one object in S3.

    {"Items": [<item>, …], "BatchInput": {…}}   →   {"results": [<answer or error>, …], "failed": 1}
    {"Bucket": "…", "Key": "…"}                 →   the answer, or error

Any other single item is a direct invocation. An item is a request of our own protocol, or names an object as the map's
readers do (``Key``, with ``Bucket`` in the item or in BatchInput). BatchInput's fields are added to each item that
lacks them. The results are in the items' order; those that there was no time for have the code ``out_of_time``.

With ``Results`` in BatchInput it is a batch of a list, whose answers go to S3: ``handler/map_batch.py``.
"""

from __future__ import annotations

from ..answer import ANSWER_LIMIT, compute_min_answer_length, require_room
from ..background import Task, answer_task
from ..deadline import Deadline
from ..errors import AnswerTooLargeError, OutOfTimeError, WrongTypeError
from ..protocols import predict
from ..server import Invocation, Server
from ..storage import S3Object
from ..typed import Any


def matches_event(event: dict[str, Any]) -> bool:
    """Return whether ``event`` comes from a state machine."""
    return isinstance(event.get("Items"), list) or ("Bucket" in event and "Key" in event)


def handle_event(event: dict[str, Any], server: Server, call: Invocation) -> dict[str, Any]:
    """Return the answers to all items in order, or to the single one."""
    deadline = Deadline(call.remaining_ms)
    if "Items" not in event:
        return _answer_item(event, deadline, server, call)
    common = event.get("BatchInput")
    common = common if isinstance(common, dict) else {}
    if "Results" in common:
        from .. import map_batch  # only a batch of a list needs threads and hashes

        return map_batch.answer_batch(event, server, call)
    results: list[dict[str, Any]] = []
    least = 0
    for item in event["Items"]:
        results.append(_answer_item(_add_common_fields(item, common), deadline, server, call))
        least += compute_min_answer_length(results[-1])
        if least > ANSWER_LIMIT:
            break  # the answers kept so far are too large already
    try:
        require_room(*results)
    except AnswerTooLargeError as error:
        results = [predict.format_error(call.refuse(error))] * len(event["Items"])
    return {"results": results, "failed": sum("error" in result for result in results)}


def _add_common_fields(item: object, common: dict[str, Any]) -> object:
    if not isinstance(item, dict):
        return item
    # The bucket is for items that are objects; beside an image it would be an unknown field.
    return {name: value for name, value in common.items() if name != "Bucket" or "Key" in item} | item


def _answer_item(item: object, deadline: Deadline, server: Server, call: Invocation) -> dict[str, Any]:
    try:
        if not deadline.allows_another():
            raise OutOfTimeError("the function ran out of time before this item")
        answer = answer_task(_parse_task(item), server, call, limit=ANSWER_LIMIT)
        require_room(answer)
        return answer
    except Exception as error:
        return predict.format_error(call.refuse(error))


def _parse_task(item: object) -> Task:
    """Parse an item. Raises WrongTypeError."""
    if not isinstance(item, dict) or "Key" not in item:
        return item  # type: ignore[return-value]  # the protocol reports any error in it
    if not isinstance(item.get("Bucket"), str) or not isinstance(item["Key"], str):
        raise WrongTypeError('an item with a "Key" needs a "Bucket", in itself or in "BatchInput"; both are strings')
    version = item.get("VersionId")
    return S3Object(item["Bucket"], item["Key"], version if isinstance(version, str) else None)
