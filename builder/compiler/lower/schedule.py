"""The choice of steps for the fetches: matched layers and pools where their inputs are stored, else XLA's steps.

Values are demanded from the fetches backwards. Where a layer computes a demanded value but does not store it, the layer
is cut there. Where a layer's input is stored nowhere, that match is given up. Then the demands start again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from builder.base.errors import LowerError
from builder.compiler.lower.absorbed_inputs import absorb_factor, absorb_padding
from builder.compiler.lower.attention import Attention, find_attentions
from builder.compiler.lower.fuse import FusionLimits, Layer, match_layer, rank_values
from builder.compiler.lower.hlo import Dag, Value
from builder.compiler.lower.integer_concatenations import IntegerConcatenation, find_integer_concatenations
from builder.compiler.lower.integer_layers import IntegerLayer, find_integer_layers
from builder.compiler.lower.integer_pools import IntegerPool, find_integer_pools
from builder.compiler.lower.integer_sums import IntegerSum, find_integer_sums
from builder.compiler.lower.layers import Core, find_cores
from builder.compiler.lower.normalise import Norm, find_norms
from builder.compiler.lower.pooling import Pool, find_pools, restore_padding
from builder.compiler.lower.thunks import Thunk

Match = Layer | Pool | Norm | Attention | IntegerLayer | IntegerSum | IntegerPool | IntegerConcatenation
Task = Match | Thunk


@dataclass(frozen=True)
class Schedule:
    """Tasks in an order in which they can run, and the reasons why values were not matched."""

    tasks: tuple[Task, ...]
    reasons: dict[Value, str]
    cores: tuple[Core, ...]


@dataclass
class _Findings:
    """The possibilities that the attempts so far have ruled out."""

    stops: set[Value] = field(default_factory=set)
    no_second: set[Value] = field(default_factory=set)
    unpadded: set[Value] = field(default_factory=set)
    unscaled: set[Value] = field(default_factory=set)
    """Cores whose input is stored only as the product with factors of its channels."""
    rejected: dict[Value, str] = field(default_factory=dict)
    unstored: set[Value] = field(default_factory=set)
    """Values that an attention would read, but that nothing stores."""
    summed: set[Value] = field(default_factory=set)
    """Sums of integers that XLA's kernels need."""
    centred: set[Value] = field(default_factory=set)
    """Sums of bytes that nothing stores, while it stores them less their zero point."""

    def count_findings(self) -> int:
        sets = (self.stops, self.no_second, self.unpadded, self.unscaled, self.rejected, self.unstored)
        return sum(map(len, (*sets, self.summed, self.centred)))


def list_inputs(task: Task) -> Iterator[Value]:
    """Yield every value in the arena that a task reads."""
    match task:
        case Layer():
            yield task.core.input
            if task.core.factor is not None:
                yield task.core.factor
            if task.affine.residual is not None:
                yield task.affine.residual
        case Pool() | Norm() | IntegerLayer() | IntegerPool():
            yield task.input
        case IntegerSum() | IntegerConcatenation():
            yield from task.sources
        case Attention() | Thunk():
            yield from (source for source in task.sources if isinstance(source, Value))


def list_outputs(task: Task) -> Iterator[Value]:
    """Yield the base of every value that a task stores."""
    yield from (output for output in task.outputs if output is not None)


def find_makers(tasks: Sequence[Task]) -> dict[Value, Task]:
    """Map each value to the task that stores it, with coldforge's own tasks before XLA's steps."""
    makers: dict[Value, Task] = {}
    for task in sorted(tasks, key=lambda t: isinstance(t, Thunk)):
        for output in list_outputs(task):
            makers.setdefault(output, task)
    return makers


def schedule_tasks(
    dag: Dag, thunks: list[Thunk], product_wanted: Callable[[Core], bool] = lambda core: False
) -> Schedule:
    """Schedule tasks for all of the graph's outputs. Raises LowerError where one cannot be made.

    ``product_wanted``: whether a layer needs its input itself, even where it is a product with factors of channels.
    """
    cores = find_cores(dag)
    rank, pools, norms = rank_values(dag, cores), find_pools(dag), find_norms(dag)
    integers, sums, byte_pools = find_integer_layers(dag), find_integer_sums(dag), find_integer_pools(dag)
    joined = find_integer_concatenations(dag, [*integers, *sums, *byte_pools])
    findings, before = _Findings(), -1
    while findings.count_findings() > before:
        before = findings.count_findings()
        attempt = _ScheduleAttempt(dag, thunks, findings)
        attempt.add_matches([*pools, *norms, *sums, *byte_pools, *joined, *find_attentions(dag, findings.unstored)])
        attempt.add_layers(cores, rank, product_wanted)
        attempt.add_integer_layers(integers)
        tasks = attempt.demand_all()
    return Schedule(tuple(_order_tasks(tasks, thunks, dag)), findings.rejected, tuple(cores))


class _ScheduleAttempt:
    def __init__(self, dag: Dag, thunks: list[Thunk], findings: _Findings) -> None:
        self.dag, self.findings = dag, findings
        self.makers: dict[Value, Task] = {}
        self.inside: dict[Value, tuple[Match, Value | None]] = {}
        for thunk in thunks:
            for output in list_outputs(thunk):
                self.makers.setdefault(output, thunk)

    def add_matches(
        self, tasks: Sequence[Pool | Norm | Attention | IntegerSum | IntegerPool | IntegerConcatenation]
    ) -> None:
        """Add the matched tasks besides layers that earlier attempts did not rule out."""
        for task in tasks:
            if task.value not in self.findings.rejected:
                if isinstance(task, Pool) and task.value in self.findings.unpadded:
                    task = restore_padding(task)
                self._add_task(task, dict.fromkeys(task.inside))

    def add_layers(self, cores: list[Core], rank: dict[Value, int], product_wanted: Callable[[Core], bool]) -> None:
        """Add the layers that end before the values at which earlier attempts failed."""
        limits = FusionLimits(self.findings.stops, self.findings.no_second)
        for core in cores:
            if core.value not in self.findings.rejected:
                chosen = core if core.value in self.findings.unpadded else absorb_padding(core)
                if core.value not in self.findings.unscaled and not product_wanted(core):
                    chosen = absorb_factor(chosen, self.dag)
                layer = match_layer(chosen, self.dag, rank, limits)
                self._add_task(layer, layer.inside)

    def add_integer_layers(self, layers: Sequence[IntegerLayer]) -> None:
        """Add the layers of integers, with what earlier attempts found that they must read and store."""
        for layer in layers:
            if layer.value not in self.findings.rejected:
                rounding = None if layer.value in self.findings.summed else layer.rounding
                centred = layer.value in self.findings.centred
                layer = replace(layer, rounding=rounding, reads_centred=centred)
                self._add_task(layer, dict.fromkeys(layer.inside))

    def _add_task(self, task: Match, inside: dict[Value, Value] | dict[Value, None]) -> None:
        for value, stop in inside.items():
            self.inside[value.base] = (task, stop)
        for output in list_outputs(task):
            self.makers[output] = task

    def demand_all(self) -> list[Task]:
        """Return the tasks that make the fetches, and add all that hinders them to the findings."""
        demanded: dict[int, Task] = {}
        wanted: set[Value] = set()
        pending: list[tuple[Value, Task | None]] = [(output, None) for output in self.dag.outputs]
        while pending:
            value, reader = pending.pop()
            base = value.base
            wanted.add(base)
            if base.op in ("parameter", "constant") and (base.op == "parameter" or reader is None):
                continue
            if base in self.inside:
                self._cut_chain(base)
                continue
            task = self.makers.get(base)
            if task is None:
                self._give_up(value, reader)
            elif id(task) not in demanded:
                demanded[id(task)] = task
                pending += [(source, task) for source in list_inputs(task)]
        for task in demanded.values():
            if isinstance(task, Layer) and task.second is not None and task.second.value.base not in wanted:
                self.findings.no_second.add(task.end.base)
        return list(demanded.values())

    def _cut_chain(self, value: Value) -> None:
        task, stop = self.inside[value]
        if isinstance(task, Layer):
            assert stop is not None
            self.findings.stops.add(stop)
        elif isinstance(task, IntegerLayer):
            self.findings.summed.add(task.value)
        else:
            self.findings.rejected[task.value] = f"XLA's kernels need {value} on the way"

    def _give_up(self, value: Value, reader: Task | None) -> None:
        match reader:
            case Layer() if reader.affine.residual is not None and value.base is reader.affine.residual.base:
                assert reader.before_residual is not None
                self.findings.stops.add(reader.before_residual)
            case Layer() if reader.core.factor is not None:
                self.findings.unscaled.add(reader.core.value)
            case Layer() if reader.core.absorbed is not None:
                self.findings.unpadded.add(reader.core.value)
            case Pool() if reader.around != (0, 0, 0, 0):
                self.findings.unpadded.add(reader.value)
            case Layer():
                self.findings.rejected[reader.core.value] = f"its input {value} is only inside XLA's kernels"
            case IntegerLayer() if not reader.reads_centred:
                self.findings.centred.add(reader.value)
            case Attention():
                self.findings.unstored.add(value.base)
            case Pool() | Norm() | IntegerLayer() | IntegerSum() | IntegerPool() | IntegerConcatenation():
                self.findings.rejected[reader.value] = f"its input {value} is only inside XLA's kernels"
            case _:
                raise LowerError(f"nothing stores {value}")


def _order_tasks(tasks: list[Task], thunks: list[Thunk], dag: Dag) -> list[Task]:
    """Order the tasks so that each comes after those that it reads from, and otherwise as XLA does."""
    by_output = {output: thunk.number for thunk in thunks for output in list_outputs(thunk)}

    def position(task: Task) -> int:
        if isinstance(task, Thunk):
            return task.number
        value = task.core.value if isinstance(task, Layer) else task.value
        while value.base not in by_output:  # It is fused into a kernel, and takes that position.
            users = dag.users[value]
            if not users:
                return len(thunks)
            value = users[0]
        return by_output[value.base]

    makers = find_makers(tasks)
    waiting: dict[int, set[int]] = {}
    readers: dict[int, list[Task]] = {id(task): [] for task in tasks}
    for task in tasks:
        needed = {id(makers[v.base]) for v in list_inputs(task) if v.base in makers}
        waiting[id(task)] = needed.copy()
        for maker in needed:
            readers[maker].append(task)
    positions = {id(task): (position(task), number) for number, task in enumerate(tasks)}
    by_id = {id(task): task for task in tasks}
    ready = [(positions[key], key) for key, needs in waiting.items() if not needs]
    heapq.heapify(ready)
    ordered: list[Task] = []
    while ready:
        _, key = heapq.heappop(ready)
        ordered.append(by_id[key])
        for reader in readers[key]:
            waiting[id(reader)].discard(key)
            if not waiting[id(reader)]:
                heapq.heappush(ready, (positions[id(reader)], id(reader)))
    if len(ordered) != len(tasks):
        raise LowerError("the matched steps need each other's results")
    return ordered
