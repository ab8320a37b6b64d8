"""Completes a spec from a graph that takes or returns strings: image settings, and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from builder.base.errors import ImportModelError
from builder.base.tf import load_graph
from builder.config import FetchSpec, ImageSpec, ModelSpec, OutputSpec
from builder.importers.images import image_settings
from builder.importers.images import output_labels as labels
from builder.importers.images.cut_decoding import StringCut, find_cut
from builder.importers.loaded import LoadedModel
from builder.importers.ports import ModelPorts
from builder.importers.samples.labelled_samples import decode_image
from builder.importers.strings.frontier import fix_string_sizes, run_graph
from builder.importers.strings.tf_examples import without_examples

SHARE = 0.05
"""The largest allowed effect of the function's own pixels on an answer, as a share of its largest number."""


@dataclass(frozen=True)
class CompletedSpec:
    """A ``spec`` without open questions about strings, and ``lines`` about the results for a person."""

    spec: ModelSpec
    lines: tuple[str, ...]


def complete_spec(loaded: LoadedModel, spec: ModelSpec) -> CompletedSpec:
    """Return ``spec`` with the settings that it lacks for the strings before and after the numbers of ``loaded``.

    Raises ImportModelError, with the ops of the graph or with the deviation, if the function cannot do the same.
    """
    loaded, examples = without_examples(loaded, spec)
    lines, image = [examples.describe_features()] if examples else [], spec.image
    if not loaded.ports.have_strings:
        return CompletedSpec(spec, tuple(lines))
    cut = find_cut(loaded, spec)
    if examples and cut.images:
        raise ImportModelError(
            f"The feature {cut.images.frontier.feed!r} of the tf.Examples holds images: export a signature that "
            "takes the images themselves."
        )
    if cut.images:
        host = image_settings.GraphDecoder(cut.raw, cut.images)
        settings = image and replace(image, feed=cut.images.frontier.feed)
        fitted = image_settings.fit_image_settings(host, settings)
        image = fitted.image
        wanted = [f.name for f in spec.fetches] or [p.name for p in loaded.ports.fetches]
        off = _measure_deviation(cut, host, image, wanted)
        lines.append(image_settings.describe_fit(fitted))
        if off is not None:
            accurate, as_saved = off
            lines.append(
                f"answers to photographs: off by at most {as_saved:.2g} of the largest number in them ({accurate:.2g} "
                "where TensorFlow decodes accurately)"
            )
            if accurate > SHARE:
                raise ImportModelError(
                    "\n".join(lines) + f"\nThat is more than {SHARE:g}: the model's answers depend on what the "
                    "function rounds away. Export a signature that takes pixels."
                )
    lines += [f"the input {name!r} is left out: no number depends on it" for name in cut.unread]
    fetches, outputs = _label_outputs(cut, loaded.ports, spec, lines)
    return CompletedSpec(replace(spec, image=image, fetches=fetches, outputs=outputs), tuple(lines))


def _label_outputs(
    cut: StringCut, ports: ModelPorts, spec: ModelSpec, lines: list[str]
) -> tuple[tuple[FetchSpec, ...], tuple[OutputSpec, ...]]:
    """Return the fetches without those of fixed strings, and an output for each, with its labels."""
    if not cut.tails:
        return spec.fetches, spec.outputs
    graph = load_graph(cut.raw.graph_def)
    fetches = spec.fetches or tuple(FetchSpec(port.name) for port in ports.fetches)
    by_fetch: dict[str, tuple[str, ...]] = {}
    scored: dict[str, tuple[str, ...]] = {}
    gone = set()
    for tail in cut.tails:
        if tail.tensor is not None:
            table = labels.read_label_table(cut, tail)
            by_fetch[tail.fetch] = table.labels
            shown = f"{len(table.labels)} ({_preview_labels(table.labels)})"
            lines.append(f"labels of {tail.fetch!r}: {shown}, by {tail.tensor}")
            scores = [f.name for f in fetches if _is_made_of_scores(graph, cut.raw.fetches[f.name], table.scores)]
            scored |= dict.fromkeys(scores, table.labels)
            continue
        gone.add(tail.fetch)
        if tail.passed:
            lines.append(f"the output {tail.fetch!r} is left out: it is what is fed")
            continue
        fixed = labels.read_fixed_labels(cut, tail, _make_sample_feeds(cut))
        candidates = [fetch.name for fetch in fetches if fetch.name not in gone]
        names = [name for name in candidates if _count_classes(graph, cut.raw.fetches[name]) == len(fixed)]
        scored |= dict.fromkeys(names, fixed)
        lines.append(
            f"labels of {', '.join(map(repr, names)) or 'nothing'}: {len(fixed)} ({_preview_labels(fixed)}), the "
            f"constant strings of {tail.fetch!r}, which is left out"
        )
    fetches = tuple(fetch for fetch in fetches if fetch.name not in gone)
    if not fetches:
        raise ImportModelError("The model gives the same strings whatever it is fed: there is nothing to compile.")
    return fetches, tuple(_add_missing_labels(fetches, spec, by_fetch, scored))


def _add_missing_labels(
    fetches: Sequence[FetchSpec],
    spec: ModelSpec,
    chosen: Mapping[str, tuple[str, ...]],
    scored: Mapping[str, tuple[str, ...]],
) -> list[OutputSpec]:
    """Return the spec's outputs, or one for each fetch if it has none, with labels where they have none."""
    names = {fetch.visible: fetch.name for fetch in fetches}
    outputs = spec.outputs or tuple(OutputSpec(visible, visible) for visible in names)
    labelled = []
    for output in outputs:
        name = names.get(output.fetch or next(iter(names)))
        if name and name in chosen:
            labelled.append(replace(output, kind="label", labels=output.labels or chosen[name]))
        elif name and name in scored and not output.labels and (not spec.outputs or output.kind == "classification"):
            labelled.append(replace(output, kind="classification", labels=scored[name]))
        elif output.fetch is None or name is not None:
            labelled.append(output)
    return labelled


def _measure_deviation(
    cut: StringCut, host: image_settings.GraphDecoder, image: ImageSpec, wanted: Sequence[str]
) -> tuple[float, float] | None:
    """Return how far answers to the function's own pixels are off, as shares of the largest number.

    The first is from TensorFlow's answers with accurate decoding, the second from those with the graph's own. None if
    no answer is of floats.
    """
    assert cut.images is not None
    frontier = cut.images.frontier
    rest = load_graph(fix_string_sizes(cut.raw.graph_def, host.source, cut.images.strings))
    fetched = [rest.get_tensor_by_name(cut.raw.fetches[name]) for name in wanted]
    tensors = [tensor.name for tensor in fetched if tensor.dtype.is_floating]
    other_feeds = {t: v for t, v in _make_sample_feeds(cut).items() if t != host.source}
    most, largest = [0.0, 0.0], 0.0
    for data in image_settings.load_photographs() if tensors else ():
        own = decode_image(data, image)[..., :: -1 if image.channel_order == "bgr" else 1].astype(np.float64)
        own = (own - np.array(image.mean)) * np.array(image.scale)
        count = int(np.prod(cut.images.strings, dtype=np.int64))
        fed = np.broadcast_to(own, (count, *own.shape)).reshape(frontier.shape).astype(frontier.dtype)
        ours = run_graph(rest, tensors, {frontier.tensor: fed} | other_feeds)
        for at, graph in enumerate((host.accurate, host.graph)):
            for a, b in zip(run_graph(graph, tensors, host.make_feeds(data) | other_feeds), ours, strict=True):
                most[at] = max(most[at], float(np.abs(a.astype(np.float64) - b).max(initial=0)))
                largest = max(largest, float(np.abs(a).max(initial=0)))
    return (most[0] / (largest or 1), most[1] / (largest or 1)) if tensors else None


def _make_sample_feeds(cut: StringCut) -> dict[str, Any]:
    """Return a feed for each input, by tensor: a photograph, and zeros."""
    graph = load_graph(cut.raw.graph_def)
    feeds: dict[str, Any] = {}
    for name, tensor in cut.raw.feeds.items():
        if cut.images and name == cut.images.frontier.feed:
            feeds |= image_settings.GraphDecoder(cut.raw, cut.images).make_feeds(image_settings.load_photographs()[0])
            continue
        placeholder = graph.get_tensor_by_name(tensor)
        shape = [size or 1 for size in placeholder.shape.as_list()] if placeholder.shape.rank is not None else [1]
        strings = placeholder.dtype.name == "string"
        feeds[tensor] = np.full(shape, b"", object) if strings else np.zeros(shape, placeholder.dtype.as_numpy_dtype)
    return feeds


def _count_classes(graph: Any, name: str) -> int | None:
    tensor = graph.get_tensor_by_name(name)
    return tensor.shape[-1] if tensor.dtype.is_floating and tensor.shape.rank in (1, 2) else None


def _is_made_of_scores(graph: Any, fetch: str, scores: str | None) -> bool:
    """Return whether a fetch is the tensor ``scores``, an activation of it, or the input of that activation."""
    if scores is None:
        return False
    through = {"Identity", "Softmax", "Sigmoid", "LogSoftmax"}

    def made_of(name: str) -> set[str]:
        tensor = graph.get_tensor_by_name(name)
        names = {tensor.name}
        while tensor.op.type in through:
            tensor = tensor.op.inputs[0]
            names.add(tensor.name)
        return names

    sources, other = made_of(fetch), made_of(scores)
    return bool(sources & other)


def _preview_labels(labels: Sequence[str]) -> str:
    first = ", ".join(label[:30] for label in labels[:3])
    return f"{first}{', ...' if len(labels) > 3 else ''}"
