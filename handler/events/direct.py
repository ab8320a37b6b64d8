"""Direct invocations, whose event is the request."""

from __future__ import annotations

from ..answer import require_room
from ..protocols import predict
from ..server import Invocation, Server
from ..typed import Any


def handle_event(event: object, server: Server, call: Invocation) -> dict[str, Any]:
    try:
        answer = predict.answer_event(event, server, call)
        require_room(answer)
        return answer
    except Exception as error:
        return predict.format_error(call.refuse(error))
