"""A request to try a bundle with, and the answer of its function on this machine, as in Lambda without Docker."""

from __future__ import annotations

import base64
import json
import math
import shlex
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.base.commands import bundle_command, choose_command, docs_command
from builder.base.errors import AnswerError, EnvironmentSetupError, UsageError
from builder.base.escape import json_line, quote_shell
from builder.base.lambda_python import LAMBDA_PYTHON, PythonInterpreter, find_python
from builder.base.project import HOME, cache_folder
from builder.measure.local import emulator_parts
from builder.measure.local.emulator import LambdaEmulator

WARM_REQUESTS = 3


@dataclass(frozen=True)
class InvokeResult:
    """The answer to one event, and times in milliseconds."""

    answer: Any
    """The function's, whatever it is."""
    init_ms: float
    """The emulator's: from Python's start until the function is ready."""
    first_ms: float
    """The time of the first request, as its client saw it, without the start."""
    warm_ms: float
    """The median of three more requests."""
    python: str
    """The version that ran the function."""
    note: str | None
    """A remark where that is not Lambda's."""
    log: str

    def to_dict(self) -> dict[str, Any]:
        """Return all fields but the log, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "log"}

    @property
    def times(self) -> str:
        """Times in one line for a person."""
        return (
            f"init {self.init_ms:.0f} ms (Python's start until the function is ready), first request "
            f"{self.first_ms:.1f} ms, warm {self.warm_ms:.1f} ms (median of {WARM_REQUESTS} more)"
        )


def invoke_bundle(bundle_layer: Path, event: Any, python: Path | None = None) -> InvokeResult:
    """Start the function cold, send ``event``, and send it again while warm.

    ``bundle_layer``: ``dist/<model>/layer``. ``python``: see ``find_python``. Raises UsageError and
    EnvironmentSetupError.
    """
    with prepare_emulator(bundle_layer, python) as running:
        answer, first_ms = call_first(running, event)
        warm_ms = statistics.median(_time_call(running, event)[1] for _ in range(WARM_REQUESTS))
        version, note = running.python.version, describe_mismatch(running.python)
        return InvokeResult(answer, running.init_ms, first_ms, warm_ms, version, note, log=running.log)


def call_first(running: LambdaEmulator, event: Any) -> tuple[Any, float]:
    """Return the answer to the first event, and its milliseconds as the client sees them, without the start.

    Raises EnvironmentSetupError where the function does not start.
    """
    answer, total = _time_call(running, event)
    if "errorType" in answer:
        # Callers do not get the function's own message.
        critical = (line for line in reversed(running.log.splitlines()) if '"CRITICAL"' in line)
        last = next(critical, None)
        why = json.loads(last)["message"] if last else f"{answer.get('errorMessage')}\n{running.log[-2000:]}"
        raise EnvironmentSetupError(f"the function did not start: {why}")
    return answer, max(total - running.init_ms, 0.0)


def prepare_emulator(
    bundle_layer: Path, python: Path | None = None, *, environment: dict[str, str] | None = None
) -> LambdaEmulator:
    """Prepare the emulator for a bundle. ``environment``: variables of the function's own.

    Downloads and builds for it are kept for all projects: the packages and the function for each Python.
    """
    if not (bundle_layer / "lib" / "libmodel.so").is_file():
        raise UsageError(f"{bundle_layer} has no libmodel.so; run `{bundle_command(bundle_layer.parent.name)}` first.")
    cache, interpreter = cache_folder() / "local", find_python(python)
    variables = environment or {}
    if any(bundle_layer.parent.glob("*.weights")):  # In the cloud, the weights lie elsewhere.
        variables = {"COLDFORGE_WEIGHTS": f"{bundle_layer.parent.resolve()}/", **variables}
    return LambdaEmulator(
        binary=emulator_parts.install_emulator(cache),
        python=interpreter,
        runtime=emulator_parts.install_runtime(cache, interpreter),
        bundle_layer=bundle_layer,
        dependencies=emulator_parts.build_dependencies(cache, interpreter, HOME / "layers" / "dependencies"),
        function=emulator_parts.pack_function(cache, interpreter, HOME / "handler"),
        environment=variables,
    )


def image_event(path: Path) -> dict[str, Any]:
    """Return the request for an image on disk. Raises UsageError."""
    try:
        return {"image": base64.b64encode(path.read_bytes()).decode()}
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def file_event(path: Path) -> Any:
    """Read the request, or any other event, in a file of JSON. Raises UsageError."""
    try:
        return text_event(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not JSON: it is not UTF-8 text. To send an image, use --image.") from error


def text_event(text: str, origin: str) -> Any:
    """Parse the request, or any other event, in JSON. ``origin``: its name in messages. Raises UsageError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(
            f'{origin} is not JSON ({error}); it must be a request such as {{"inputs": {{...}}}}.'
        ) from error


def require_answer(answer: Any) -> None:
    """Raise AnswerError for an answer with an error: of a direct invocation, over HTTP, or of single messages."""
    if not isinstance(answer, dict):
        return
    error = answer.get("error")
    if isinstance(error, dict):
        raise AnswerError(
            f"the function refused the request: {error.get('message')} ({error.get('code')}). "
            f"{docs_command('errors')} explains each code."
        )
    if answer.get("statusCode", 200) >= 400:
        raise AnswerError(f"the function answered with HTTP status {answer['statusCode']}.")
    if failed := answer.get("batchItemFailures"):
        raise AnswerError(f"the function could not answer {len(failed)} of the messages.")


def default_event(bundle: Path) -> dict[str, Any]:
    """Return a request for the model of ``bundle``, its folder in dist/: an image or text of ours, zeros for others.

    A model of a table gets what ``make_row`` returns. Raises UsageError where nothing is built.
    """
    try:
        described = json.loads((bundle / "model.json").read_text())
    except OSError as error:
        raise UsageError(f"there is no bundle in {bundle}; run `{bundle_command(bundle.name)}` first.") from error
    if described.get("table"):
        row = make_row(described)
        return {"row": row} if described["batch"] == 1 else {"rows": [row] * described["batch"]}
    if described.get("text") or _takes_text(described):
        event = {"text": TEXT, "text_pair": TEXT} if _takes_pairs(described) else {"text": TEXT}
    else:
        event = image_event(IMAGE) if described["image"] else {}
    return event | make_zero_inputs(described)


def _time_call(running: LambdaEmulator, event: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    answer = running.invoke(event)
    return answer, (time.perf_counter() - start) * 1000


def describe_mismatch(python: PythonInterpreter) -> str | None:
    """Return a remark where the Python that runs the function is not Lambda's."""
    if python.matches_lambda:
        return None
    return (
        f"NOTE: this ran on Python {python.version}, with packages built for it; Lambda "
        f"runs {LAMBDA_PYTHON}. "
        f"Install Python {LAMBDA_PYTHON} (with pyenv, uv or a system package) to run what is deployed."
    )


TEXT = "How long does it take to get there by train?"
"""Text that is sent where a person gives none."""

IMAGE = HOME / "builder" / "importers" / "samples" / "photographs" / "face.jpg"
"""Image that is sent where a person names none."""


def format_try_command(models: Sequence[str], described: Mapping[str, Any], folder: Path = Path()) -> str:
    """Return lines that name the command for a bundle of ``models``; ``described``: the first one's model.json.

    ``folder``: the project's, as -C named it.
    """
    names = quote_shell(" ".join(models))
    options = ["-C", str(folder)] if folder != Path() else []
    words = shlex.join(["coldforge", *options, "invoke", *(model for model in models if model != ".")])
    command = f"try it: {choose_command(f'make invoke MODEL={names}', words)}"
    if described.get("table"):
        row = list(make_row(described).items())
        shown = ", ".join(f"{json_line(name)}: {json_line(value)}" for name, value in row[:_SHOWN_COLUMNS])
        more = ", ..." if len(row) > _SHOWN_COLUMNS else ""
        option = choose_command("INPUTS=FILE", "--inputs FILE")
        return f'{command}\n  It sends a row of zeros. {option} sends your own request: {{"row": {{{shown}{more}}}}}'
    tensors = _list_tensor_feeds(described)
    if not tensors and _takes_pairs(described):
        option = choose_command("INPUTS=FILE", "--inputs FILE")
        return f'{command}\n  It sends a pair of texts. {option} sends your own: {{"text": "...", "text_pair": "..."}}'
    if not tensors and (described.get("text") or _takes_text(described)):
        return f'{command}\n  It sends a text. {choose_command("TEXT=", "--text ")}"..." sends your own.'
    if not tensors and not described.get("strings"):
        return f"{command}\n  It sends a photograph. {choose_command('IMAGE=', '--image ')}FILE sends your own."
    named = [(feed["name"], feed["dtype"], feed["shape"]) for feed in tensors]
    named += [(text["name"], "strings", text["shape"]) for text in described.get("strings", [])]
    shapes = ", ".join(f"{json_line(name)}: <{dtype} {shape}>" for name, dtype, shape in named)
    image = '"image": "<base64>", ' if described["image"] else ""
    option = choose_command("INPUTS=FILE", "--inputs FILE")
    return f'{command}\n  It sends zeros. {option} sends your own request: {{{image}"inputs": {{{shapes}}}}}'


def _list_tensor_feeds(described: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the feeds of a model.json that take tensors: all but those of images, text and strings."""
    used = {feed for text in described.get("strings", []) for feed in text["feeds"]}
    used |= {described["image"]["feed"]} if described["image"] else _list_text_feeds(described)
    return [feed for feed in described["feeds"] if feed["name"] not in used]


def _list_text_feeds(described: Mapping[str, Any]) -> set[str]:
    return {name for key, name in (described.get("text") or {}).items() if key in ("ids", "mask", "types")}


def _takes_pairs(described: Mapping[str, Any]) -> bool:
    return bool((described.get("text") or {}).get("pairs"))


_SHOWN_COLUMNS = 4


def make_row(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for a model.json of a table: zeros, empty strings, and the first one of categories."""
    table = described["table"]
    categories, strings = table.get("categories", {}), {text["name"] for text in described.get("strings", [])}
    return {
        name: categories[name][0] if categories.get(name) else "" if name in strings else 0 for name in table["columns"]
    }


def make_zero_inputs(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's ``inputs`` for each feed that takes a tensor; empty where there is no such feed."""
    feeds, strings = _list_tensor_feeds(described), described.get("strings", [])
    inputs = {feed["name"]: {"b64": base64.b64encode(bytes(feed["bytes"])).decode()} for feed in feeds}
    if not _takes_text(described):
        inputs |= {text["name"]: _make_empty_strings(text["shape"]) for text in strings}
    return {"inputs": inputs} if inputs else {}


def _takes_text(described: Mapping[str, Any]) -> bool:
    """Return whether a text alone is enough for a model of strings."""
    strings = described.get("strings", [])
    return len(strings) == 1 and math.prod(strings[0]["shape"][1:]) == 1 and not _list_tensor_feeds(described)


def _make_empty_strings(shape: Sequence[int]) -> Any:
    return [_make_empty_strings(shape[1:]) for _ in range(shape[0])] if shape else ""
