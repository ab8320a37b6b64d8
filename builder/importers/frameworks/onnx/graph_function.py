"""An ONNX graph as a JAX function of its feeds.

What is known when the model is converted (weights, shapes, and all that is computed from them) is a NumPy array; what
depends on a feed is an array that JAX traces. A node whose inputs are all known is computed here, so that arithmetic on
shapes, and conditions on it, are gone from the program. An operator without a function of its own in ``OPERATORS`` is
replaced by the function of other operators by which the ONNX specification defines it, if it has one.

Specification: https://onnx.ai/onnx/repo-docs/IR.html, https://onnx.ai/onnx/operators/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.importers.frameworks.graph_values import Value, is_known, read_array
from builder.importers.frameworks.onnx.ops import OPERATORS
from builder.importers.frameworks.onnx.quantised_patterns import join_quantised
from builder.importers.frameworks.onnx.text_codes import TextCodes
from builder.importers.frameworks.onnx.text_operators import compute_on_texts, holds_texts

_MAX_DEPTH = 64
_SIZED_BY_VALUES = {"Compress", "MelWeightMatrix", "NonMaxSuppression", "NonZero", "Range", "Unique"}
"""Operators the size of whose result depends on values, which must be known; ONNX's reference computes them."""


@dataclass(frozen=True)
class Subgraph:
    """A graph that a node such as If or Loop has as an attribute; calling it runs it in the scope of that node.

    Calling it with a value for each of its inputs returns the values of its outputs.
    """

    graph: GraphProto
    runner: GraphRunner
    scope: Mapping[str, Value]

    def __call__(self, *inputs: Value) -> list[Value]:
        """Return the values of the graph's outputs."""
        names = [value.name for value in self.graph.input]
        scope = {**self.scope, **dict(zip(names, inputs, strict=False))}
        self.runner.run_graph(self.graph, scope)
        return [scope[value.name] for value in self.graph.output]


@dataclass(frozen=True)
class GraphRunner:
    """A runner of the nodes of one scope.

    ``opsets``: the version of each domain of operators. ``functions``: the functions that the file defines.
    ``attributes``: the attributes with which the function that is being run was called. ``depth``: how many functions
    are being run.
    """

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], FunctionProto]
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)
    depth: int = 0

    def run_graph(self, graph: GraphProto, scope: dict[str, Value]) -> None:
        """Add the values of all initializers and nodes of ``graph`` to ``scope``. Raises ImportModelError."""
        for tensor in graph.initializer:
            scope.setdefault(tensor.name, read_tensor(tensor))
        if graph.sparse_initializer:
            raise ImportModelError("The graph has sparse initializers: convert them to dense ones.")
        self.run_nodes(join_quantised(graph), scope)

    def run_nodes(self, nodes: Sequence[NodeProto], scope: dict[str, Value]) -> None:
        """Add the values of ``nodes`` to ``scope``. Raises ImportModelError that names the node at fault."""
        for node in nodes:
            try:
                outputs = self._run_node(node, scope)
            except ImportModelError:
                raise
            except Exception as error:
                raise ImportModelError(f"{describe_node(node)}: {describe_error(error)}") from error
            for name, value in zip(node.output, outputs, strict=False):
                if name:
                    scope[name] = value

    def list_unsupported(self, nodes: Sequence[NodeProto]) -> Iterator[str]:
        """Yield the operators of ``nodes``, and of the graphs in them, that cannot be computed."""
        for node in nodes:
            key = name_domain(node.domain), node.op_type
            known = key in self.functions or key in OPERATORS or (not key[0] and key[1] in _SIZED_BY_VALUES)
            if not known and not _has_definition(*key):
                yield ".".join(filter(None, key))
            for attribute in node.attribute:
                yield from self.list_unsupported(attribute.g.node)

    def _run_node(self, node: NodeProto, scope: Mapping[str, Value]) -> Sequence[Value]:
        node = self._resolve_attributes(node)
        inputs = [scope[name] if name else None for name in node.input]
        domain = name_domain(node.domain)
        operator, function = OPERATORS.get((domain, node.op_type)), self.functions.get((domain, node.op_type))
        if not domain and node.op_type in _SIZED_BY_VALUES:
            if not is_known(*inputs):
                raise ValueError(
                    "the size of its result depends on the values of an input. Export the model without it, with what "
                    "it reads as outputs, such as boxes and scores, and do the rest outside of the model."
                )
            feeds = {name: np.asarray(value) for name, value in zip(node.input, inputs, strict=True) if name}
            return list(ReferenceEvaluator(node, opsets=dict(self.opsets)).run(None, feeds))
        if self.depth > _MAX_DEPTH:
            raise ImportModelError(
                f"{describe_node(node)} is in more than {_MAX_DEPTH} functions that call each other."
            )
        if function is not None or operator is None:
            return self._run_function(function or self._find_definition(node, domain, inputs), node, inputs)
        keys = {attribute.name: self._read_attribute(attribute, scope) for attribute in node.attribute}
        if "opset" in operator.context:
            keys["opset"] = self.opsets.get(domain, 1)
        if "outputs" in operator.context:
            keys["outputs"] = len(node.output)
        if any(map(holds_texts, inputs)):
            return _list_outputs(compute_on_texts(node.op_type, operator.compute, inputs, keys))
        if is_known(*inputs) and not any(isinstance(value, Subgraph) for value in keys.values()):
            with jax.ensure_compile_time_eval():
                return [_to_numpy(value) for value in _list_outputs(operator.compute(*inputs, **keys))]
        return _list_outputs(operator.compute(*inputs, **keys))

    def _resolve_attributes(self, node: NodeProto) -> NodeProto:
        """Return ``node`` with the attributes of the call of this function where it refers to them."""
        if not any(attribute.ref_attr_name for attribute in node.attribute):
            return node
        resolved = NodeProto()
        resolved.CopyFrom(node)
        del resolved.attribute[:]
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                resolved.attribute.append(attribute)
            elif attribute.ref_attr_name in self.attributes:
                resolved.attribute.append(self.attributes[attribute.ref_attr_name])
                resolved.attribute[-1].name = attribute.name
        return resolved

    def _read_attribute(self, attribute: AttributeProto, scope: Mapping[str, Value]) -> Any:
        value = read_attribute(attribute)
        return Subgraph(value, self, scope) if isinstance(value, GraphProto) else value

    def _find_definition(self, node: NodeProto, domain: str, inputs: Sequence[Value]) -> FunctionProto:
        """Return the function by which the specification defines the operator of ``node``."""
        version = self.opsets.get(domain, 1)
        if _has_definition(domain, node.op_type):
            schema = onnx.defs.get_schema(node.op_type, version, domain)
            definition = None
            if schema.has_function:  # One for a later opset means the same, and names its own.
                definition = schema.get_function_with_opset_version(max(version, min(schema.function_opset_versions)))
            elif schema.has_context_dependent_function:
                types = [_describe_type(value).SerializeToString() for value in inputs]
                definition = schema.get_context_dependent_function_with_opset_version(
                    max(version, min(schema.context_dependent_function_opset_versions)), node.SerializeToString(), types
                )
            if definition:
                function = FunctionProto.FromString(definition) if isinstance(definition, bytes) else definition
                defaults = [attribute.default_value for attribute in schema.attributes.values()]
                function.attribute_proto.extend(value for value in defaults if value.type)
                return function
        raise ImportModelError(
            f"{describe_node(node)} is not supported (opset {version} of {domain or 'ai.onnx'}). "
            "See `coldforge docs onnx`."
        )

    def _run_function(self, function: FunctionProto, node: NodeProto, inputs: Sequence[Value]) -> Sequence[Value]:
        attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *node.attribute)}
        opsets = {**self.opsets, **read_opsets(function.opset_import)}
        runner = GraphRunner(opsets, self.functions, attributes, self.depth + 1)
        scope: dict[str, Value] = dict.fromkeys(function.input)
        scope |= dict(zip(function.input, inputs, strict=False))
        runner.run_nodes(function.node, scope)
        return [scope.get(name) for name in function.output]


def name_domain(name: str) -> str:
    """Return the name of a domain of operators, which is "" for ONNX's own."""
    return "" if name == "ai.onnx" else name


def read_opsets(imports: Iterable[Any]) -> dict[str, int]:
    """Return the version of each domain that a model or a function imports."""
    return {name_domain(entry.domain): entry.version for entry in imports}


def _has_definition(domain: str, name: str) -> bool:
    """Say whether the newest specification of an operator is a function of other operators."""
    schema = onnx.defs.get_schema(name, domain=domain) if onnx.defs.has(name, domain) else None
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def read_tensor(tensor: TensorProto) -> Value:
    """Return the array of ``tensor``; one of strings has the type object."""
    return numpy_helper.to_array(tensor)


def read_attribute(attribute: AttributeProto) -> Any:
    """Return the value of an attribute: a number, a string, an array, a graph, or a list of them."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, TensorProto):
        return read_tensor(value)
    if isinstance(value, bytes):
        return value.decode()
    if attribute.type == AttributeProto.STRINGS:
        return [text.decode() for text in value]
    return list(value) if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value


def describe_node(node: NodeProto) -> str:
    """Return the words that name ``node`` in a message."""
    name = node.name or (node.output[0] if node.output else "")
    return f'the {node.op_type} node "{name}"'


def _list_outputs(value: Any) -> Sequence[Value]:
    """Return what a function of an operator returned as a sequence of outputs."""
    return value if isinstance(value, (tuple, list)) else (value,)


def _to_numpy(value: Value) -> Value:
    if isinstance(value, TextCodes):
        return TextCodes(read_array(value.codes), value.texts)
    return None if value is None else read_array(value)


def _describe_type(value: Value) -> Any:
    if value is None:
        return onnx.TypeProto()
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), np.shape(value))
