"""Reads programs that ``torch.export`` saved, and writes them as JAX functions with torchax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.importers.frameworks.framework_model import FrameworkModel, distinct_names, make_port
from builder.importers.frameworks.torch_program import convert_to_jax
from builder.importers.loaded import make_names_unique
from builder.importers.ports import ModelPorts, PortInfo

_ATEN = torch.ops.aten
_CAST = {_ATEN._to_copy.default, _ATEN.to.dtype}
_MOVE = _CAST | {
    _ATEN.alias.default, _ATEN.clone.default, _ATEN.contiguous.default, _ATEN.detach.default,
    _ATEN.expand.default, _ATEN.flatten.using_ints, _ATEN.permute.default, _ATEN.reshape.default, _ATEN.squeeze.default,
    _ATEN.squeeze.dim, _ATEN.squeeze.dims, _ATEN.t.default, _ATEN.transpose.int, _ATEN.unflatten.int,
    _ATEN.unsqueeze.default, _ATEN.view.default,
}  # fmt: skip
"""Operators that move the elements of their first argument, and do not change indices; a cast to a narrow type does."""
_INDEX_TYPES = (torch.int32, torch.int64)


def open_torch(path: Path) -> FrameworkModel:
    """Open the program in ``path``, whose code may run. Feeds are named after the arguments of ``forward``.

    Raises ImportModelError for a file that is not from torch.export, and for a model in training mode.
    """
    try:
        program = torch.export.load(path)
    except Exception as error:  # The file may be no zip, have an unknown operator, or be of another version.
        raise ImportModelError(f"{path.name} is not what torch.export.save writes: {describe_error(error)}") from error
    signature = program.graph_signature
    if buffers := list(signature.buffers_to_mutate.values()):
        raise ImportModelError(
            f"{path.name} writes its own buffers ({', '.join(buffers[:3])}): call model.eval() before torch.export."
        )
    ports = ModelPorts(_list_feeds(program, path.name), _list_fetches(program, path.name))

    def make_function() -> Callable[..., Sequence[Any]]:
        return convert_to_jax(program)

    module = program.module()

    def answer(feeds: Sequence[Array]) -> list[Array]:
        tensors = [torch.from_numpy(value.copy()) for value in feeds]
        args, kwargs = pytree.tree_unflatten(tensors, program.call_spec.in_spec)
        with torch.no_grad():
            outputs = pytree.tree_leaves(module(*args, **kwargs))
        return [value.numpy() for value in outputs]

    return FrameworkModel(ports, make_function, answer, channels_first=True)


def _list_feeds(program: Any, file: str) -> tuple[PortInfo, ...]:
    names = list(program.graph_signature.user_inputs)
    ports = _make_ports(program, names, make_names_unique([str(name) for name in names]), file)
    rows = _count_rows(program)
    return tuple(replace(port, rows=rows.get(name)) for port, name in zip(ports, names, strict=True))


def _count_rows(program: Any) -> dict[str, int]:
    """Find the inputs all of whose elements are looked up, and the rows of the (smallest) table of each.

    PyTorch raises on an index outside of the table; the program that is made of the model would take the nearest row.
    """
    rows: dict[str, int] = {}
    mutated = _find_mutated(program)
    for node in program.graph.nodes:
        if node.target is _ATEN.embedding.default:
            (table, indices), axis = node.args[:2], 0
        elif node.target is _ATEN.index_select.default:
            table, axis, indices = node.args
        else:
            continue
        while indices.target in _MOVE and (indices.target not in _CAST or _type_of(indices) in _INDEX_TYPES):
            indices = indices.args[0]
        size = table.meta["val"].size(axis) if table.meta["val"].dim() else 1
        if indices.op != "placeholder" or indices in mutated or _type_of(indices) == torch.bool:
            continue
        if isinstance(size, int):
            rows[indices.name] = min(size, rows.get(indices.name, size))
    return rows


def _find_mutated(program: Any) -> set[Any]:
    """Find the inputs that a call in place may write to, or to what is made of their elements, such as a copy."""
    mutated = set()
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.is_mutable:
            source = node
            while isinstance(source, torch.fx.Node) and source.args:
                source = source.args[0]
            if isinstance(source, torch.fx.Node):  # A join has a list instead.
                mutated.add(source)
    return mutated


def _type_of(node: Any) -> Any:
    return node.meta["val"].dtype


def _list_fetches(program: Any, file: str) -> tuple[PortInfo, ...]:
    names = list(program.graph_signature.user_outputs)
    numbered = pytree.tree_unflatten(list(range(len(names))), program.call_spec.out_spec)
    paths = [path for path, _ in pytree.tree_flatten_with_path(numbered)[0]]
    keys = [[getattr(key, "key", getattr(key, "name", key)) for key in path] for path in paths]
    return _make_ports(program, names, distinct_names(keys, "output"), file)


def _make_ports(program: Any, names: Sequence[Any], visible: Sequence[str], file: str) -> tuple[PortInfo, ...]:
    """Return the ports of nodes, or constants; open dimensions are PyTorch's symbolic ones."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    ports = []
    for shown, name in zip(visible, names, strict=True):
        value = values.get(name, name)
        if not isinstance(value, torch.Tensor):
            raise ImportModelError(
                f"{file}: {shown} is {type(value).__name__}, not a tensor. "
                "Export a module that takes and gives tensors."
            )
        ports.append(make_port(shown, str(value.dtype).removeprefix("torch."), value.shape))
    return tuple(ports)
