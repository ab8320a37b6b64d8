"""The frozen graph of a model with the ports that callers see: graph.pb, config.pbtxt, ports.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.arrays import Array, save_arrays
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.base.tf import import_tensorflow, is_large_weight, load_graph, put_constants, take_constants, tf
from builder.config import ModelSpec
from builder.config.tensor import ITEM_SIZES, IndexRange, TensorSpec, c_identifier
from builder.importers.allowed_ops import UnsupportedOpsError
from builder.importers.dilated_convolutions import join_dilated_convolutions
from builder.importers.folding import remove_dead_code
from builder.importers.graph import MODEL_SCOPE, ExamplePort, FrozenGraph, GraphPort, StringPort
from builder.importers.index_ranges import find_index_ranges
from builder.importers.loaded import RawGraph, Shape
from builder.importers.rewrite import (
    called_by,
    find_reachable,
    inline_calls,
    keep_nodes,
    keep_reachable,
    make_canonical,
    map_node_inputs,
    node_of,
    without_side_effects,
)
from builder.importers.rewrites.apply_rewrites import needs_rewriting, rewrite_ops
from builder.importers.rewrites.layout import choose_cpu_rewrite
from builder.importers.shape_bounds import BoundedShape, bound_shapes
from builder.importers.shapes import CAST
from builder.importers.spec_steps import (
    apply_ending,
    dequantise,
    find_ending,
    image_to_input,
    needs_numbers,
    sound_to_input,
)
from builder.importers.variables_state import spec_of, without_debugging
from builder.importers.xla_ops import find_kernels, inspect_ops


def write_frozen(
    raw: RawGraph,
    shapes: Mapping[str, Shape],
    fetches: Mapping[str, str],
    spec: ModelSpec,
    folder: Path,
    strings: tuple[StringPort, ...] = (),
    examples: ExamplePort | None = None,
) -> FrozenGraph:
    """Write the model with static feeds, preprocessing and activations to ``folder``, and return it.

    Its ops may run, so they have to be allowed. ``fetches`` maps the names callers see to those in ``raw.fetches``. The
    function computes some feeds from ``strings``, or all from ``examples``. After a fetch of data-dependent size comes
    one with its shape. Raises ImportModelError where shapes do not fit together, XLA cannot bound a fetch, or the graph
    reads a placeholder that is not a feed.
    """
    tensors = [raw.fetches[name] for name in fetches.values()]
    source = inline_calls(keep_reachable(raw.graph_def, tensors, raw.feeds.values()), [*tensors, *raw.feeds.values()])
    source, weights = take_constants(source, _find_weights(source, raw.feeds.values()))
    constants = {MODEL_SCOPE + name: node for name, node in weights.items()}
    # Control edges order writes, so a graph without state needs none.
    pure = without_debugging if raw.states else without_side_effects
    # It is made canonical here as well, since attributes hold shapes that are no longer true.
    source = pure(keep_reachable(source, tensors, raw.feeds.values()))
    source = make_canonical(keep_reachable(source, tensors, raw.feeds.values()))
    source = remove_dead_code(source, tensors, raw.feeds.values(), pure)
    _refuse_loose_placeholders(source, tensors, {*map(node_of, raw.feeds.values()), *weights})
    media = spec.image or spec.audio
    media_feed = (media.feed or next(iter(raw.feeds))) if media else None
    with tf.Graph().as_default() as graph:
        inputs: dict[str, Any] = {}
        feeds: list[GraphPort] = []
        for name, tensor in raw.feeds.items():
            dtype = _dtype_of(source, tensor)
            if (image := spec.image) is not None and name == media_feed:
                port = TensorSpec(name, "uint8", (spec.batch, image.height, image.width, image.channels))
                placeholder = _make_placeholder(port)
                with tf.name_scope("preprocess"):
                    inputs[tensor] = image_to_input(placeholder, image, dtype, shapes[name])
            elif (audio := spec.audio) is not None and name == media_feed:
                port = TensorSpec(name, "float32", (spec.batch, audio.length))
                placeholder = _make_placeholder(port)
                with tf.name_scope("preprocess"):
                    inputs[tensor] = sound_to_input(placeholder, audio, dtype, shapes[name])
            else:
                port = TensorSpec(name, "float32" if dtype.name in CAST else dtype.name, shapes[name])
                placeholder = _make_placeholder(port)
                inputs[tensor] = placeholder if placeholder.dtype == dtype else tf.cast(placeholder, dtype)
            feeds.append(GraphPort(port, placeholder.name, raw.symbols.get(name, 0)))
        raw_results = _import_graph(source, inputs, tensors)
        results = {}
        for (visible, own), scores in zip(fetches.items(), raw_results, strict=True):
            with tf.name_scope("activation"):
                if own in raw.quantised and needs_numbers(spec, visible, len(fetches)):
                    scores = dequantise(scores, *raw.quantised[own])
                answer = apply_ending(scores, find_ending(spec, visible, len(fetches)), visible)
            if answer.dtype.name in CAST:
                answer = tf.cast(answer, tf.float32)
            results[visible] = tf.identity(answer, name=f"fetch/{c_identifier(visible)}")
        initial = {MODEL_SCOPE + node: variable.value for node, variable in raw.states.items()}
        specs = _fetch_specs(lambda: put_constants(graph.as_graph_def(), constants), feeds, results, initial, spec)
        ports = tuple(GraphPort(fetch, tensor.name) for fetch, tensor in _with_shapes(results, specs))
        complete = graph.as_graph_def()
        feeds = _add_ranges(graph, feeds, ports, raw.ranges)
    port_tensors = [port.tensor for port in (*ports, *feeds)]
    pruned = put_constants(_prune_graph(complete, ports, feeds), constants)
    if needs_rewriting(pruned, choose_cpu_rewrite):  # TensorFlow has to be able to run this graph.
        runnable = rewrite_ops(pruned, choose_cpu_rewrite).definition
        pruned = _prune_graph(inline_calls(runnable, port_tensors), ports, feeds)
    value_nodes = {n.name for n in pruned.node if n.op == "Const"}
    variables = {MODEL_SCOPE + node: name for node, name in raw.variables.items() if MODEL_SCOPE + node in value_nodes}
    states = tuple(GraphPort(spec_of(v), MODEL_SCOPE + node) for node, v in sorted(raw.states.items()))
    frozen = FrozenGraph(
        folder, tuple(feeds), ports, dict(sorted(variables.items())), states, strings, examples=examples
    )
    folder.mkdir(parents=True, exist_ok=True)
    compiled = (raw.replace_program and raw.replace_program(pruned)) or pruned
    compiled = join_dilated_convolutions(compiled, port_tensors)
    compiled = _rewrite_graph(compiled, port_tensors) or compiled
    if compiled is not pruned:
        frozen.original_path.write_bytes(pruned.SerializeToString(deterministic=True))
        pruned = _prune_graph(compiled, ports, feeds)
    frozen.graph_path.write_bytes(pruned.SerializeToString(deterministic=True))
    frozen.config_path.write_text(_format_config(frozen))
    if states:
        save_arrays(frozen.state_path, {str(i): initial[state.tensor] for i, state in enumerate(states)})
    if raw.samples:
        save_arrays(frozen.examples_path, dict(_split_samples(raw.samples, {p.spec.name: p.spec.shape for p in feeds})))
    frozen.save()
    return frozen


def _find_weights(graph_def: Any, feeds: Iterable[str]) -> Callable[[Any], bool]:
    """Return a test for large constants that nothing could fold: all readers read a feed, too, and call no function."""
    readers: dict[str, list[str]] = {node.name: [] for node in graph_def.node}
    for name, sources in map_node_inputs(graph_def.node, control=False).items():
        for source in sources:
            readers.setdefault(source, []).append(name)
    functions = {function.signature.name for function in graph_def.library.function}
    calls = {node.name for node in graph_def.node if functions & {*called_by(node)}}
    safe = find_reachable(map(node_of, feeds), readers) - calls
    passing = {node.name: readers[node.name] for node in graph_def.node if node.op in ("Const", "Identity")}

    def find_ends(name: str) -> set[str]:
        return {reader for passed in find_reachable([name], passing) for reader in readers[passed]} - passing.keys()

    return lambda node: is_large_weight(node) and find_ends(node.name) <= safe


_MOST_SAMPLES = 8
"""The most golden cases that are made of samples."""


def _split_samples(samples: Mapping[str, Array], shapes: Mapping[str, Shape]) -> Iterator[tuple[str, Array]]:
    """Give the arrays ``<case>/<feed>`` of golden cases, a batch of samples each, which begin anew at the end."""
    for case in range(_MOST_SAMPLES):
        for name, values in samples.items():
            batch = shapes[name][0]
            yield f"{case}/{name}", values[np.arange(case * batch, (case + 1) * batch) % len(values)]


def _add_ranges(
    graph: Any, feeds: list[GraphPort], fetches: tuple[GraphPort, ...], hidden: Mapping[str, tuple[IndexRange, ...]]
) -> list[GraphPort]:
    """Return ``feeds`` with the ranges of their indices, from the graph or from ``hidden``."""
    inputs = {op.name: [tensor.op.name for tensor in op.inputs] for op in graph.get_operations()}
    run = find_reachable([node_of(port.tensor) for port in fetches], inputs)
    operations = [op for op in graph.get_operations() if op.name in run]
    ranges = find_index_ranges(operations, {port.tensor: port.spec for port in feeds})
    all_ranges = {port.tensor: hidden.get(port.spec.name, ()) for port in feeds} | ranges
    return [replace(port, spec=replace(port.spec, ranges=all_ranges[port.tensor])) for port in feeds]


def _prune_graph(graph_def: Any, fetches: tuple[GraphPort, ...], feeds: list[GraphPort]) -> Any:
    pruned = keep_reachable(graph_def, [p.tensor for p in fetches], [p.tensor for p in feeds])
    # Every feed stays even if unread, since feeds are part of the ABI.
    needed = _find_needed(pruned, [p.tensor for p in fetches], set()) | {node_of(p.tensor) for p in feeds}
    keep_nodes(pruned.node, needed)
    pruned = make_canonical(pruned)
    for node in pruned.node:
        if node.op == "VarHandleOp":  # tfcompile reads this name, not the node's.
            node.attr["shared_name"].s = node.name.encode()
    return pruned


def _rewrite_graph(graph_def: Any, tensors: list[str]) -> Any | None:
    """Rewrite every op that has a rewrite and keep ``tensors``; return None where nothing changes.

    Raises UnsupportedOpsError for an op that cannot be rewritten here, and that XLA has no kernel for.
    """
    if not needs_rewriting(graph_def):
        return None
    rewriting = rewrite_ops(graph_def)
    refused = [refusal for refusal in rewriting.refused if not find_kernels(refusal[1])]
    if refused:
        raise UnsupportedOpsError(inspect_ops(graph_def, refused=refused))
    return inline_calls(rewriting.definition, tensors) if rewriting.changed else None


def _make_placeholder(port: TensorSpec) -> Any:
    return tf.compat.v1.placeholder(port.dtype, port.shape, name=f"feed/{c_identifier(port.name)}")


def _dtype_of(graph_def: Any, tensor: str) -> Any:
    """Return the dtype of a feed's tensor, which is nearly always, but not necessarily, a placeholder."""
    node = next(n for n in graph_def.node if n.name == node_of(tensor))
    if node.op in ("Placeholder", "PlaceholderWithDefault"):
        return tf.dtypes.as_dtype(node.attr["dtype"].type)
    return load_graph(graph_def).get_tensor_by_name(tensor).dtype


def _import_graph(source: Any, inputs: Mapping[str, Any], tensors: list[str]) -> list[Any]:
    try:
        return list(
            tf.import_graph_def(source, input_map=dict(inputs), return_elements=tensors, name=MODEL_SCOPE.rstrip("/"))
        )
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise ImportModelError(f"The model does not take the shapes it was given: {describe_error(error)}") from error


def _refuse_loose_placeholders(graph_def: Any, tensors: list[str], fed: set[str]) -> None:
    needed = _find_needed(graph_def, tensors, fed)
    loose = sorted(n.name for n in graph_def.node if n.op == "Placeholder" and n.name in needed and n.name not in fed)
    if loose:
        lines = "\n\n".join(f'[[feeds]]\nname = "{name}"' for name in loose)
        raise ImportModelError(
            f"The graph also reads the placeholder{'s' if len(loose) > 1 else ''} {', '.join(loose)}. Feed what it "
            f"reads (or freeze the graph for inference). Add to model.toml:\n\n{lines}\n"
        )


def _find_needed(graph_def: Any, tensors: list[str], fed: set[str]) -> set[str]:
    return find_reachable(map(node_of, tensors), map_node_inputs(graph_def.node) | {name: [] for name in fed})


def _fetch_specs(
    write_graph: Callable[[], Any],
    feeds: list[GraphPort],
    results: Mapping[str, Any],
    state: Mapping[str, Any],
    spec: ModelSpec,
) -> dict[str, TensorSpec]:
    """Return the spec of each of ``results``; XLA and the model's spec bound sizes that depend on the data."""
    for name, tensor in results.items():
        if tensor.dtype.name not in ITEM_SIZES:
            raise ImportModelError(f"The output {name!r} is {tensor.dtype.name}, which cannot be passed to a caller.")
    unknown = [name for name, tensor in results.items() if not tensor.shape.is_fully_defined()]
    bounds: dict[str, BoundedShape] = {}
    if unknown:
        tensors = [results[name].name for name in unknown]
        definition = write_graph()  # with all weights
        definition = _rewrite_graph(definition, [*tensors, *(port.tensor for port in feeds)]) or definition
        shapes = bound_shapes(definition, feeds, tensors, state)
        bounds = dict(zip(unknown, shapes, strict=True))
    most = {fetch.visible: fetch.max_size for fetch in spec.fetches if fetch.max_size is not None}
    for name in most:
        if not (name in bounds and bounds[name].dynamic):
            raise ImportModelError(
                f"[[fetches]] gives {name!r} a max_size, but its size is always the same: delete it."
            )
    specs = {}
    for name, tensor in results.items():
        outline = bounds[name] if name in bounds else BoundedShape(tuple(tensor.shape.as_list()))
        shape = tuple(
            min(size, most.get(name, size)) if at in outline.dynamic else size for at, size in enumerate(outline.shape)
        )
        specs[name] = TensorSpec(name, tensor.dtype.name, shape, outline.dynamic)
    return specs


def _with_shapes(results: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> Iterator[tuple[TensorSpec, Any]]:
    """Yield every fetch and its tensor, and after one of data-dependent size the fetch of its shape."""
    names = {c_identifier(name).lower() for name in results}
    for name, tensor in results.items():
        spec = specs[name]
        yield spec, tensor
        if not spec.dynamic:
            continue
        if c_identifier(spec.shape_fetch).lower() in names:
            raise ImportModelError(
                f"The size of the output {name!r} depends on the data, so {spec.shape_fetch!r} is to say how large it "
                "is, and another output has that name: give one of them an `alias` under [[fetches]]."
            )
        shape = tf.identity(tf.shape(tensor), name=f"fetch/{c_identifier(spec.shape_fetch)}")
        yield TensorSpec(spec.shape_fetch, "int32", (len(spec.shape),)), shape


def _format_config(graph: FrozenGraph) -> str:
    import_tensorflow()
    from google.protobuf import text_format
    from tensorflow.compiler.tf2xla import tf2xla_pb2

    config = tf2xla_pb2.Config()
    for ports, add in ((graph.feeds, config.feed.add), (graph.fetches, config.fetch.add)):
        for port in ports:
            entry = add(name=c_identifier(port.spec.name))
            entry.id.node_name, _, index = port.tensor.rpartition(":")
            entry.id.output_index = int(index)
            entry.type = tf.dtypes.as_dtype(port.spec.dtype).as_datatype_enum
            entry.shape.SetInParent()
            for size in port.spec.shape:
                entry.shape.dim.add(size=size)
    for state in graph.states:
        variable = config.variable.add(node_name=state.tensor, name=c_identifier(state.spec.name))
        variable.type = tf.dtypes.as_dtype(state.spec.dtype).as_datatype_enum
        variable.shape.SetInParent()
        for size in state.spec.shape:
            variable.shape.dim.add(size=size)
    return str(text_format.MessageToString(config))
