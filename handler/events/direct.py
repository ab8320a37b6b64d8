"""A direct invocation: the event is the request."""

from __future__ import annotations

from ..answer import require_room
from ..protocols import predict
from ..server import Call, Server
from ..typed import Any


def handle(event: object, server: Server, call: Call) -> dict[str, Any]:
    try:
        answer = predict.answer(event, server, call)
        require_room(answer)
        return answer
    except Exception as error:
        return predict.error(call.refuse(error))
