"""Several signatures in one library: what model.toml says of each, the C ABI's choice, and the protocols' names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import ImportModelError, SpecError
from builder.base.targets import X86_64
from builder.compiler.abi import CF_ERR_ARGUMENT, CF_OK
from builder.compiler.audit import audit_file
from builder.compiler.emit import emit_sources
from builder.compiler.lower.program import BoundPort, Program, Weight
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.weight_store import merge_weights
from builder.config import FeedSpec, FetchSpec, ModelSpec, OutputSpec, SignatureSpec, Source, read_spec, render_spec
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph
from builder.importers.graph import GraphPort as GraphPort
from builder.importers.spec_checks import require_variants
from builder.package import openapi
from builder.verify.library.loaded_library import BufferSlot, Bytes, LoadedLibrary, Refused
from builder.verify.library.loaded_library import GuardedBuffer as GuardedBuffer
from builder.verify.library.remote_library import RemoteLibrary
from builder.verify.target_runner import build_runner
from handler.budget import RequestLimits
from handler.description import Description, parse_description
from handler.errors import HandlerError, InferenceError, WrongFieldError, WrongTypeError
from handler.model import Model
from handler.protocols import open_inference, predict, tf_serving
from tests.native.test_sizes import accepts
from tests.support.instrumented import link

W = np.arange(16, dtype=np.float32)
SPEC = ModelSpec(
    Path("model.toml"),
    "coder",
    "1",
    Source("saved_model", Path("m"), signature="encode"),
    batches=(1, 2),
    signatures=(SignatureSpec("decode", outputs=(OutputSpec("kind", "z", "classification", ("a", "b")),)),),
)


def encode(batch: int) -> Program:
    """z [batch, 2] is the first half of x [batch, 4]'s numbers, whatever their rows."""
    size = 16 * batch
    return Program(
        steps=(
            CopyStep("z", Buffer("arena", 0, size // 2), Buffer("arena", 1024, size // 2), 4, (2 * batch,), (1,), (1,)),
        ),
        feeds=(BoundPort(TensorSpec("x", "float32", (batch, 4)), Buffer("arena", 0, size)),),
        fetches=(BoundPort(TensorSpec("z", "float32", (batch, 2)), Buffer("arena", 1024, size // 2)),),
        weights=(Weight(0, W.tobytes()),),
        arena_size=4096,
        weights_size=64,
    )


def decode(batch: int) -> Program:
    """y [batch, 4] is x [batch, 4], v [batch, 1] is n [batch, 1], z [batch, 2] the weights 12 and 13 in each row."""
    size = 16 * batch
    return Program(
        steps=(
            CopyStep("y", Buffer("arena", 0, size), Buffer("arena", 1024, size), 4, (4 * batch,), (1,), (1,)),
            CopyStep("v", Buffer("arena", 512, size // 4), Buffer("arena", 2048, size // 4), 4, (batch,), (1,), (1,)),
            CopyStep("z", Buffer("weights", 48, 8), Buffer("arena", 3072, size // 2), 4, (batch, 2), (0, 1), (2, 1)),
        ),
        feeds=(
            BoundPort(TensorSpec("x", "float32", (batch, 4)), Buffer("arena", 0, size)),
            BoundPort(TensorSpec("n", "int32", (batch, 1)), Buffer("arena", 512, size // 4)),
        ),
        fetches=(
            BoundPort(TensorSpec("y", "float32", (batch, 4)), Buffer("arena", 1024, size)),
            BoundPort(TensorSpec("v", "int32", (batch, 1)), Buffer("arena", 2048, size // 4)),
            BoundPort(TensorSpec("z", "float32", (batch, 2)), Buffer("arena", 3072, size // 2)),
        ),
        weights=(Weight(0, W.tobytes()),),
        arena_size=4096,
        weights_size=64,
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coder")
    programs = [(encode, decode)[variant.signature](variant.batch) for variant in SPEC.variants]
    first, *rest = merge_weights(programs)
    sources = emit_sources(first, SPEC, X86_64, folder, others=dict(zip(SPEC.variants[1:], rest, strict=True)))
    return link(sources, [], folder)


@pytest.fixture(scope="module")
def described(library: Path) -> Description:
    return parse_description((library.parent / "model.json").read_text())


# The library.


@pytest.mark.parametrize("batch", [1, 2])
def test_a_run_is_of_the_signature_that_is_named(library: Path, batch: int) -> None:
    model = Model(str(library))
    x = np.random.default_rng(batch).standard_normal((batch, 4)).astype(np.float32)
    n = np.arange(batch, dtype=np.int32)
    for _ in range(2):  # there and back
        (z,) = model.run([x.tobytes()])
        np.testing.assert_array_equal(np.frombuffer(z, np.float32), x.ravel()[: 2 * batch])
        y, v, z = model.run([x.tobytes(), n.tobytes()], signature="decode")
        np.testing.assert_array_equal(np.frombuffer(y, np.float32), x.ravel())
        np.testing.assert_array_equal(np.frombuffer(v, np.int32), n)
        np.testing.assert_array_equal(np.frombuffer(z, np.float32), np.tile(W[12:14], batch))
    with pytest.raises(InferenceError, match="takes 1 feeds, not 2"):
        model.run([x.tobytes(), n.tobytes()])
    with pytest.raises(InferenceError, match=f"feed n takes {4 * batch} bytes, not 3"):
        model.run([x.tobytes(), bytes(3)], signature="decode")
    with pytest.raises(WrongFieldError, match='there is no signature "embed"; choose from "encode", "decode"'):
        model.run([x.tobytes()], signature="embed")
    model.warm_up()
    model.close()


@pytest.mark.parametrize("remote", [False, True])
def test_the_abi_refuses_an_unknown_name_and_goes_on(library: Path, remote: bool, tmp_path: Path) -> None:
    command = [str(build_runner(X86_64, tmp_path))] if remote else []
    loaded = RemoteLibrary(command, str(library)) if remote else LoadedLibrary(str(library))
    _, model, _ = loaded.open()
    x, n, outputs = np.arange(4, dtype=np.float32), np.arange(1, dtype=np.int32), (16, 4, 8)

    def decoded() -> int:
        feeds = [_slot(x.view(np.uint8)), _slot(n.view(np.uint8))]
        fetches = [_slot(np.zeros(size, np.uint8)) for size in outputs]
        status, _ = loaded.run(model, feeds, fetches, (2, 3))
        return status

    assert decoded() == CF_ERR_ARGUMENT
    loaded.set_signature(model, "decode")
    assert decoded() == CF_OK
    with pytest.raises(Refused, match="CF_ERR_ARGUMENT: there is no signature embed; there is encode, decode"):
        loaded.set_signature(model, "embed")
    assert decoded() == CF_OK
    loaded.set_signature(model, "encode")
    assert decoded() == CF_ERR_ARGUMENT
    loaded.close(model)


def _slot(data: Bytes) -> BufferSlot:
    return BufferSlot(GuardedBuffer.from_data(data, 0), data.size)


def test_only_a_library_of_several_exports_the_function(library: Path, tmp_path: Path) -> None:
    assert audit_file(library, X86_64).facts.exports.count("cf_set_signature") == 1
    one = emit_sources(merge_weights([encode(1)])[0], replace(SPEC, signatures=(), batches=()), X86_64, tmp_path)
    made = link(one, [], tmp_path)
    assert "cf_set_signature" not in audit_file(made, X86_64).facts.exports


def test_the_description_and_the_header_tell_every_signature(library: Path, described: Description) -> None:
    told = json.loads((library.parent / "model.json").read_text())
    assert (told["signature"], [one["signature"] for one in told["signatures"]]) == ("encode", ["decode"])
    assert [port["name"] for port in told["feeds"]] == ["x"]
    assert [port["name"] for port in told["signatures"][0]["feeds"]] == ["x", "n"]
    assert told["signatures"][0]["outputs"][0]["labels"] == ["a", "b"]
    assert told["batches"] == [1, 2]
    header = (library.parent / "model.h").read_text()
    assert (
        "/* Signature decode, after cf_set_signature:\n *   x float32 [1, 4] of 16 bytes, n int32 [1, 1] of 4" in header
    )
    (decoder,) = described.others
    assert (decoder.signature, decoder.batches, decoder.batched) == ("decode", (1, 2), True)


# Requests.

X = [[1.0, 2.0, 3.0, 4.0]]


def body(protocol: str, name: str) -> dict[str, Any]:
    inputs: dict[str, Any] = {"x": X, "n": [[3]]} if name == "decode" else {"x": X}
    if protocol == "predict":
        return {"inputs": inputs, **({"signature": name} if name else {})}
    tensors = [
        {"name": n, "shape": [1, len(v[0])], "datatype": "FP32" if n == "x" else "INT32", "data": v[0]}
        for n, v in inputs.items()
    ]
    return {"inputs": tensors, **({"parameters": {"signature": name}} if name else {})}


@pytest.mark.parametrize("name", ["", "encode", "decode"])
def test_our_protocol_names_a_signature(described: Description, name: str) -> None:
    request = predict.parse_event(body("predict", name), described, RequestLimits())
    assert request.signature == (name or "encode")
    assert set(request.inputs) == ({"x", "n"} if name == "decode" else {"x"})


@pytest.mark.parametrize("name", ["embed", 3])
def test_an_unknown_signature_is_refused(described: Description, name: object) -> None:
    with pytest.raises((WrongFieldError, WrongTypeError)):
        predict.parse_event({"inputs": {"x": X}, "signature": name}, described, RequestLimits())
    with pytest.raises(HandlerError):
        tf_serving._select_signature(name, described)


def test_tensorflow_serving_names_a_signature(described: Description) -> None:
    assert tf_serving._select_signature("decode", described).signature == "decode"
    assert tf_serving._select_signature("", described).signature == "encode"
    usual = described._replace(others=(described.others[0]._replace(signature="serving_default"),))
    assert tf_serving._select_signature("", usual).signature == "serving_default"
    found = tf_serving.describe_model(described)["metadata"]["signature_def"]["signature_def"]
    assert {name: list(one["inputs"]) for name, one in found.items()} == {"encode": ["x"], "decode": ["x", "n"]}


def test_the_open_inference_protocols_parameter_names_a_signature(described: Description) -> None:
    decoder = described.select_signature("decode")
    request = open_inference._parse_request(
        body("inference", "decode"), memoryview(b""), decoder, RequestLimits(), lambda *_: None
    )
    assert (request.signature, set(request.inputs)) == ("decode", {"x", "n"})


@pytest.mark.parametrize("name", ["", "decode"])
def test_the_openapi_document_has_every_signature(described: Description, name: str) -> None:
    document = openapi.make_document([described], RequestLimits())
    assert accepts(document, "/predict", body("predict", name))
    assert accepts(document, "/v2/models/coder/infer", body("inference", name))
    rows = {"instances": [{"x": X[0], "n": [3]}] if name else X}
    assert accepts(document, "/v1/models/coder:predict", rows | ({"signature_name": name} if name else {}))
    # Without its name, another signature's inputs are nobody's.
    assert accepts(document, "/v1/models/coder:predict", rows) == (not name)
    assert accepts(document, "/predict", {"inputs": body("predict", name)["inputs"]}) == (not name)


# model.toml.

TEXT = '[model]\nsource = "m"\nformat = "saved_model"\nname = "a"\n'


def spec_of(path: Path, more: str) -> ModelSpec:
    (path / "model.toml").write_text(TEXT + more)
    return read_spec(path / "model.toml")


BOTH = """signature = ["encode", "decode"]
[[feeds]]
name = "x"
shape = [1, 4]
[[feeds]]
name = "x"
signature = "decode"
shapes = [[1, 2], [1, 8]]
[[fetches]]
name = "out"
signature = "decode"
alias = "y"
[[outputs]]
signature = "decode"
fetch = "out"
top_k = 2
"""


def test_the_spec_says_what_belongs_to_which(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, BOTH)
    assert (spec.source.signature, spec.feeds, spec.outputs) == ("encode", (FeedSpec("x", (1, 4)),), ())
    (decoder,) = spec.signatures
    assert decoder.feeds == (FeedSpec("x", (1, 2), ((1, 2), (1, 8))),)
    assert decoder.fetches == (FetchSpec("out", "y"),)
    assert [(output.fetch, output.top_k) for output in decoder.outputs] == [("y", 2)]
    assert [(v.of, v.suffix, v.says) for v in spec.variants] == [
        ("", "", ""),
        ("decode", "-of_decode", "of decode"),
        ("decode", "-of_decode-s1x8", "of decode, with x [1, 8]"),
    ]
    own = spec.of_variant(spec.variants[2])
    assert (own.source.signature, own.feeds, own.signatures) == ("decode", (FeedSpec("x", (1, 8)),), ())
    assert spec.alone.variants == spec.variants[:1]
    (tmp_path / "model.toml").write_text(render_spec(spec))
    assert read_spec(tmp_path / "model.toml") == spec
    assert 'signature = ["encode", "decode"]' in render_spec(spec)


def test_one_signature_is_written_without_brackets(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, 'signature = "embed"\n')
    assert (spec.source.signature, spec.signatures) == ("embed", ())
    assert 'signature = "embed"\n' in render_spec(spec)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('signature = ["a", "a"]\n', '"a" is item 1 too; each must differ'),
        ('signature = ["a.b", "a_b"]\n', "are both a_b in C; leave one of them out"),
        (
            'signature = ["a", "b"]\n[[feeds]]\nname = "x"\nsignature = "c"\n',
            '"c" is not a signature of .*; use a or b',
        ),
        ('[[feeds]]\nname = "x"\nsignature = "c"\n', '"c" is not a signature of .*; name the signatures under'),
        (f'{BOTH}[[feeds]]\nname = "x"\nsignature = "decode"\n', '"x" is taken by line'),
    ],
)
def test_rules_of_signatures(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        spec_of(tmp_path, more)


# The build.


def graph(shape: tuple[int, ...]) -> FrozenGraph:
    port = TensorSpec("x", "float32", shape)
    return FrozenGraph(Path("g"), (GraphPort(port, "x:0"),), (GraphPort(replace(port, name="y"), "y:0"),))


def test_signatures_may_be_alike_but_each_must_scale() -> None:
    fine = [graph((1, 4)), graph((2, 4)), graph((1, 4))]
    require_variants(SPEC, [*fine, graph((2, 4))])
    with pytest.raises(ImportModelError, match="where the batch is 1"):
        require_variants(SPEC, [*fine, graph((1, 4))])
