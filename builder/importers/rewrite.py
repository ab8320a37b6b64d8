"""Transformations of GraphDefs: pruning, inlining, removal of ops for training and debugging, stable names.

Plain functions over the protobuf; unless they say otherwise, they return a new message and keep their argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from builder.base.tf import import_tensorflow, tf
from builder.importers.graph import MODEL_SCOPE

_V1_LOOPS = {"Enter", "RefEnter", "Switch", "RefSwitch"}


def node_of(tensor: str) -> str:
    """Return the node's name in ``node:0``, ``^node`` or, within a function, ``node:output:0``."""
    return tensor.removeprefix("^").partition(":")[0]


def output_number(tensor: str) -> int:
    """Return the last number of ``node:1`` or, in a function, ``node:output:1``; each output must be one tensor."""
    last = tensor.rpartition(":")[2]
    return int(last) if ":" in tensor and last.isdigit() else 0


def output_names(operation: Any) -> list[str]:
    """Return the names of the outputs in a function's body, ``name:number`` by the op's definition, in order."""
    names = []
    for output in operation.op_def.output_arg:
        number, types = output.number_attr, output.type_list_attr
        count = operation.get_attr(number) if number else len(operation.get_attr(types)) if types else 1
        names += [f"{output.name}:{i}" for i in range(count)]
    return names


def source_of(tensor: str, nodes: Mapping[str, Any]) -> str:
    """Find the node or function argument behind ``tensor``, past Identity ops; ``nodes`` may be cyclic."""
    name, seen = node_of(tensor), set[str]()
    while name in nodes and nodes[name].op == "Identity" and nodes[name].input and name not in seen:
        seen.add(name)
        name = node_of(nodes[name].input[0])
    return name


def map_node_inputs(nodes: Iterable[Any], *, control: bool = True) -> dict[str, list[str]]:
    """Return the names of the nodes that each node reads or, if ``control``, waits for."""
    return {n.name: [node_of(i) for i in n.input if control or not i.startswith("^")] for n in nodes}


def find_reachable(start: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the nodes of ``edges`` that are reachable from ``start``, including those of ``start`` itself."""
    todo, seen = list(start), set[str]()
    while todo:
        name = todo.pop()
        if name not in seen and name in edges:
            seen.add(name)
            todo += edges[name]
    return seen


def replace_by_function(
    node: Any,
    name: str,
    library: Any,
    function: Callable[..., Any],
    inputs: Sequence[str],
    input_types: Sequence[Any],
    output_types: Sequence[Any],
) -> None:
    """Turn ``node`` into a call with ``inputs`` of ``function``, which joins ``library`` as ``name``.

    ``function`` maps symbolic tensors of any shape and of the DTypes ``input_types`` to tensors of ``output_types``.
    """

    def scoped(*values: Any) -> Any:
        with tf.name_scope(name):
            return function(*values)

    specs = [tf.TensorSpec(None, dtype) for dtype in input_types]
    traced = library.function.add()
    traced.CopyFrom(tf.function(scoped, autograph=False).get_concrete_function(*specs).function_def)
    traced.signature.name = name
    become_call(node, name, inputs, input_types, output_types)


def become_call(
    node: Any, function: str, inputs: Iterable[str], input_types: Iterable[Any], output_types: Iterable[Any]
) -> None:
    """Turn ``node`` into a call of ``function`` with ``inputs``, between these DTypes."""
    node.op, node.input[:] = "PartitionedCall", [*inputs]
    node.ClearField("attr")
    node.attr["Tin"].list.type.extend(dtype.as_datatype_enum for dtype in input_types)
    node.attr["Tout"].list.type.extend(dtype.as_datatype_enum for dtype in output_types)
    node.attr["f"].func.name = function


def become_constant(node: Any, value: Any) -> None:
    """Turn ``node`` into a constant of the same name."""
    proto = tf.make_tensor_proto(value)
    name = node.name
    node.Clear()
    node.name, node.op = name, "Const"
    node.attr["dtype"].type = proto.dtype
    node.attr["value"].tensor.CopyFrom(proto)


def keep_reachable(graph_def: Any, fetches: Iterable[str], feeds: Iterable[str]) -> Any:
    """Keep the nodes that ``fetches`` need, in their order, without those before a placeholder in ``feeds``."""
    # A feed inside the graph keeps its inputs, which import_graph_def needs; the last pruning removes them.
    keep = find_reachable(map(node_of, (*fetches, *feeds)), map_node_inputs(graph_def.node))
    return _with_called_functions([n for n in graph_def.node if n.name in keep], graph_def)


def keep_called_functions(graph_def: Any) -> Any:
    """Copy ``graph_def`` without the functions of its library that nothing calls."""
    return _with_called_functions(graph_def.node, graph_def)


def _with_called_functions(nodes: Sequence[Any], graph_def: Any) -> Any:
    """Copy ``nodes`` of ``graph_def`` and the functions they call, and nothing else, as weights are large."""
    result = type(graph_def)(versions=graph_def.versions)
    functions = {f.signature.name: f for f in graph_def.library.function}
    result.node.extend(nodes)
    result.library.function.extend(functions[n] for n in _functions_in_call_order(nodes, functions))
    return result


def inline_calls(graph_def: Any, ports: Iterable[str]) -> Any:
    """Replace PartitionedCall and similar ops by their functions' bodies; While, If and Case stay functional."""
    functions = {f.signature.name for f in graph_def.library.function}
    if not any("PartitionedCall" in n.op or n.op in functions for n in graph_def.node):
        return graph_def
    return run_grappler(graph_def, ports, "function")


def run_grappler(graph_def: Any, ports: Iterable[str], optimiser: str) -> Any:
    """Run one of Grappler's optimisers on a GraphDef and keep the tensors ``ports``."""
    import_tensorflow()
    from tensorflow.python.grappler import tf_optimizer

    meta = tf.compat.v1.MetaGraphDef()
    meta.graph_def.CopyFrom(graph_def)  # This is the only copy, as weights are large.
    for node in all_nodes(meta.graph_def):
        # Lowering would turn If and While into Switch and Merge, from which XLA has to rebuild them.
        node.attr.pop("_lower_using_switch_merge", None)
    for function in meta.graph_def.library.function:
        function.attr.pop("api_implements", None)
    meta.collection_def["train_op"].node_list.value.extend(ports)
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    config.graph_options.rewrite_options.optimizers.append(optimiser)
    return tf_optimizer.OptimizeGraph(config, meta)


def without_side_effects(graph_def: Any) -> Any:
    """Remove control edges, and so the assertions and prints that only they keep.

    A frozen graph has no state for them to order. Graphs with TensorFlow 1 loops keep control edges, which
    assign a constant to its loop.
    """
    result = copy_message(graph_def)
    if any(n.op in _V1_LOOPS for n in all_nodes(result)):
        return result
    for node in all_nodes(result):
        node.input[:] = [i for i in node.input if not i.startswith("^")]
    for function in result.library.function:
        function.control_ret.clear()
        del function.signature.control_output[:]
        prune_function(function)
    return result


def drop_unread_optionals(graph_def: Any) -> None:
    """Change ``graph_def`` so that an If's branches return 0 for an Optional that only a gradient would read."""
    variant = tf.variant.as_datatype_enum
    functions = {f.signature.name: f for f in graph_def.library.function}
    scopes = [(graph_def.node, ()), *((f.node_def, f.ret.values()) for f in functions.values())]
    for nodes, results in scopes:
        read = {*results, *(tensor for node in nodes for tensor in node.input)}
        for node in (node for node in nodes if node.op in ("If", "StatelessIf")):
            types = node.attr["Tout"].list.type
            for i in [i for i, dtype in enumerate(types) if dtype == variant]:
                if read.isdisjoint((f"{node.name}:{i}", f"{node.name}:output:{i}", *([node.name] if i == 0 else []))):
                    types[i] = tf.float32.as_datatype_enum
                    for branch in ("then_branch", "else_branch"):
                        _return_zero(functions.get(node.attr[branch].func.name), i)


def _return_zero(function: Any, number: int) -> None:
    if function is None or number >= len(function.signature.output_arg):
        return  # The graph is damaged, and its import will fail.
    output = function.signature.output_arg[number]
    output.type = tf.float32.as_datatype_enum
    zero = function.node_def.add(name=f"{output.name}/unread_{len(function.node_def)}")
    become_constant(zero, np.float32(0))
    function.ret[output.name] = f"{zero.name}:output:0"


def prune_function(function: Any) -> None:
    """Remove the nodes that no result of ``function`` depends on, in place."""
    keep_nodes(
        function.node_def, find_reachable(map(node_of, function.ret.values()), map_node_inputs(function.node_def))
    )


def keep_nodes(nodes: Any, names: Collection[str]) -> None:
    """Remove the other ``nodes`` of a GraphDef or a function, in place."""
    kept = [node for node in nodes if node.name in names]
    del nodes[:]
    nodes.extend(kept)


def make_canonical(graph_def: Any, prefix: str = "function") -> Any:
    """Remove all differences between two imports of one model, and name functions ``<prefix>_<number>``.

    Function names count up in the process that traced them, devices and underscored attributes are notes of the
    placer and the tracer, and debug info holds stack traces.
    """
    result = keep_called_functions(graph_def)
    renamed = {f.signature.name: f"{prefix}_{i}" for i, f in enumerate(result.library.function)}
    for function in result.library.function:
        function.signature.name = renamed[function.signature.name]
        _rename_arguments(function)
        for key in [k for k in function.attr if k.startswith("_")]:
            function.attr.pop(key)
        function.arg_attr.clear()
        function.resource_arg_unique_id.clear()
    for node in all_nodes(result):
        node.device = ""
        node.ClearField("experimental_debug_info")
        node.ClearField("experimental_type")
        for key in [k for k in node.attr if k.startswith("_")]:
            node.attr.pop(key)
        rename_calls(node, renamed)
        for called in _iterate_calls(node):
            called.attr.clear()
    return result


def _rename_arguments(function: Any) -> None:
    """Name arguments and results by position, as tracing names them after the (counted) function."""
    inputs = {a.name: f"argument_{i}" for i, a in enumerate(function.signature.input_arg)}
    # A node with the new name of an argument is renamed.
    nodes = {n.name: f"{n.name}/node" for n in function.node_def if n.name in inputs.values()}
    rename_nodes(function, inputs | nodes)
    results = {}
    for i, output in enumerate(function.signature.output_arg):
        results[f"result_{i}"] = function.ret[output.name]
        output.name = f"result_{i}"
    function.ret.clear()
    function.ret.update(results)


def rename_nodes(function: Any, names: Mapping[str, str]) -> None:
    """Give the nodes and arguments of ``function`` that ``names`` lists their new names, in place."""

    def rename(tensor: str) -> str:
        control, name = ("^" if tensor.startswith("^") else ""), node_of(tensor)
        return control + names.get(name, name) + tensor.removeprefix("^")[len(name) :]

    for named in (*function.signature.input_arg, *function.node_def):
        named.name = rename(named.name)
    for node in function.node_def:
        node.input[:] = map(rename, node.input)
    for results in (function.ret, function.control_ret):
        for output, tensor in list(results.items()):
            results[output] = rename(tensor)


def _functions_in_call_order(nodes: Iterable[Any], functions: Mapping[str, Any]) -> list[str]:
    order: dict[str, None] = {}

    def visit(nodes: Iterable[Any]) -> None:
        for node in nodes:
            for name in called_by(node):
                if name in functions and name not in order:
                    order[name] = None
                    visit(functions[name].node_def)

    visit(nodes)
    return list(order)


def called_by(node: Any) -> Iterator[str]:
    """Yield the node's op and the names in its attributes, which are functions' if the library has them."""
    yield node.op
    yield from (called.name for called in _iterate_calls(node))


def rename_calls(node: Any, names: Mapping[str, str]) -> None:
    """Have ``node`` call the functions that ``names`` lists by their new names."""
    node.op = names.get(node.op, node.op)
    for called in _iterate_calls(node):
        called.name = names.get(called.name, called.name)


def find_functions_with(graph_def: Any, matches: Callable[[Any], bool]) -> set[str]:
    """Find the functions that have a node that ``matches``, or that call such a function."""
    callers: dict[str, list[str]] = {f.signature.name: [] for f in graph_def.library.function}
    for function in graph_def.library.function:
        for called in {name for node in function.node_def for name in called_by(node)} & callers.keys():
            callers[called].append(function.signature.name)
    return find_reachable(
        (f.signature.name for f in graph_def.library.function if any(map(matches, f.node_def))), callers
    )


def _iterate_calls(node: Any) -> Iterator[Any]:
    for key in sorted(node.attr):
        value = node.attr[key]
        if value.HasField("func"):
            yield value.func
        elif value.HasField("list"):
            yield from value.list.func


def all_nodes(graph_def: Any) -> Iterator[Any]:
    """Yield the nodes of ``graph_def``, then those of its functions."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def copy_message(message: Any) -> Any:
    """Copy a GraphDef, one of its functions, or another protobuf."""
    result = type(message)()
    result.CopyFrom(message)
    return result


def keep_cases_functional(graph: Any) -> None:
    """Keep the Case ops of a FuncGraph functional when it is frozen.

    ``convert_variables_to_constants_v2(lower_control_flow=False)`` does so for While and If but forgets Case, and
    XLA cannot read the Switch and Merge nodes that it becomes.
    """
    for operation in graph.get_operations():
        if operation.type in ("Case", "StatelessCase"):
            operation._clear_attr("_lower_using_switch_merge")


def walk_nodes(definition: Any) -> Iterator[tuple[str, Any]]:
    """Yield every node of a GraphDef with its path in the model.

    A function's nodes come once, under the node that calls it first.
    """
    functions = {f.signature.name: f for f in definition.library.function}
    visited: set[str] = set()

    def visit(nodes: Iterable[Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for node in nodes:
            path = prefix + node.name
            if node.op not in functions:
                yield path, node
            for name in called_by(node):
                if name in functions and name not in visited:
                    visited.add(name)
                    yield from visit(functions[name].node_def, f"{path} > ")

    for path, node in visit(definition.node, ""):
        yield path.removeprefix(MODEL_SCOPE), node
