"""The operations after a convolution or product that can be done before its sums are stored.

They apply to one value at a time: bias and BatchNorm (``fold``), one residual, one activation, and an affine and a
clamp of its result. If the result itself has other users, these are a second output.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from builder.compiler.lower.absorbed_inputs import remove_channel_pad
from builder.compiler.lower.activations import Activation, ScaledActivation, match_clamp, recognise_activation
from builder.compiler.lower.evaluate import ELEMENTWISE
from builder.compiler.lower.fold import Affine, fold_operation
from builder.compiler.lower.hlo import Dag, Value, find_channel_vector
from builder.compiler.lower.layers import Core

_LONGEST_ACTIVATION = 120
IDENTITY, UNLIMITED = Activation(), Activation("clamp")


@dataclass(frozen=True)
class Finish:
    """The operations ``clamp(result * scale + shift)`` on the result of an activation."""

    affine: Affine
    clamp: Activation = UNLIMITED

    def extend(self, user: Value, current: Value) -> Finish | None:
        """Return this followed by ``user``, which reads ``current``; None if that is something else."""
        folded = fold_operation(user, current, self.affine) if self.clamp == UNLIMITED else None
        if folded is not None:
            return replace(self, affine=folded)
        clamp = match_clamp(user, current)
        return None if clamp is None else replace(self, clamp=_compose_clamps(self.clamp, clamp))


@dataclass(frozen=True)
class SecondOutput:
    """Another output: ``finish`` of the first."""

    value: Value
    finish: Finish


@dataclass(frozen=True)
class Layer:
    """A core and everything fused to it."""

    core: Core
    end: Value
    affine: Affine
    activation: Activation
    second: SecondOutput | None
    inside: dict[Value, Value]
    """Values it computes and does not store, each with the value to stop at so that a step of XLA's computes it."""
    matched: tuple[str, ...]
    before_residual: Value | None = None
    """Value to stop at so that a step of XLA's adds the residual."""
    finish: Finish | None = None
    """The scale and shift of the activation's result; with these there is no second output."""

    @property
    def is_transposed(self) -> bool:
        """True if several steps compute its output; see transposed.py."""
        return self.core.geometry.upsampling != (1, 1)

    @property
    def residual_channels(self) -> int:
        """The channels of its residual, at most as many as it has itself; 0 if it has none."""
        residual, shape = self.affine.residual, self.core.geometry.out_shape
        return residual.elements // math.prod(shape[:3]) if residual is not None else 0

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that it stores, as ``base``."""
        return (self.end.base,) if self.second is None else (self.end.base, self.second.value.base)


@dataclass(frozen=True)
class FusionLimits:
    """Results of earlier attempts to schedule: values at which layers must end, and second outputs without a reader."""

    stops: AbstractSet[Value] = frozenset()
    no_second: AbstractSet[Value] = frozenset()
    """Ends (as ``base``) without a second output."""


@dataclass
class _FusionChain:
    """A walk from a core's sums to the last value that is fused to them."""

    core: Core
    dag: Dag
    stops: AbstractSet[Value]
    affine: Affine
    current: Value
    activation: Activation = IDENTITY
    inside: dict[Value, Value] = field(default_factory=dict)
    matched: list[str] = field(default_factory=list)
    before_residual: Value | None = None
    finish: Finish | None = None

    def advance_to(self, to: Value, region: AbstractSet[Value]) -> None:
        """Move the chain's end to ``to``, and record ``region`` as computed inside the chain."""
        stop = self.current
        for value in region:
            if value.base is not to.base:
                self.inside[value.base] = stop.base
        self.current = to


def match_layer(core: Core, dag: Dag, rank: dict[Value, int], limits: FusionLimits) -> Layer:
    """Return the layer with the longest chain from ``core``.

    ``rank``: for each value, the number of the last core that it depends on; see ``rank_values``.
    """
    # A value that is stored anyway ends the chain; the reason why it is stored does not matter.
    stored = {output.base for output in dag.outputs} | limits.stops
    chain = _FusionChain(core, dag, stored, Affine.make_identity(core.geometry.out_channels), core.value)
    while _extend_chain(chain, rank):
        pass
    end = chain.current
    second = (
        None
        if chain.finish or end.base in limits.no_second
        else _match_second(end, dag, core.geometry.out_channels, stored)
    )
    matched = (*chain.matched, *(["second output"] if second else []))
    return Layer(
        core,
        end,
        chain.affine,
        chain.activation,
        second,
        chain.inside,
        matched=matched,
        before_residual=chain.before_residual,
        finish=chain.finish,
    )


def _extend_chain(chain: _FusionChain, rank: dict[Value, int]) -> bool:
    current, users = chain.current, chain.dag.users[chain.current]
    if len(users) == 1 and _has_same_pixels(users[0], current, chain.core.geometry.out_channels):
        chain.current = users[0]  # it is the same bytes, so there is nothing to stop at
        return True
    if current.base in chain.stops or any(u.dtype != "float32" and u.op != "compare" for u in users):
        return False
    if chain.activation.name != "identity":
        return (
            len(users) == 1
            and users[0].row_major
            and (_extend_clamp(chain, users[0]) or _extend_finish(chain, users[0]))
        )
    match = _match_activation(chain.current, chain.dag, chain.stops)
    if match is not None and len(match[1].activation.slopes) in (0, chain.core.geometry.out_channels):
        value, scaled, region = match
        _apply_activation(chain, scaled)
        chain.advance_to(value, region)
        return True
    if len(users) != 1 or not users[0].row_major:
        return False
    user = users[0]
    folded = fold_operation(user, current, chain.affine)
    if folded is not None:
        chain.affine = folded
        chain.matched.append("affine" if user.op in ("multiply", "divide", "negate") else "bias")
        chain.advance_to(user, {current})
        return True
    residual = _match_residual(chain, user, rank)
    if residual is not None:
        chain.affine = residual
        chain.matched.append("residual")
        chain.before_residual = current.base
        chain.advance_to(user, {current})
        return True
    return False


def _has_same_pixels(user: Value, value: Value, channels: int) -> bool:
    """Return whether ``user`` is the same bytes, with the channels in its last dimension or in several (heads)."""
    same = user.op == "bitcast" and user.row_major and user.dtype == value.dtype
    return same and channels in itertools.accumulate(reversed(user.dims), operator.mul)


def _apply_activation(chain: _FusionChain, scaled: ScaledActivation) -> None:
    channels = chain.core.geometry.out_channels
    if (scaled.scale, scaled.shift) != (1, 0):
        chain.affine = _scale_all(chain.affine, scaled.scale, scaled.shift)
        chain.matched.append("affine")
    chain.activation = scaled.activation
    chain.matched.append(_clamp_name(scaled.activation))
    if (scaled.factor, scaled.term) != (1, 0):
        chain.finish = Finish(_scale_all(Affine.make_identity(channels), scaled.factor, scaled.term))
        chain.matched.append("affine")


def _scale_all(affine: Affine, scale: float, shift: float) -> Affine:
    return affine.multiply_by(np.full(affine.scale.size, scale)).add_term(np.full(affine.scale.size, shift))


def _extend_clamp(chain: _FusionChain, user: Value) -> bool:
    """Extend a clamp by another, or by a factor or term that is the same for all channels: the limits follow it."""
    if chain.activation.name != "clamp" or chain.finish is not None:
        return False
    clamp = match_clamp(user, chain.current)
    if clamp is not None:
        chain.activation = _compose_clamps(chain.activation, clamp)
    else:
        change = fold_operation(user, chain.current, Affine.make_identity(chain.core.geometry.out_channels))
        if change is None or not change.uniform:
            return False
        scale, shift = float(change.scale[0]), float(change.shift[0])
        low, high = sorted(limit * scale + shift for limit in (chain.activation.low, chain.activation.high))
        chain.affine, chain.activation = _scale_all(chain.affine, scale, shift), Activation("clamp", low, high)
        chain.matched.append("affine")
    chain.advance_to(user, {chain.current})
    return True


def _extend_finish(chain: _FusionChain, user: Value) -> bool:
    before = chain.finish or Finish(Affine.make_identity(chain.core.geometry.out_channels))
    finish = before.extend(user, chain.current)
    if finish is None:
        return False
    chain.finish = finish
    chain.matched.append("affine" if finish.clamp == before.clamp else _clamp_name(finish.clamp))
    chain.advance_to(user, {chain.current})
    return True


def _compose_clamps(first: Activation, then: Activation) -> Activation:
    def limit(x: float) -> float:
        return min(max(x, then.low), then.high)

    return Activation("clamp", limit(first.low), limit(first.high))


def _clamp_name(activation: Activation) -> str:
    if activation.name != "clamp":
        return activation.name
    return {(0.0, math.inf): "relu", (0.0, 6.0): "relu6"}.get((activation.low, activation.high), "clamp")


def _match_residual(chain: _FusionChain, user: Value, rank: dict[Value, int]) -> Affine | None:
    """Match one other array of the same shape, computed before this layer runs, that is added or subtracted.

    It may lack the last channels, where zeros would be added.
    """
    if chain.affine.residual is not None or user.op not in ("add", "subtract") or len({*user.operands}) != 2:
        return None
    first = user.operands[0] is chain.current
    other = user.operands[1 if first else 0]
    if other.dims != user.dims or not other.row_major or other.base.op in ("constant", "broadcast", "iota"):
        return None
    if rank[other] >= rank[chain.core.value]:
        return None  # the other value is of a later layer, which adds this one
    other = remove_channel_pad(other, chain.core.geometry.out_channels)
    if user.op == "add":
        return chain.affine.add_residual(other, 1.0)
    if first:
        return chain.affine.add_residual(other, -1.0)
    return chain.affine.multiply_by(-np.ones(chain.core.geometry.out_channels)).add_residual(other, 1.0)


def _match_activation(
    start: Value, dag: Dag, stops: AbstractSet[Value]
) -> tuple[Value, ScaledActivation, set[Value]] | None:
    """Find the furthest value that is an activation of ``start`` and whose intermediate values nothing else reads."""
    region, best = {start}, None
    while len(region) < _LONGEST_ACTIVATION:
        ready = [
            u for v in region for u in dag.users[v] if u not in region and _is_elementwise_step(u, v, start, region)
        ]
        if not ready:
            break
        latest = min(ready, key=lambda v: v.number)
        region.add(latest)
        if all(user in region for value in region - {latest} for user in dag.users[value]):
            activation = recognise_activation(latest, start, region)
            if activation is not None:
                best = (latest, activation, set(region))
            if latest.base in stops:
                break
        elif latest.base in stops:
            break
    return best


def _is_elementwise_step(value: Value, of: Value, start: Value, region: set[Value]) -> bool:
    """Return whether ``value`` is elementwise on region members and constants, or the same bytes as a member."""
    if _has_same_pixels(value, of, start.dims[-1]):
        return True
    if value.op not in ELEMENTWISE or value.elements != start.elements or not value.row_major:
        return False
    return all(operand in region or find_channel_vector(operand) is not None for operand in value.operands)


def _match_second(end: Value, dag: Dag, channels: int, stored: AbstractSet[Value]) -> SecondOutput | None:
    users = dag.users[end]
    if len(users) < 2 and end.base not in stored:
        return None
    for user in users:
        finish, current, following = Finish(Affine.make_identity(channels)), end, user
        while (further := finish.extend(following, current)) is not None:
            finish, current = further, following
            if len(dag.users[current]) != 1 or current.base in stored:
                break
            following = dag.users[current][0]
        if current is not end and current.row_major and finish.clamp != UNLIMITED:
            return SecondOutput(current, finish)
    return None


def rank_values(dag: Dag, cores: list[Core]) -> dict[Value, int]:
    """Return, for every live value, the number of the last core among its sources and itself; -1 if there is none."""
    order = {core.value: number for number, core in enumerate(cores)}
    ranks: dict[Value, int] = {}
    for value in dag.live:
        ranks[value] = max([order.get(value, -1), *(ranks[o] for o in value.operands)])
    return ranks
