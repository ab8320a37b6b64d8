"""Kernels with a loop inside: their memory, packed, and the copies around them."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from builder.compiler.lower.steps.base import ALIGNMENT, Buffer
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.compiler.lower.thunks import InnerLoopStep, pack_buffers


@st.composite
def buffers(draw: st.DrawFn) -> list[Buffer]:
    """Some of them inside others, as XLA's buffers are: each begins at a multiple of the alignment."""
    found = []
    for _ in range(draw(st.integers(0, 8))):
        found.append(Buffer("arena", ALIGNMENT * draw(st.integers(0, 40)), draw(st.integers(1, 300))))
    return found


@given(buffers())
def test_buffers_that_share_memory_share_it_in_the_same_way(before: list[Buffer]) -> None:
    after = pack_buffers(before)
    assert after.keys() == set(before)
    for one, other in combinations(after, 2):
        assert after[one].overlaps_buffer(after[other]) == one.overlaps_buffer(other)
        if one.overlaps_buffer(other):
            assert after[one].offset - after[other].offset == one.offset - other.offset
    assert all(b.offset % ALIGNMENT == 0 and b.size == a.size for a, b in after.items())
    assert max((b.offset + b.size for b in after.values()), default=0) <= sum(-(-b.size // 64) * 64 for b in before)


def test_what_goes_in_and_out_is_copied_around_the_kernel() -> None:
    inside, constant = Buffer("arena", 0, 8), Buffer("weights", 64, 4)
    loop = KernelStep("loop", "kernel", (inside, constant), (Buffer("arena", 64, 16),), (1, 1, 1))
    step = InnerLoopStep("loop", loop, (inside,), (inside,), (2,), Buffer("arena", 0, 128))
    source, target, moved = Buffer("arena", 640, 8), Buffer("arena", 704, 8), Buffer("weights", 192, 4)
    before, kernel, after = step.replace_buffers([source, moved], [target], Buffer("arena", 1024, 128)).body
    own = Buffer("arena", 1024, 8)
    assert isinstance(before, CopyStep)
    assert isinstance(after, CopyStep)
    assert (before.source, before.target, after.source, after.target) == (source, own, own, target)
    assert isinstance(kernel, KernelStep)
    assert kernel.buffers == (own, moved, Buffer("arena", 1088, 16))
