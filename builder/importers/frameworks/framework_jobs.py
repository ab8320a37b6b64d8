"""Jobs of another framework's process in the sandbox: describe a model, convert it, and answer for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.config import ModelSpec, Source
from builder.config.rules import LEAVES, may_run_code
from builder.config.schema import IDS, TYPES
from builder.importers.frameworks.framework_model import (
    ANSWERED,
    ASKED,
    FrameworkModel,
    load_cases,
    number_strings,
    open_rows,
    save_cases,
)
from builder.importers.loaded import HOW_TO_TRUST, Shape
from builder.importers.ports import LENGTHS, SIDES, GraphFacts, PortInfo, read_image_size
from builder.importers.samples.golden_inputs import list_texts, make_photograph_cases
from builder.importers.shapes import drop_constants, pin_shapes, read_constants
from builder.importers.stablehlo_program import StableHloProgram

_NUMBERS = 1e-4
"""The largest difference of a pixel's number, of those of the darkest and the lightest: a fortieth of a level."""


def describe_ports(source: Source, path: Path) -> dict[str, Any]:
    """Return the ports of the model at ``path`` as JSON values. Raises ImportModelError."""
    model = _open_model(source, path)
    facts = model.ports.facts or GraphFacts(())
    facts = facts if facts.lengths or facts.audio else replace(facts, shapes=_find_shapes(model))
    return asdict(replace(model.ports, facts=facts))


def _find_shapes(model: FrameworkModel) -> dict[str, Shape]:
    """Return shapes that suit the model and at which it answers zeros; none if only the batch is open, or none does."""
    model = model.fix_feeds(
        {feed.name: np.array(feed.value, feed.dtype) for feed in model.ports.feeds if feed.value is not None}
    )
    feeds = [model.ports.fix_batch(feed, 1) for feed in number_strings(model.ports).feeds]
    if all(feed.shape is None or None not in feed.shape[1:] for feed in feeds):
        return {}
    for length, sides in zip(LENGTHS, SIDES, strict=True):
        for rest in (length, 1):  # Sizes of further inputs may be the batch, without its name.
            lengths = [length, *[rest] * (len(feeds) - 1)]
            shapes = [_fill_shape(feed, sides, size) for feed, size in zip(feeds, lengths, strict=True)]
            if _runs(model, [np.zeros(shape, feed.dtype) for shape, feed in zip(shapes, feeds, strict=True)]):
                return {feed.name: shape for feed, shape in zip(feeds, shapes, strict=True)}
    return {}


def _fill_shape(feed: PortInfo, sides: tuple[int, int], length: int) -> Shape:
    """Return the shape of ``feed`` for one item, with ``sides`` for those of an image, ``length`` for others."""
    shape, size = feed.shape or (), read_image_size(feed.shape)
    chosen = iter(side for side, known in zip(sides, size, strict=False) if known is None) if size else repeat(length)
    return tuple(dim or (next(chosen) if number else 1) for number, dim in enumerate(shape))


def _runs(model: FrameworkModel, feeds: Sequence[Array]) -> bool:
    """Return whether the model can be written as a program for ``feeds``, and has answers with elements to them."""
    import jax

    try:
        jax.eval_shape(model.make_function(), *feeds, *model.states.values())
        return all(value.size for value in model.answer(feeds))
    except Exception:  # A build says why.
        return False


def convert_models(specs: Sequence[ModelSpec], path: Path) -> None:
    """Write the program of the model at ``path`` for the shapes of each of ``specs`` into a folder 0, 1, ... here.

    Nothing of the model runs, so all programs are made of one model that is opened once. Raises ImportModelError.
    """
    open_once = cache(partial(_open_once, path))
    for number, spec in enumerate(specs):
        folder = Path.cwd() / str(number)
        folder.mkdir()
        _make_program(spec, _fix_model(spec, partial(open_once, spec.source))).save(folder)


def _open_once(path: Path, source: Source) -> FrameworkModel:
    model = _open_model(source, path)
    return replace(model, make_function=cache(model.make_function))


def _make_program(spec: ModelSpec, model: FrameworkModel) -> StableHloProgram:
    from builder.importers.frameworks.channels_last import make_channels_last
    from builder.importers.frameworks.jax_program import make_program

    shapes = pin_shapes(model.ports, drop_constants(spec))
    function = model.make_function()
    function = make_channels_last(function) if model.channels_first else function
    ports = number_strings(model.ports)
    if model.terms:
        ports, shapes = model.terms.pin_feeds(ports, shapes, spec.feeds)
    program = make_program(function, ports, shapes, model.states)
    return replace(
        program, ports=model.ports, samples=model.samples, vocabularies=model.vocabularies, terms=model.terms
    )


def answer_cases(spec: ModelSpec, path: Path) -> None:
    """Answer the file ASKED of the current folder in a file ANSWERED, case by case in the file's order.

    A case that the framework refuses is left out.
    """
    model, cases = _fix_model(spec, lambda: _open_model(spec.source, path)), load_cases(Path(ASKED))
    if spec.text and model.encode_texts:
        _compare_ids(spec, model, cases)
    if spec.image and model.process_images:
        _compare_pixels(spec, model, cases)
    save_cases(Path(ANSWERED), {case: _answer_or_skip(model, feeds, case) for case, feeds in cases.items()})


def _compare_ids(spec: ModelSpec, model: FrameworkModel, cases: Mapping[str, Sequence[Array]]) -> None:
    """Raise ImportModelError if the framework's tokenizer gives other ids than the function's did for a golden text."""
    assert spec.text
    assert model.encode_texts
    names = [port.name for port in model.ports.feeds]
    named = spec.text.with_feed_names(names)
    ours = {IDS: named.ids, TYPES: named.types}
    for case, feeds in cases.items():
        arrays = dict(zip(names, feeds, strict=True))
        items = list_texts(case, spec.batch, spec.text)
        published = model.encode_texts(items, arrays[named.ids or ""].shape[1]) if items else {}
        for kind, expected in published.items():
            own = arrays.get(ours[kind] or "", np.zeros_like(expected))
            for item, row, other in zip(items, own, expected, strict=True):
                if not np.array_equal(row, other):
                    raise ImportModelError(
                        f"The function's tokenizer and the model's own give different {kind} for {item[0][:60]!r}: "
                        f"{row[:16].tolist()} and {other[:16].tolist()}. The tokenizer's file may not be this model's, "
                        "or the model is not one of pairs of texts."
                    )


def _compare_pixels(spec: ModelSpec, model: FrameworkModel, cases: Mapping[str, Sequence[Array]]) -> None:
    """Raise ImportModelError if the framework makes other numbers of a golden photograph's pixels than [image] says."""
    assert spec.image
    assert model.process_images
    at = [port.name for port in model.ports.feeds].index(spec.image.feed or model.ports.feeds[0].name)
    for case, pixels in make_photograph_cases(spec.image, spec.batch):
        own, published = cases[case][at], model.process_images(pixels)
        if own.shape != published.shape or np.abs(own - published).max() > _NUMBERS * np.ptp(published):
            raise ImportModelError(
                f"[image] and the model's own image processor make different numbers of {case}: "
                f"{own.reshape(-1)[:3].tolist()} and {published.reshape(-1)[:3].tolist()} come first. Write `mean`, "
                "`scale` and `channel_order` as `coldforge init` does."
            )


def _answer_or_skip(model: FrameworkModel, feeds: Sequence[Array], case: str) -> Sequence[Array]:
    try:
        return model.answer(feeds)
    except Exception as error:  # The caller knows which cases may have no answer, e.g. for an index out of range.
        print(f"no answer to {case}: {describe_error(error)}")
        return ()


def _fix_model(spec: ModelSpec, open_model: Callable[[], FrameworkModel]) -> FrameworkModel:
    """Return the model without the inputs to which ``spec`` gives a value, for its batch."""

    def open_fixed() -> FrameworkModel:
        model = open_model()
        return model.fix_feeds(read_constants(model.ports, spec))

    return open_rows(open_fixed, spec.batch)


def _open_model(source: Source, path: Path) -> FrameworkModel:
    if not path.exists():
        raise ImportModelError(f"There is no model at {path}.")
    if source.format == "jax":
        from builder.importers.frameworks.jax_model import open_jax

        return open_jax(path)
    if source.format == "onnx":
        from builder.importers.frameworks.onnx.onnx_model import open_onnx

        return open_onnx(path)
    if source.format == "tflite":
        from builder.importers.frameworks.tflite.tflite_model import open_tflite

        return open_tflite(path, source.signature)
    if source.format in ("xgboost", "lightgbm"):
        from builder.importers.frameworks.tree_model import open_tree_model

        return open_tree_model(path, source.format, source.signature == LEAVES)
    if source.format == "transformers":
        from builder.importers.frameworks.transformers_model import open_transformers

        return open_transformers(path, source.trust, source.signature)
    if source.format == "keras_hub":
        from builder.importers.frameworks.keras_hub_model import open_keras_hub

        return open_keras_hub(path)
    if source.format == "sklearn" and not may_run_code(source.format, path.name):
        return _open_sklearn(source, path)
    if not source.trust:
        raise ImportModelError(
            f"{path.name} may run code when it is loaded. If you trust where it comes from, {HOW_TO_TRUST}."
        )
    if source.format == "sklearn":
        return _open_sklearn(source, path)
    from builder.importers.frameworks.torch_model import open_torch

    return open_torch(path)


def _open_sklearn(source: Source, path: Path) -> FrameworkModel:
    from builder.importers.frameworks.sklearn_model import open_sklearn

    return open_sklearn(path, source.trust, source.signature == LEAVES)
