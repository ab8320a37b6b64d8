"""Texts sent by every protocol and event that the function knows, without a network but to S3."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from handler import events, storage
from handler.budget import RequestLimits
from handler.errors import Refusal, make_refusal
from handler.http import HttpRequest
from handler.model import Model
from handler.protocols import respond_to_request
from handler.server import Invocation, Server
from tests.support import s3

URL_EVENT = Path(__file__).parents[2] / "events" / "function_url.json"
JSON = {"content-type": "application/json"}
Options = Mapping[str, Any]
Answers = list[dict[str, Any]]


class RefusedError(Exception):
    """What was sent has been refused, with this code."""


@dataclass
class There:
    """The function with one model, and an S3 where its objects and results are. ``refused``: by the last request."""

    server: Server
    bucket: s3.Bucket
    refused: list[Refusal] = field(default_factory=list)

    def ask(self, way: str, texts: list[Any], options: Options | None = None) -> Answers:
        """The answer to each of ``texts``, sent that way, by output; by fetch where the protocol knows tensors only.

        Raises RefusedError.
        """
        return self.told(lambda: WAYS[way](self, texts, options or {}))

    def told(self, send: Callable[[], Answers]) -> Answers:
        """What ``send`` gives. Raises RefusedError."""
        self.refused.clear()
        found = send()
        if self.refused:
            raise RefusedError(self.refused[-1].code)
        return found

    def call(self) -> Invocation:
        def refuse(error: Exception) -> Refusal:
            self.refused.append(make_refusal(error, "request-1"))
            return self.refused[-1]

        return Invocation("request-1", False, lambda: 15_000, lambda result: None, refuse)

    def event(self, event: object) -> Any:
        answer = events.answer_event(event, self.server, self.call())
        json.dumps(answer, allow_nan=False)  # as Lambda does
        return answer

    def http(self, path: str, body: bytes, headers: Mapping[str, str] = JSON, **query: str) -> Any:
        response = respond_to_request(HttpRequest("POST", path, query, dict(headers), body), self.server, self.call())
        assert (response.status == 200) == (not self.refused)
        return json.loads(response.body)

    def stored(self, key: str, data: bytes) -> Answers:
        """The answers to an object of S3 that has just been written, as they lie among the results."""
        self.bucket.objects = {f"texts/{key}": data}
        object_there = {"bucket": {"name": "texts"}, "object": {"key": key}}
        record = {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": object_there}
        self.event({"Records": [record]})
        return predictions(self.bucket.objects[f"answers/texts/{key}.json"])


@contextmanager
def function(library: Path, limits: RequestLimits) -> Iterator[There]:
    """The function with the model ``library``, for the length of the block."""
    with s3.serving() as bucket, pytest.MonkeyPatch.context() as patch:
        for name, value in (bucket.environment | {"COLDFORGE_RESULTS": "s3://answers"}).items():
            patch.setenv(name, value)
        patch.setattr(storage, "_clients", {})
        model = Model(str(library))
        yield There(Server({model.description.name: model}, limits), bucket)


def predictions(answer: Any) -> Answers:
    """Those in an answer of our own protocol, JSON or not; none where it is an error."""
    if isinstance(answer, bytes | str):
        answer = json.loads(answer)
    found: Answers = answer.get("predictions", [])
    return found


def utf8(text: str | bytes) -> bytes:
    """Half of a surrogate pair too, which UTF-8 does not have; bytes as they are."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def _direct(there: There, texts: list[Any], options: Options) -> Answers:
    return predictions(there.event({"texts": texts, **options}))


def _one_by_one(there: There, texts: list[Any], options: Options) -> Answers:
    return [item for text in texts for item in predictions(there.event({"text": text, **options}))]


def _function_url(there: There, texts: list[Any], options: Options) -> Answers:
    event = json.loads(URL_EVENT.read_text()) | {"body": json.dumps({"texts": texts, **options})}
    return predictions(there.event(event)["body"])


def _query(there: There, texts: list[Any], options: Options) -> Answers:
    chosen = {name: str(value) for name, value in options.items()}
    return predictions(there.http("/predict", encoded({"texts": texts}), **chosen))


def _plain(there: There, texts: list[Any], options: Options) -> Answers:
    chosen = {name: str(value) for name, value in options.items()}
    plain = {"content-type": "text/plain; charset=utf-8"}
    found: Answers = []
    for text in texts:
        found += predictions(there.http("/predict", utf8(text), plain, **chosen))
    return found


def _sqs(there: There, texts: list[Any], options: Options) -> Answers:
    there.bucket.objects = {}
    body = json.dumps({"texts": texts, **options})
    there.event({"Records": [{"eventSource": "aws:sqs", "messageId": "m1", "body": body}]})
    return predictions(there.bucket.objects.get("answers/m1.json", b"{}"))


def _eventbridge(there: There, texts: list[Any], options: Options) -> Answers:
    event = {"id": "e1", "detail-type": "texts", "source": "tests", "detail": {"texts": texts, **options}}
    there.event(event)
    return predictions(there.bucket.objects["answers/e1.json"])


def _s3_text(there: There, texts: list[Any], options: Options) -> Answers:
    assert not options  # an object that is a text has none
    return [item for text in texts for item in there.stored("it.txt", utf8(text))]


def _s3_request(there: There, texts: list[Any], options: Options) -> Answers:
    return there.stored("it.json", encoded({"texts": texts, **options}))


def _step_functions(there: There, texts: list[Any], options: Options) -> Answers:
    event = {"Items": [{"text": text} for text in texts], "BatchInput": dict(options)}
    return [item for answer in there.event(event)["results"] for item in predictions(answer)]


def _batch(there: There, texts: list[Any], options: Options) -> Answers:
    there.bucket.objects = {}
    items = [{"Row": number, "text": text, **options} for number, text in enumerate(texts)]
    there.event({"Batch": 0, "Items": items, "BatchInput": {"Results": "s3://answers/parts/"}})
    _, *lines = there.bucket.objects["answers/parts/00000000.jsonl"].splitlines()
    return [item for line in lines for item in predictions(line)]


def _open_inference(there: There, texts: list[Any], options: Options) -> Answers:
    tensor = {"name": _ids(there), "datatype": "BYTES", "shape": [len(texts)], "data": texts}
    return _outputs(there.http(_path(there, 2), encoded({"inputs": [tensor]})))


def _open_inference_binary(there: There, texts: list[Any], options: Options) -> Answers:
    return _outputs(there.http(_path(there, 2), *binary(_ids(there), texts)))


def binary(name: str, texts: list[str | bytes]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a request whose texts are binary data."""
    data = b"".join(len(one).to_bytes(4, "little") + one for one in map(utf8, texts))
    size = {"binary_data_size": len(data)}
    head = encoded({"inputs": [{"name": name, "datatype": "BYTES", "shape": [len(texts)], "parameters": size}]})
    return head + data, {"inference-header-content-length": str(len(head))}


def _outputs(answer: Any) -> Answers:
    rows: Answers = []
    for output in answer.get("outputs", []):
        count, *item = output["shape"]
        rows = rows or [{} for _ in range(count)]
        each = len(output["data"]) // count
        assert item == [each]
        for number, row in enumerate(rows):
            row[output["name"]] = output["data"][number * each : (number + 1) * each]
    return rows


def _tf_serving_rows(there: There, texts: list[Any], options: Options) -> Answers:
    answer = there.http(_path(there, 1), encoded({"instances": texts}))
    return _named(there, answer.get("predictions", []))


def _tf_serving_columns(there: There, texts: list[Any], options: Options) -> Answers:
    answer = there.http(_path(there, 1), encoded({"inputs": {_ids(there): texts}}))
    found = answer.get("outputs", [])
    if isinstance(found, dict):
        return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
    return _named(there, found)


def _named(there: There, items: list[Any]) -> Answers:
    """An answer of one tensor goes without its name."""
    (first, *_) = there.server.find_description(None).answers
    return [item if isinstance(item, dict) else {first.name: item} for item in items]


def _openai(there: There, texts: list[Any], options: Options) -> Answers:
    answer = there.http("/v1/embeddings", encoded({"input": texts, **options}))
    return [{"embedding": one["embedding"]} for one in answer.get("data", [])]


def _ids(there: There) -> str:
    """What the texts are called where they take the place of a tensor."""
    description = there.server.find_description(None)
    return description.text.ids if description.text else description.text_input


def _path(there: There, version: int) -> str:
    return f"/v{version}/models/{there.server.find_description(None).name}{':predict' if version == 1 else '/infer'}"


OWN: dict[str, Callable[[There, list[Any], Options], Answers]] = {
    "direct": _direct,
    "one by one": _one_by_one,
    "Function URL": _function_url,
    "query": _query,
    "text/plain": _plain,
    "SQS": _sqs,
    "EventBridge": _eventbridge,
    "S3, a text": _s3_text,
    "S3, a request": _s3_request,
    "Step Functions": _step_functions,
    "batch": _batch,
}
"""Ways of our own protocol, whose answers are as ``kind`` says."""
TENSORS: dict[str, Callable[[There, list[Any], Options], Answers]] = {
    "Open Inference": _open_inference,
    "Open Inference, binary": _open_inference_binary,
    "TF Serving, rows": _tf_serving_rows,
    "TF Serving, columns": _tf_serving_columns,
}
"""Ways whose answers are tensors, whatever their ``kind``."""
WAYS = OWN | TENSORS | {"OpenAI": _openai}
BYTES = ("text/plain", "Open Inference, binary", "S3, a text")
"""Ways that carry the bytes of a text, and nothing but texts."""


def floats(text: str) -> list[float]:
    """The float32 in base64."""
    return list(memoryview(base64.b64decode(text)).cast("f"))
