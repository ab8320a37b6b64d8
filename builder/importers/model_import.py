"""The import of any trained model as one frozen GraphDef with static feeds."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

from builder.base.errors import ImportModelError
from builder.config import FeedSpec, FetchSpec, ModelSpec, Source
from builder.config.tensor import c_identifier
from builder.importers.graph import FrozenGraph, TablePort
from builder.importers.loaded import LoadedModel
from builder.importers.ports import ModelPorts, PortInfo
from builder.importers.shapes import check_dtype, describe_fixed_batch, pin_shapes
from builder.importers.spec_checks import check_outputs


def import_model(spec: ModelSpec, model_path: Path, folder: Path) -> FrozenGraph:
    """Read the model at ``model_path`` and write its frozen graph into ``folder`` (see ``freeze_model``)."""
    return freeze_model(open_model(spec, model_path), spec, folder)


def open_model(spec: ModelSpec, model_path: Path) -> LoadedModel:
    """Read the model at ``model_path`` as the spec specifies, or raise ImportModelError.

    For a model of another framework, ``model_path`` is the folder with its program: see
    ``builder.importers.frameworks``.
    """
    return open_source(spec.source, model_path, spec.feeds, spec.fetches)


def freeze_model(loaded: LoadedModel, spec: ModelSpec, folder: Path) -> FrozenGraph:
    """Write graph.pb, config.pbtxt and ports.json of a model that was read into ``folder``.

    The graph includes preprocessing and activations of the spec: an image feed is uint8 [batch, height, width,
    channels]. The same model and spec give the same bytes. Raises ImportModelError, and UnsupportedOpsError where the
    graph has ops that cannot be compiled, before any of it runs.
    """
    from builder.importers.allowed_ops import admit_graph
    from builder.importers.constant_feeds import with_constant_feeds
    from builder.importers.freeze import write_frozen
    from builder.importers.images.cut_decoding import without_strings
    from builder.importers.strings.cut_strings import cut_words, lengths_of, string_feeds
    from builder.importers.strings.example_frontend import require_equal_answers
    from builder.importers.strings.string_frontend import write_words
    from builder.importers.strings.tf_examples import without_examples
    from builder.importers.strings.token_spans import with_tokens
    from builder.importers.strings.written_numbers import replace_written_numbers

    origin, warnings = loaded.ports.origin, (*loaded.ports.warnings, *describe_fixed_batch(loaded.ports, spec))
    loaded, spec = with_constant_feeds(loaded, spec)
    loaded, examples = without_examples(loaded, spec)
    terms = loaded.terms
    if loaded.ports.have_strings and not terms:
        loaded = without_strings(loaded, spec)
    shapes = pin_shapes(loaded.ports, spec)
    if terms:
        _, shapes = terms.pin_feeds(loaded.ports, shapes, spec.feeds)
    fetches = _choose_fetches(loaded.ports, spec)
    raw, ports = replace_written_numbers(loaded.freeze(shapes)), loaded.ports
    del loaded
    gc.collect()  # a model and its conversion are in reference cycles, and weights are large
    words, of_words = None, frozenset[str]()
    strings = string_feeds(raw)
    lengths = lengths_of(spec.feeds, [*terms.terms] if terms else strings)
    if strings:
        words = cut_words(raw, shapes, [raw.fetches[name] for name in fetches.values()], lengths)
        # The model's own names of the fetches that have a row for each word of a text.
        tagged = [output.fetch for output in spec.outputs if output.kind == "tokens"]
        of_words = frozenset(fetches[fetch or next(iter(fetches))] for fetch in tagged)
        words = with_tokens(words) if of_words else words
        raw, shapes = words.raw, words.shapes
    definition, feeds = admit_graph(raw.graph_def, [raw.fetches[name] for name in fetches.values()], raw.feeds)
    raw = replace(raw, graph_def=definition, feeds=feeds)
    if words:
        write_words(replace(words, raw=raw), list(fetches.values()), folder, of_words)
    if examples:
        require_equal_answers(examples, words, list(fetches.values()))
    inputs = words.inputs if words else ()
    if terms:
        terms.write_steps(raw.samples, folder)
        raw, inputs = replace(raw, samples=terms.fit_samples(raw.samples, shapes)), terms.make_ports(spec.batch)
    example_port = examples.make_input({*raw.feeds, *(port.name for port in inputs)}) if examples else None
    graph = write_frozen(raw, shapes, fetches, spec, folder, inputs, example_port)
    check_outputs(spec, graph)
    table = _find_table(ports, spec, graph)
    if warnings or origin or table:
        graph = replace(graph, warnings=warnings, origin=origin, table=table)
        graph.save()
    return graph


def _find_table(ports: ModelPorts, spec: ModelSpec, graph: FrozenGraph) -> TablePort | None:
    """Return the columns of the only feed, or all inputs of a model where each has one element for each item.

    Raises ImportModelError where the spec names columns that the model does not have.
    """
    if named_feed := next((feed for feed in spec.feeds if feed.columns), None):
        _require_columns(named_feed, spec, graph)
        own = ports.feeds[0].columns == named_feed.columns
        return _make_table(named_feed.name, ports.feeds[0]) if own else TablePort(named_feed.name, named_feed.columns)
    if spec.image or spec.audio or spec.text:
        return None
    if len(ports.feeds) == 1 and len(graph.feeds) == 1 and (columns := ports.feeds[0].columns):
        named = len(set(columns)) == len(columns) == graph.feeds[0].spec.elements // spec.batch
        return _make_table(graph.feeds[0].spec.name, ports.feeds[0]) if named else None
    computed = {name for port in graph.strings for name in port.feeds}
    shapes = {port.spec.name: port.spec.shape for port in graph.feeds if port.spec.name not in computed}
    shapes |= {port.name: port.shape for port in graph.strings}
    if len(shapes) < 2 or any(shape not in ((spec.batch,), (spec.batch, 1)) for shape in shapes.values()):
        return None
    order = {feed.name: number for number, feed in enumerate(ports.feeds)}  # that of the model's own columns
    return TablePort("", tuple(sorted(shapes, key=lambda name: order.get(name, len(order)))))


def _make_table(name: str, feed: PortInfo) -> TablePort:
    return TablePort(name, feed.columns, feed.categories, feed.unknown, feed.required)


def _require_columns(feed: FeedSpec, spec: ModelSpec, graph: FrozenGraph) -> None:
    """Raise ImportModelError unless the columns of ``feed`` are those of the only input."""
    takes_files = spec.image or spec.audio or spec.text or graph.strings or graph.examples
    port = graph.feeds[0].spec
    if takes_files or len(graph.feeds) > 1:
        why = "which is not all that callers pass"
    elif port.shape != (spec.batch, len(feed.columns)):
        why = f"which has the shape {list(port.shape)}, by {len(feed.columns)} names"
    else:
        return
    raise ImportModelError(f"[[feeds]] names the columns of {feed.name!r}, {why}: correct columns, or delete it.")


def open_source(
    source: Source, path: Path, feeds: tuple[FeedSpec, ...] = (), fetches: tuple[FetchSpec, ...] = ()
) -> LoadedModel:
    """Read the model at ``path``, with these ports if it is a frozen graph, or raise ImportModelError."""
    if not path.exists():
        raise ImportModelError(f"There is no model at {path}.")
    match source.format:
        case "keras" | "h5":
            from builder.importers.keras import open_keras

            return open_keras(source, path)
        case "saved_model":
            from builder.importers.saved_model import open_saved_model

            return open_saved_model(source, path)
        case "graph_def":
            from builder.importers.graph_def import open_graph_def

            return open_graph_def(source, path, feeds, fetches)
        case "jax" | "pytorch" | "transformers" | "keras_hub" | "onnx" | "tflite" | "xgboost" | "lightgbm" | "sklearn":
            from builder.importers.stablehlo_program import open_program

            return open_program(path)


def _choose_fetches(ports: ModelPorts, spec: ModelSpec) -> dict[str, str]:
    """Map the names callers see to the model's own, in the spec's order, or for all outputs."""
    known = {port.name: port for port in ports.fetches}
    problems = [
        f"[[fetches]] names {fetch.name!r}, which is not an output; the outputs are {', '.join(known)}."
        for fetch in spec.fetches
        if fetch.name not in known
    ]
    chosen = {f.visible: f.name for f in spec.fetches} or {name: name for name in known}
    if not chosen:
        problems.append("The model has no outputs.")
    identifiers = [c_identifier(name).lower() for name in ([f.visible for f in spec.fetches] or known)]
    problems += [
        f"Two fetches are called {name!r} once written in C: give one an `alias`."
        for name in sorted({n for n in identifiers if identifiers.count(n) > 1})
    ]
    problems += [
        f"[[outputs]] reads {fetch!r}, which is not a fetch; the fetches are {', '.join(chosen)}."
        for output in spec.outputs
        for fetch in output.fetches
        if fetch is not None and fetch not in chosen
    ]
    if len(chosen) > 1 and any(output.fetch is None for output in spec.outputs):
        problems.append(f"The model has several outputs: add `fetch = ...` under [[outputs]] ({', '.join(chosen)}).")
    problems += [
        p for name in chosen.values() if name in known for p in check_dtype(known[name], "output", spec.source.format)
    ]
    if problems:
        raise ImportModelError("\n".join(problems))
    return chosen
