# ruff: noqa: E501 - rows of Markdown tables
"""``docs/errors.md``, generated from the function's catalogue of errors: ``python -m builder.cli.errors_page``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from builder.base.errors import INTERRUPTED, PIPE_CLOSED, ColdforgeError
from builder.base.files import write_file
from builder.base.project import HOME
from handler.errors import HandlerError

PAGE = HOME / "docs" / "errors.md"

_HEAD = """\
# Errors

<!-- Made by `python -m builder.cli.errors_page` from handler/errors.py; edit that. -->

If the function cannot answer a request, its answer is the error. The next request works:

```json
{"error": {"code": "not_an_image", "message": "\\"image\\" is not an image in an accepted format; send JPEG, PNG, WebP, GIF or BMP"}}
```

`code` is for programs and does not change. `message` is for people and may change. Over HTTP, the response has the
status below. *Again* says whether the same request may succeed later. A response with status 503 has `Retry-After: 1`.

| code | status | again | |
|---|---|---|---|
"""

_TAIL = """
AWS itself answers with some other statuses:

- 429: the concurrency that the account or the function may have is used up.
- 502: the function could not start. Its log has one line with the level `CRITICAL`.
- 504: API Gateway waited 30 seconds.
- 413: the request has more than 6 MB. Such a request never reaches the function.

The function answers `answer_too_large` where Lambda would drop an answer for its size. Step Functions takes 256 KB from
a state, and reports more than that itself (`States.DataLimitExceeded`).

## Where the error goes

| event | what happens to the error |
|---|---|
| direct invocation, Step Functions | the answer is the error; there is no `FunctionError` |
| Step Functions, a batch of items | the error stands in the item's place in `results`, and `failed` counts them |
| HTTP | the answer's body, in the protocol's own shape, with the status |
| SQS | the message is in `batchItemFailures`, and comes again until the queue's redrive policy puts it aside. From a FIFO queue, the messages after it in its group come again too, until its last attempt. If the request cannot succeed later, the error is also the result, but where the object is gone ([queues.md](queues.md)) |
| S3, SNS, EventBridge | if the request may succeed later, the function fails and Lambda delivers the event again, twice by default. Otherwise the error is the result, in the log and in the bucket for results |

## In the log

Each refusal is one line of JSON. It never has a picture or any other content of the request:

```json
{"level": "WARNING", "message": "request refused", "code": "not_base64", "status": 400, "reason": "\\"image\\" is not base64",
 "function_request_id": "…", "correlation_id": "…", "cold_start": false, "xray_trace_id": "…"}
```

`internal` is logged as `"level": "ERROR", "message": "request failed"`, with the exception and its stack. The caller is
told only the request's id. `correlation_id` is API Gateway's request id, the load balancer's trace id, or the id of the
SQS or SNS message or of the EventBridge event. The metric `Error` counts every error by `Code`.
"""

_COMMANDS = """
## How a command ends

A `coldforge` command that fails says why and what to do next, and ends with one of these exit codes. `make` prints the
code and ends with 2. Whatever stops a build, the last good bundle stays.

| exit code | |
|---|---|
"""


def format_errors_page() -> str:
    """Return the whole page as Markdown."""
    return (
        _HEAD
        + "".join(_format_row(error) for error in _list_errors())
        + _TAIL
        + _COMMANDS
        + "".join(_format_exit_codes())
    )


def _list_errors() -> Iterator[tuple[int, str, bool, str]]:
    """Yield (status, code, whether to try again, meaning) of each error, by status."""
    rows = [(e.status, e.code, e.retryable, inspect.getdoc(e) or "") for e in HandlerError.__subclasses__()]
    failed = "The function failed, not the request. The message names the request's id; the log has more under that id."
    yield from sorted([*rows, (500, "internal", True, failed)])


def _format_exit_codes() -> Iterator[str]:
    """Yield a row for each exit code that a program may want to distinguish."""
    for error in sorted(ColdforgeError.__subclasses__(), key=lambda error: error.exit_code):
        yield f"| {error.exit_code} | {' '.join((inspect.getdoc(error) or '').replace('``', '`').split())} |\n"
    yield f"| {INTERRUPTED} | Ctrl-C ended the command. |\n"
    yield f"| {PIPE_CLOSED} | Whoever read the result stopped, as `head` does. |\n"


def _format_row(error: tuple[int, str, bool, str]) -> str:
    status, code, retryable, meaning = error
    return f"| `{code}` | {status} | {'yes' if retryable else ''} | {' '.join(meaning.split())} |\n"


if __name__ == "__main__":
    write_file(PAGE, format_errors_page())
