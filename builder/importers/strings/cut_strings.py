"""Cuts a graph that takes strings into steps for the function and a graph that takes numbers.

The front, which becomes steps, holds every op that reads or writes strings, every op that XLA does not compile, and all
ops before these. If the size of a later tensor depends on the strings, the ops that read it belong to the front too.
The cut is therefore at numbers whose shape is always the same, with an item of the batch in each row, or at rows of a
length of their own if the spec says which lengths are compiled. TensorFlow runs the front on strings of many kinds to
find these shapes. Nothing else of the graph runs here, and no op that string_ops.py does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible
from builder.base.tf import load_graph, reference_session, tf
from builder.config import FeedSpec
from builder.importers.graph import StringPort
from builder.importers.loaded import RawGraph, Shape, make_names_unique, tensor_name
from builder.importers.lookup_tables import LookupTable
from builder.importers.rewrite import all_nodes, inline_calls, keep_reachable, node_of, without_side_effects
from builder.importers.strings.probe_strings import ODD, Strings, arrange_strings, known_words, strings_like
from builder.importers.strings.string_frontend import OpenShape, WordCut, shapes_of, with_pads
from builder.importers.strings.string_graph import (
    describe_op,
    find_downstream,
    find_upstream,
    fix_table_sizes,
    has_string_tensors,
    placeholder_of,
    replace_tensors,
)
from builder.importers.strings.string_ops import (
    ALIASES,
    STEPS,
    NotAStepError,
    Recipe,
    encode_constant,
    encode_table,
    translate_op,
)
from builder.importers.variables_state import handle_of
from builder.importers.xla_ops import is_compiled

_LIGHT = ALIASES | {
    "AddV2", "Bitcast", "Cast", "Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalNot",
    "LogicalOr", "NotEqual", "OnesLike", "SelectV2", "Sub", "ZerosLike",
}  # fmt: skip
"""Ops on single numbers, which cost little in the function."""

_SIZES = ("Shape", "Size", "Rank")
RUNS, ITEMS = 6, 200
"""The least number of runs in the examples, and the least number of items."""

_SHOWN = 16
"""The largest number of ops in front that a message names."""


def string_feeds(raw: RawGraph) -> list[str]:
    """Return the names of the feeds that take strings."""
    nodes = {node.name: node for node in raw.graph_def.node}
    return [
        name
        for name, tensor in raw.feeds.items()
        if nodes[node_of(tensor)].attr["dtype"].type == tf.string.as_datatype_enum
    ]


def lengths_of(feeds: Sequence[FeedSpec], strings: Sequence[str]) -> dict[str, FeedSpec]:
    """Return those of ``feeds`` that give lengths for texts, by name.

    ``strings``: the model's feeds that take texts. Raises ImportModelError for lengths of another feed.
    """
    with_lengths = {feed.name: feed for feed in feeds if feed.lengths}
    if wrong := [name for name in with_lengths if name not in strings]:
        raise ImportModelError(
            f"[[feeds]] gives {wrong[0]!r} lengths, and it does not take strings: delete them, or give it shapes."
        )
    return with_lengths


def cut_words(
    raw: RawGraph, shapes: Mapping[str, Shape], fetches: Sequence[str], lengths: Mapping[str, FeedSpec] | None = None
) -> WordCut:
    """Return ``raw`` cut into steps on strings and a graph of numbers.

    ``shapes``: the shapes of its feeds. ``fetches``: the names of the wanted tensors. ``lengths``: the feeds that give
    lengths; a text that becomes one number per word is cut for the first of them. Raises ImportModelError, with a
    drawing of the ops in front, if the function does not support one of them.
    """
    feeds = raw.feeds.values()
    flat = inline_calls(keep_reachable(raw.graph_def, fetches, feeds), [*fetches, *feeds])
    raw = replace(raw, tables={node: table for node, table in raw.tables.items() if not table.of_numbers})
    closed = raw.asserts or any(node.op == "Assert" for node in all_nodes(flat))
    flat = fix_table_sizes(keep_reachable(without_side_effects(flat), fetches, feeds), raw.tables)
    return _Cutter(replace(raw, graph_def=flat), shapes, fetches, closed, lengths or {}).cut_strings()


class _Cutter:
    """The state of cutting ``graph``, a model whose feeds take any number of items.

    ``sources``: the tensors of strings, by feed. ``closed``: whether the model asserts that it knows all words, as
    StringLookup does if it has no index for unknown ones.
    """

    def __init__(
        self,
        raw: RawGraph,
        shapes: Mapping[str, Shape],
        fetches: Sequence[str],
        closed: bool,
        lengths: Mapping[str, FeedSpec],
    ) -> None:
        self.closed, self.lengths = closed, lengths
        self.raw, self.feed_shapes = raw, shapes
        names = string_feeds(raw)
        batches = {shapes[name][:1] for name in names}
        if len(batches) != 1 or batches == {()}:
            raise ImportModelError(
                "The inputs that take strings must begin with the batch, the same for all; they are "
                f"{', '.join(f'{escape_invisible(name)} {list(shapes[name])}' for name in names)}."
            )
        ((self.batch,),) = batches
        self.nodes = {node.name: node for node in raw.graph_def.node}
        self.graph = load_graph(raw.graph_def)
        self.ops = self.graph.get_operations()
        self.fetched = [self.graph.get_tensor_by_name(name) for name in fetches]
        self.sources = {name: self.graph.get_tensor_by_name(raw.feeds[name]) for name in names}
        self.starts = {source.op for source in self.sources.values()}
        self.sizes = self._find_fixed_sizes()
        needed = find_upstream(self.fetched, None)
        self.wide = find_downstream(self.ops, self.starts) & needed
        self.down = find_downstream(self.ops, self.starts, self.sizes) & needed
        needed_names = {op.name for op in needed}
        tables = {name: table for name, table in raw.tables.items() if name in needed_names}
        self.raw = replace(raw, tables=tables)

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of items in the trial runs, or always the batch if the model takes no other number."""
        fixed = any(source.shape.rank and source.shape[0] is not None for source in self.sources.values())
        return (self.batch,) * 5 if fixed else (1, 2, 3, 5, 8)

    def _find_fixed_sizes(self) -> dict[Any, Any]:
        """Return the results of the ops that ask for a size, by op, if the batch alone decides them."""
        with tf.Graph().as_default() as pinned:
            inputs = {
                tensor: tf.compat.v1.placeholder(
                    tf.dtypes.as_dtype(self.nodes[node_of(tensor)].attr["dtype"].type), self.feed_shapes[name]
                )
                for name, tensor in self.raw.feeds.items()
            }
            tf.import_graph_def(self.raw.graph_def, name="", input_map=inputs)
        sizes = {}
        for op in self.ops:
            if op.type in _SIZES:
                shape = pinned.get_operation_by_name(op.name).inputs[0].shape
                if shape.is_fully_defined():
                    value = {"Shape": shape.as_list(), "Size": shape.num_elements(), "Rank": shape.rank}[op.type]
                    sizes[op] = np.array(value, op.outputs[0].dtype.as_numpy_dtype)
        return sizes

    def cut_strings(self) -> WordCut:
        front = self._add_upstream(op for op in self.down if has_string_tensors(op) or not is_compiled(op.type))
        grown: Any = None  # the tensor whose size made the front larger
        while True:
            cuts = self._find_edges(front)
            self._require_steps(front, grown)
            runs = [self.make_probes(count, seed) for seed, count in enumerate(self.counts)]
            numbers = [tensor for tensor in cuts if tensor.dtype != tf.variant]
            shapes = shapes_of(self.raw, numbers, runs)
            varying = [tensor for tensor in cuts if not self._can_be_feed(tensor, shapes)]
            if not varying:
                break
            grown = varying[0]
            if fetched := [tensor for tensor in varying if tensor in self.fetched]:
                raise ImportModelError(
                    f"The answer {fetched[0].name} has another size for each text: {self._describe_front(front)}"
                )
            front |= self._add_upstream(op for op in self.down - front if any(read in varying for read in op.inputs))
        if (larger := self._absorb_light_ops(front)) != front:
            front, cuts = larger, self._find_edges(larger)
            shapes = shapes_of(self.raw, cuts, runs)
        unused = set(self.lengths) - {self._first_source(t) for t in cuts if None in shapes[t.name]}
        if unused:
            raise ImportModelError(
                f"[[feeds]] gives {min(unused)!r} lengths, but what the model makes of a text there always has the "
                "same size: delete them."
            )
        return self._make_cut(front, cuts, shapes)

    def _can_be_feed(self, tensor: Any, shapes: Mapping[str, OpenShape]) -> bool:
        """Return whether ``tensor`` has one shape for all texts, or rows for which the spec gives lengths."""
        shape = shapes.get(tensor.name)
        return shape is not None and (None not in shape or self._first_source(tensor) in self.lengths)

    def _absorb_light_ops(self, front: set[Any]) -> set[Any]:
        """Return ``front`` with the ops on single numbers behind it that do not add tensors to feed."""
        for op in self._order_ops(self.down - front):
            added = self._add_upstream([op]) - front
            tensors = [tensor for node in added for tensor in (*node.inputs, *node.outputs)]
            integral = all(tensor.dtype.is_integer or tensor.dtype.is_bool for tensor in tensors)
            light = added and integral and all(node.type in _LIGHT for node in added)
            if light and len(self._find_edges(front | added)) <= len(self._find_edges(front)):
                front = front | added
        return front

    def make_probes(self, count: int, seed: int, *, odd: bool = False) -> dict[str, Strings]:
        """Return ``count`` items for each tensor of strings; with ``odd``, every second seed gives unusual ones."""
        result = {}
        for number, (name, source) in enumerate(self.sources.items()):
            dependents = find_downstream(self.ops, {source.op})
            words = known_words(self._find_tables(dependents))
            kind = "known" if self.closed and words else _find_string_kind(dependents)
            item = self.feed_shapes[name][1:]
            size = int(np.prod(item, dtype=np.int64)) * count
            if odd and seed % 2 and kind == "text":
                strings = [ODD[(seed * size + at) % len(ODD)] for at in range(size)]
            else:
                strings = strings_like(words, size, kind, 1000 * number + seed)
            result[source.name] = arrange_strings(strings, item)
        return result

    def _find_tables(self, dependents: Collection[Any]) -> dict[str, LookupTable]:
        """Return the tables in which ``dependents`` look strings up, or values computed from them."""
        handles = {handle_of(op.inputs[0].name, self.nodes) for op in dependents if op.type == "LookupTableFindV2"}
        return {name: table for name, table in self.raw.tables.items() if name in handles}

    def _add_upstream(self, ops: Iterable[Any]) -> set[Any]:
        """Return ``ops`` and the ops between the strings and them."""
        return {op for op in find_upstream([t for op in ops for t in op.outputs], self.wide) if op in self.wide}

    def _find_edges(self, front: set[Any]) -> list[Any]:
        """Return the tensors of numbers that leave the front, in the graph's order."""
        later = self.down - front
        inputs = {tensor for op in later for tensor in op.inputs} | set(self.fetched)
        edges = [t for op in self._order_ops(front - self.starts) for t in op.outputs if t in inputs]
        if strings := [t for t in edges if t.dtype == tf.string]:
            raise ImportModelError(f"The answer {strings[0].name} is strings; leave it out with [[fetches]].")
        return edges

    def _require_steps(self, front: Collection[Any], grown: Any) -> None:
        """Raise ImportModelError if the function does not support an op of the front."""
        constants = self._compute_constants(front)
        for op in self._order_ops(front):
            try:
                if op.type not in ALIASES and op not in self.starts:
                    translate_op(op, constants, self._number_table)
            except NotAStepError as error:
                why = f"{describe_op(op)}: {escape_invisible(str(error))}"
                if grown is not None:
                    why += (
                        f". It has to be done with the strings, as the size of {grown.name} depends on them: give the "
                        "model a fixed length (output_sequence_length), or, where a text becomes one row, say for "
                        "which lengths it is compiled: lengths = [16, 64, 256] for "
                        f"{self._first_source(grown)!r} under [[feeds]]"
                    )
                raise ImportModelError(
                    f"What the model does with strings, the function does not do: {why}.\n"
                    f"{self._describe_front(front, op)}"
                ) from error

    def _order_ops(self, front: Collection[Any]) -> list[Any]:
        return [op for op in self.ops if op in front]

    def _number_table(self, handle: Any) -> int:
        """Return the number of a table in the recipe. Raises NotAStepError if its contents are unknown."""
        name = handle_of(handle.name, self.nodes)
        if name not in self.raw.tables:
            raise NotAStepError(
                "nothing says what is in its table; fill it from constants or from a file among the assets"
            )
        return list(self.raw.tables).index(name)

    def _compute_constants(self, front: Collection[Any]) -> dict[Any, NDArray[Any]]:
        """Return the values of the tensors that the front reads and that depend on no feed."""
        inputs = {t for op in front for t in op.inputs if t.op not in self.wide and t.dtype != tf.resource}
        for tensor in inputs:
            ways = find_upstream([tensor], None)
            if fed := [op for op in ways if op.type.startswith(("Placeholder", "VarHandle", "ReadVariable"))]:
                raise ImportModelError(
                    f"What the model does with strings, the function does not do: {tensor.name} depends on "
                    f"{fed[0].name}, which is no input of strings."
                )
            if bad := [op for op in ways if not is_compiled(op.type) and op.type not in STEPS]:
                raise ImportModelError(f"{describe_op(bad[0])} stands before the strings.")
        listed = sorted(inputs, key=lambda tensor: tensor.name)
        if not listed:
            return {}
        with reference_session(self.graph) as session:
            return dict(zip(listed, map(np.asarray, session.run(listed)), strict=True))

    def _make_cut(self, front: set[Any], cuts: Sequence[Any], open_: Mapping[str, OpenShape]) -> WordCut:
        other_feeds = {name: tensor for name, tensor in self.raw.feeds.items() if name not in self.sources}
        sources = {tensor: self._list_sources(tensor) for tensor in cuts}
        names = make_names_unique(["_x_".join(sources[tensor]) for tensor in cuts] + list(other_feeds))
        named = dict(zip(names, cuts, strict=False))
        lengths = {name: self.lengths[sources[t][0]] for name, t in named.items() if None in open_[t.name]}
        shapes = {
            name: (self.batch, *(lengths[name].lengths[0] if size is None else size for size in open_[t.name]))
            for name, t in named.items()
        }
        definition = replace_tensors(
            self.raw.graph_def, {t.name: (name, shapes[name]) for name, t in named.items()}, self.sizes
        )
        placeholders = {t.name: f"{placeholder_of(name)}:0" for name, t in named.items()}
        feeds: dict[str, str] = {}
        for name in self.raw.feeds:
            if name in other_feeds:
                feeds[name] = other_feeds[name]
            feeds |= {feed: placeholders[t.name] for feed, t in named.items() if sources[t][0] == name}
        fetches = {name: placeholders.get(tensor_name(t), t) for name, t in self.raw.fetches.items()}
        definition = keep_reachable(definition, fetches.values(), feeds.values())
        raw = replace(self.raw, graph_def=definition, feeds=feeds, fetches=fetches, tables={})
        inputs = tuple(
            StringPort(
                source, self.feed_shapes[source], tuple(name for name, t in named.items() if source in sources[t])
            )
            for source in self.sources
        )
        count = max(RUNS, ITEMS // self.batch)
        runs = [self.make_probes(self.batch, 100 + number, odd=True) for number in range(count)]
        cut = WordCut(
            raw,
            shapes | {name: self.feed_shapes[name] for name in other_feeds},
            self._make_recipe(front, named),
            self.raw,
            {name: source.name for name, source in self.sources.items()},
            {name: t.name for name, t in named.items()},
            inputs,
            tuple(runs),
        )
        return with_pads(cut, [*lengths], [name for name, feed in lengths.items() if feed.truncate])

    def _list_sources(self, tensor: Any) -> list[str]:
        """Return the feeds of strings that ``tensor`` depends on."""
        ways = find_upstream([tensor], self.wide)
        return [name for name, source in self.sources.items() if source.op in ways]

    def _first_source(self, tensor: Any) -> str:
        return self._list_sources(tensor)[0]

    def _make_recipe(self, front: Collection[Any], cuts: Mapping[str, Any]) -> Recipe:
        constants = self._compute_constants(front)
        recipe = Recipe(
            [{"name": name, "shape": [1, *self.feed_shapes[name][1:]]} for name in self.sources],
            [encode_constant(value) for value in constants.values()],
            [encode_table(table.keys, table.values) for table in self.raw.tables.values()],
        )
        numbers: dict[Any, int] = {t: at for at, t in enumerate([*self.sources.values(), *constants])}
        count = len(numbers)
        for op in self._order_ops(front):
            if op.outputs and op.outputs[0] in numbers:
                continue
            if op.type in ALIASES:
                numbers[op.outputs[0]] = numbers[op.inputs[0]]
                continue
            step = translate_op(op, constants, self._number_table)
            recipe.steps.append(step | {"of": [numbers[op.inputs[at]] for at in step["of"]]})
            numbers |= {tensor: count + at for at, tensor in enumerate(op.outputs)}
            count += len(op.outputs)
        recipe.outputs += [{"feed": name, "value": numbers[tensor]} for name, tensor in cuts.items()]
        recipe.checks += [numbers[tensor] for tensor in self._find_asserted(front, constants)]
        return recipe

    def _find_asserted(self, front: Collection[Any], constants: Mapping[Any, NDArray[Any]]) -> list[Any]:
        """Return the looked-up values, which are -1 for an unknown word, behind the mask that Keras may apply."""
        indices = []
        for op in self._order_ops(front) if self.closed else ():
            if op.type != "LookupTableFindV2" or constants.get(op.inputs[2], np.array(0)).tolist() != -1:
                continue
            (tensor,) = op.outputs
            masked = [user for user in tensor.consumers() if user.type == "SelectV2" and user.inputs[2] is tensor]
            indices.append(masked[0].outputs[0] if masked and masked[0] in front else tensor)
        return indices

    def _describe_front(self, front: Collection[Any], end: Any = None) -> str:
        """Return a description of the ops in front, for a message."""
        ops = [op for op in self._order_ops(front) if not op.type.startswith("Placeholder") and op.type not in ALIASES]
        before = ops[: ops.index(end)] if end in ops else []
        names = list(dict.fromkeys(op.type for op in before if has_string_tensors(op)))
        names = [*names[:_SHOWN], f"[{end.type}]"] if end else names
        return f"  {', '.join(map(escape_invisible, self.sources))} -> " + " -> ".join(map(escape_invisible, names))


def _find_string_kind(dependents: Collection[Any]) -> str:
    """Return the kind of strings that ``dependents`` read: "text", or "whole" or "fraction" for numbers as text."""
    types = {op.outputs[0].dtype.is_integer for op in dependents if op.type == "StringToNumber"}
    return "text" if not types else "whole" if True in types else "fraction"
