"""The OpenAPI description, by schemathesis: what it allows is answered, what it forbids is refused, as it says."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from PIL import Image
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.generation import GenerationMode

from builder.package.openapi import IMAGE_TYPES
from handler.budget import RequestLimits
from handler.model import Model
from handler.server import Server
from tests.support import abi_library, vocabulary
from tests.support.http import Client, served

REFUSALS = ["400", "404", "405", "413", "415", "422"]
EXAMPLES = 12  # of each kind for each operation: some twenty seconds in all
MODELS = {
    "pictures": abi_library.picture_description(batch=2),
    "tensors": abi_library.tensor_description(),
    "every dtype": abi_library.echo_description(),
}
TEXTS = ("sentences", "words")
"""Models whose embeddings are of texts: by tokens, and by steps without a tokenizer."""


def picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), 9).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module", autouse=True)
def _pictures() -> None:
    """What schemathesis sends where the description says that a picture is wanted."""
    schemathesis.openapi.format("image-base64", st.just(base64.b64encode(picture()).decode()))
    schemathesis.openapi.format("binary", st.just(picture()))
    for media in IMAGE_TYPES:
        schemathesis.openapi.media_type(media, st.just(picture()))
    load_all_checks()


def client_of(folder: Path, name: str) -> Client:
    if name == "words":
        return Client(Server({"sized": Model(str(vocabulary.write_counter(folder)))}, RequestLimits()))
    if name == "sentences":
        vocabulary.write_prepared(folder / name)
        return Client.of(folder, abi_library.sentence_description(formats=["float32"]))
    return Client.of(folder, MODELS[name])


@pytest.fixture(scope="module", params=[*MODELS, *TEXTS])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Client]]:
    client = client_of(tmp_path_factory.mktemp("openapi"), request.param)
    with served(client) as url:
        yield url, client


def inexact(operation: Any, client: Client) -> bool:
    """JSON Schema cannot say that tensors agree in their numbers of items, nor that data has the shape beside it."""
    models = [model.description for model in client.server.models.values()]
    several = any(model.batched and len(model.feeds) > 1 for model in models)
    return operation.path.endswith(("/infer", "echo:predict")) or (several and operation.path == "/predict")


def check(operation: Any, mode: GenerationMode, client: Client) -> None:
    """Send what schemathesis makes up, and hold the answers against the description."""
    excluded = CHECKS.get_by_names(["positive_data_acceptance"]) if inexact(operation, client) else []

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        case.call_and_validate(excluded_checks=excluded, timeout=10)

    run()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_operation_keeps_to_the_description(server: tuple[str, Client], mode: GenerationMode) -> None:
    url, client = server
    config = schemathesis.Config.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}})
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", config=config)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == (12 if any("/v1/embeddings" in one.path for one in operations) else 11)
    for operation in operations:
        bodiless = not operation.body and not operation.query
        # Where there is nothing to be wrong, nothing wrong can be sent.
        with pytest.raises(Unsatisfiable) if bodiless and mode is GenerationMode.NEGATIVE else nullcontext():
            check(operation, mode, client)
    assert client.failures == []


@pytest.mark.parametrize("name", TEXTS)
def test_embeddings_are_described_where_a_model_makes_them(tmp_path: Path, name: str) -> None:
    document = client_of(tmp_path, name).get("/openapi.json")
    assert "/v1/embeddings" in document["paths"]
    assert "text/plain" in document["paths"]["/predict"]["post"]["requestBody"]["content"]


def test_several_models_in_one_description(tmp_path: Path) -> None:
    client = Client.of(tmp_path, *MODELS.values())
    document = client.get("/openapi.json")
    names = ["brightness", "product", "echo"]
    parameters = {one["name"]: one["schema"] for one in document["paths"]["/predict"]["post"]["parameters"]}
    assert parameters["model"] == {"enum": names}
    assert [f"/v2/models/{name}/infer" in document["paths"] for name in names] == [True] * 3
    ids = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))
    json.dumps(document, allow_nan=False)
