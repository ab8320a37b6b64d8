"""What a page is made of: a policy by hashes, data that is no markup, memory and costs that add up."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.base.targets import ARM64, X86_64, Target
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Buffer, Step
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.measure.cost import estimate_sizes, prices_of
from builder.measure.html_report.document import SCRIPTS, format_document, inline_json
from builder.measure.html_report.report_data import trace_memory_flow
from builder.measure.prices import WHOLE_PROCESSOR_MB
from tests.conftest import ROOT

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=25, deadline=None)
@given(JSON)
def test_data_in_a_page_is_json_and_no_markup(value: object) -> None:
    text = inline_json(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert not set("<>&") & set(text)


def test_the_policy_permits_what_the_page_has_and_nothing_else() -> None:
    page = format_document("a <title>", "<p>text</p>", data={"a": 1}, scripts=SCRIPTS)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    rules = dict(rule.split(" ", 1) for rule in html.unescape(policy[1]).split("; "))
    assert rules["default-src"] == "'none'"
    for rule, tag in (("style-src", "style"), ("script-src", "script")):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert "<title>a &lt;title&gt;</title>" in page
    assert "script-src" not in format_document("t", "")


def test_the_pages_load_nothing() -> None:
    files = [
        p for p in (ROOT / "builder" / "measure" / "html_report").iterdir() if p.suffix in (".js", ".css", ".html")
    ]
    assert {p.name for p in files} >= {*SCRIPTS, "page.css", "report.html"}
    for path in files:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(
            r"https?:|//[a-z]|@import|url\((?!#)|fetch\(|innerHTML|insertAdjacentHTML|\beval\(", text
        ), path


def arena(offset: int, size: int) -> Buffer:
    return Buffer("arena", offset, size)


def program(*steps: Step, size: int) -> Program:
    return Program(steps, (), (), (), size, 0)


def kernel(name: str, *buffers: Buffer) -> KernelStep:
    return KernelStep(name, name, buffers[:-1], buffers[-1:], (1, 1, 1))


def copy(name: str, source: Buffer, target: Buffer) -> CopyStep:
    return CopyStep(name, source, target, 1, (source.size,), (1,), (1,))


def test_a_value_lives_from_who_makes_it_to_the_last_who_reads_it() -> None:
    a, b, c = arena(0, 64), arena(64, 64), arena(0, 32)
    weights = Buffer("weights", 0, 64)
    flow = trace_memory_flow(
        program(kernel("make", weights, a), copy("pass", a, b), copy("again", b, c), copy("end", c, b), size=128)
    )
    lives = [(v.buffer.offset, v.buffer.size, v.first, v.last) for v in flow.lives]
    assert lives == [(0, 64, 0, 1), (64, 64, 1, 2), (0, 32, 2, 3), (64, 64, 3, 3)]
    assert list(flow.edges) == [(0, 1), (1, 2), (2, 3)]


def test_a_part_that_is_written_in_place_ends_no_value() -> None:
    whole, part, other = arena(0, 64), arena(16, 16), arena(64, 64)
    flow = trace_memory_flow(
        program(kernel("make", whole), kernel("update", whole, part), copy("read", whole, other), size=128)
    )
    assert [(v.buffer.size, v.made_by) for v in flow.lives] == [(64, [0, 1]), (64, [2])]
    assert list(flow.edges) == [(0, 1), (0, 2), (1, 2)]


def test_a_feed_that_is_read_in_place_is_no_value_of_the_arena() -> None:
    feed = Buffer("feed", 0, 64)
    flow = trace_memory_flow(
        program(copy("frame", feed, arena(0, 64)), copy("end", arena(0, 64), arena(64, 64)), size=128)
    )
    assert [v.buffer.offset for v in flow.lives] == [0, 64]
    assert list(flow.edges) == [(-1, 0), (0, 1)]


@pytest.mark.parametrize("target", [X86_64, ARM64])
def test_a_million_requests_cost_what_the_prices_say(target: Target) -> None:
    sizes = {size.memory: size for size in estimate_sizes(target, handler_ms=10.0, peak_memory=300 << 20)}
    assert 256 not in sizes  # it does not fit
    assert sizes[WHOLE_PROCESSOR_MB].billed == 10
    prices = prices_of(target)
    expected = 0.2 + 10_000 * WHOLE_PROCESSOR_MB / 1024 * prices.gb_second
    assert sizes[WHOLE_PROCESSOR_MB].dollars == pytest.approx(expected)
    assert sizes[512].ms == pytest.approx(10.0 * WHOLE_PROCESSOR_MB / 512)
    assert sizes[3008].ms == 10.0  # one thread is no faster with more
    assert re.fullmatch(r"20\d\d(-\d\d)?", prices.date)
    assert prices.region
    # 2.1 ms on a half of a processor are 4.2, and 5 are billed: 4,321.3 GB-seconds.
    (half,) = estimate_sizes(X86_64, 2.1, 1 << 20, [885])
    assert (half.billed, half.dollars) == (5, pytest.approx(0.2 + 0.072021, abs=1e-6))
