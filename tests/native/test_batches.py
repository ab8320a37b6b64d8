"""Several batches in one library: one copy of the weights, a run of each size, and requests cut to suit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.errors import ImportModelError, SpecError
from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.program import BoundPort, Program, Weight
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.weight_store import merge_weights
from builder.config import FeedSpec, ModelSpec, Source, read_spec, render_spec
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph, GraphPort
from builder.importers.spec_checks import require_variants
from handler.budget import RequestLimits
from handler.description import parse_description, split_runs
from handler.errors import InferenceError, StartupError
from handler.model import Model
from handler.protocols.tf_serving import _parse_request
from handler.request import count_items, make_feeds, split_request
from tests.support import abi_library
from tests.support.instrumented import link

BATCHES = (1, 4, 16)
W = np.arange(16, dtype=np.float32)


def program(batch: int, first: bytes = b"") -> Program:
    """y [batch, 4] is x, and w [batch, 4] the weights 12 to 15, which lie behind ``first``."""
    size, at = 16 * batch, len(first)
    shape = (batch, 4)
    weights = (*([Weight(0, first)] if first else []), Weight(at, W.tobytes()))
    used = [Buffer("weights", 0, at)] if first else []
    spare = [CopyStep("first", b, Buffer("arena", 4096, b.size), 4, (b.size // 4,), (1,), (1,)) for b in used]
    return Program(
        steps=(
            *spare,
            CopyStep("y", Buffer("arena", 0, size), Buffer("arena", 1024, size), 4, (batch * 4,), (1,), (1,)),
            CopyStep("w", Buffer("weights", at + 48, 16), Buffer("arena", 2048, size), 4, shape, (0, 1), (4, 1)),
        ),
        feeds=(BoundPort(TensorSpec("x", "float32", shape), Buffer("arena", 0, size)),),
        fetches=(
            BoundPort(TensorSpec("y", "float32", shape), Buffer("arena", 1024, size)),
            BoundPort(TensorSpec("w", "float32", shape), Buffer("arena", 2048, size)),
        ),
        weights=weights,
        arena_size=8192,
        weights_size=at + 64,
    )


SPEC = ModelSpec(Path("model.toml"), "several", "1", Source("graph_def", Path("g.pb")), batches=BATCHES)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    first, *rest = merge_weights([program(1), program(4, bytes(range(64))), program(16)])
    sources = emit_sources(first, SPEC, X86_64, folder, others=dict(zip(SPEC.variants[1:], rest, strict=True)))
    assert sources.weights.stat().st_size == 128
    return link(sources, [], folder)


# The weights.


def test_what_several_programs_have_is_there_once() -> None:
    one, two = merge_weights([program(1), program(4, bytes(range(64)))])
    assert one.weights == two.weights == (Weight(0, W.tobytes()), Weight(64, bytes(range(64))))
    assert one.weights_size == two.weights_size == 128
    assert [s.source.offset for s in two.steps if isinstance(s, CopyStep)] == [64, 0, 48]


def twice(batch: int) -> Program:
    """Reads two weights that are the same."""
    steps = tuple(
        CopyStep(f"{n}", Buffer("weights", 64 * n, 64), Buffer("arena", 64 * n, 64), 4, (16,), (1,), (1,))
        for n in range(2)
    )
    weights = (Weight(0, W.tobytes()), Weight(64, W.tobytes()))
    return replace(program(batch), steps=steps, fetches=(), weights=weights, weights_size=128)


@pytest.mark.parametrize(("share", "places"), [(True, [0, 0]), (False, [0, 64])])
def test_equal_weights_of_one_program_stay_apart_where_they_may_change(share: bool, places: list[int]) -> None:
    found = merge_weights([twice(1), twice(4)], share)
    assert [[s.source.offset for s in p.steps if isinstance(s, CopyStep)] for p in found] == [places, places]
    assert len(found[0].weights) == len(set(places))


def test_what_a_longer_one_begins_with_is_its_start() -> None:
    def reading(*weights: bytes) -> Program:
        starts = [sum(map(len, weights[:number])) for number in range(len(weights))]
        steps = tuple(
            CopyStep(str(at), Buffer("weights", at, len(data)), Buffer("arena", 0, len(data)), 4, (1,), (1,), (1,))
            for at, data in zip(starts, weights, strict=True)
        )
        kept = tuple(Weight(at, data) for at, data in zip(starts, weights, strict=True))
        return replace(program(1), steps=steps, fetches=(), weights=kept, weights_size=sum(map(len, weights)))

    table = np.arange(4096, dtype=np.float32).tobytes()
    other = table[:8191] + b"?"
    short, shorter, small = table[:8192], table[:4096], table[:2048]
    programs = [reading(shorter, small), reading(short, other), reading(table)]
    found = merge_weights(programs)
    assert found[0].weights == (Weight(0, other), Weight(8192, small), Weight(10240, table))
    places = [[s.source.offset for s in p.steps if isinstance(s, CopyStep)] for p in found]
    assert places == [[0, 8192], [10240, 0], [10240]]
    assert merge_weights(programs, share=False)[0].weights_size == sum(map(len, (shorter, small, short, other, table)))


# The library.


@pytest.mark.parametrize("batch", BATCHES)
def test_the_sizes_choose_the_batch(library: Path, batch: int) -> None:
    model = Model(str(library))
    assert model.description.batches == BATCHES
    x = np.random.default_rng(batch).standard_normal((batch, 4)).astype(np.float32)
    y, w = model.run([x.tobytes()])
    np.testing.assert_array_equal(np.frombuffer(y, np.float32).reshape(batch, 4), x)
    np.testing.assert_array_equal(np.frombuffer(w, np.float32).reshape(batch, 4), np.tile(W[12:], (batch, 1)))
    model.close()


@pytest.mark.parametrize("size", [0, 15, 17, 32, 16 * 5, 16 * 17])
def test_other_sizes_are_refused(library: Path, size: int) -> None:
    model = Model(str(library))
    with pytest.raises(InferenceError, match=f"takes 16 or 64 or 256 bytes, not {size}"):
        model.run([bytes(size)])
    model.warm_up()
    model.close()


def test_the_description_and_the_header_name_the_batches(library: Path) -> None:
    described = json.loads((library.parent / "model.json").read_text())
    assert (described["batch"], described["batches"]) == (1, [1, 4, 16])
    assert "It runs 4 or 16 items at once as well" in (library.parent / "model.h").read_text()


# Requests.


@given(st.integers(1, 300), st.sets(st.integers(1, 64), min_size=1, max_size=4))
def test_every_item_is_run_once_and_little_is_padded(count: int, chosen: set[int]) -> None:
    batches = tuple(sorted(chosen))
    found = list(split_runs(count, batches))
    assert sum(found) == count
    for length in found:
        batch = min(b for b in batches if b >= length)
        assert batch == length or 4 * length >= 3 * batch or length < batches[0]


@pytest.mark.parametrize(
    ("count", "batches", "expected"),
    [
        (21, (1, 4, 16), [16, 4, 1]),
        (3, (1, 4, 16), [3]),
        (2, (1, 4, 16), [1, 1]),
        (12, (1, 4, 16), [12]),
        (11, (1, 4, 16), [4, 4, 3]),
        (9, (4,), [4, 4, 1]),
        (2, (4, 16), [2]),
    ],
)
def test_examples_of_runs(count: int, batches: tuple[int, ...], expected: list[int]) -> None:
    assert list(split_runs(count, batches)) == expected


@pytest.mark.parametrize(
    ("count", "batches", "expected"),
    [(15, (1, 4, 16), [4, 4, 4, 1, 1, 1]), (3, (1, 4), [1, 1, 1]), (16, (1, 4, 16), [16]), (7, (4, 16), [4, 3])],
)
def test_nothing_is_filled_up_that_runs_in_parts(count: int, batches: tuple[int, ...], expected: list[int]) -> None:
    assert list(split_runs(count, batches, in_parts=True)) == expected


def test_a_request_is_cut_and_padded_to_batches(library: Path) -> None:
    model = Model(str(library))
    x = np.random.default_rng(0).standard_normal((23, 4)).astype(np.float32)
    request = _parse_request({"x": x.tolist()}, model.description, RequestLimits())
    cut = list(split_request(request, model.description))
    assert [count_items(part, model.description) for part in cut] == [16, 4, 3]
    given = [make_feeds(part.inputs, model.description) for part in cut]
    assert [len(one[0]) // 16 for one in given] == [16, 4, 4]
    found = np.concatenate([np.frombuffer(model.run(one)[0], np.float32).reshape(-1, 4) for one in given])
    np.testing.assert_array_equal(found[:23], x)
    model.close()


def test_a_description_whose_batches_cannot_be_is_refused() -> None:
    described = abi_library.tensor_description() | {"batches": [2, 4]}
    with pytest.raises(StartupError, match="batches"):
        parse_description(json.dumps(described))


# The build.


def graph(batch: int, y: tuple[int, ...]) -> FrozenGraph:
    ports = (
        (GraphPort(TensorSpec("x", "float32", (batch, 4)), "x:0"),),
        (GraphPort(TensorSpec("y", "float32", y), "y:0"),),
    )
    return FrozenGraph(Path("g"), *ports)


def test_everything_must_scale_with_the_batch() -> None:
    several = replace(SPEC, batches=(1, 4))
    require_variants(several, [graph(1, (1, 3)), graph(4, (4, 3))])
    require_variants(replace(SPEC, batch=2, batches=()), [graph(2, ())])
    for one, other in (((3,), (3,)), ((), ()), ((1, 3), (4, 5)), ((1, 3), (1, 3))):
        with pytest.raises(ImportModelError, match=r"'y' is .* where it is 4"):
            require_variants(several, [graph(1, one), graph(4, other)])


def test_what_the_data_decides_is_of_one_batch() -> None:
    def of(batch: int) -> FrozenGraph:
        y = TensorSpec("y", "float32", (batch, 3), (0,))
        return replace(graph(batch, (batch, 3)), fetches=(GraphPort(y, "y:0"),))

    require_variants(replace(SPEC, batch=2, batches=()), [of(2)])
    with pytest.raises(ImportModelError, match=r"data decides the size of 'y'.* one batch"):
        require_variants(replace(SPEC, batches=(1, 4)), [of(1), of(4)])


def test_a_spec_of_one_of_its_batches() -> None:
    spec = replace(SPEC, feeds=(FeedSpec("x", (1, 7)), FeedSpec("t", (7,)), FeedSpec("s", ()), FeedSpec("u")))
    own = spec.of_variant(spec.variants[1])
    assert (own.batch, own.buckets, spec.buckets) == (4, (4,), BATCHES)
    assert [f.shape for f in own.feeds] == [(4, 7), (7,), (), None]
    assert replace(spec, batches=()).alone == replace(spec, batches=())


def test_the_spec_names_batches_once_and_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    text = '[model]\nsource = "a.keras"\nname = "a"\nbatch = {}\n'
    path.write_text(text.format([16, 1, 4]))
    spec = read_spec(path)
    assert (spec.batch, spec.batches) == (1, (1, 4, 16))
    path.write_text(render_spec(spec))
    assert read_spec(path) == spec
    path.write_text(text.format("[4]"))
    assert (read_spec(path).batch, read_spec(path).batches) == (4, ())
    assert "batch = 4\n" in render_spec(read_spec(path))
    for wrong, says in (("[4, 4]", "each must differ"), ("[0, 4]", "from 1 to 4096"), ("[]", "is empty")):
        path.write_text(text.format(wrong))
        with pytest.raises(SpecError, match=says):
            read_spec(path)
