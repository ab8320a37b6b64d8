"""docs/ops.md: what becomes of every op of the TensorFlow that is installed."""

from __future__ import annotations

import re

import pytest

from builder.cli import ops_page
from builder.importers.rewrites import REWRITES

pytestmark = pytest.mark.integration


def test_the_page_is_what_the_registry_and_the_rewrites_say() -> None:
    assert ops_page.PAGE.read_text(encoding="utf-8") == ops_page.format_ops_page(), (
        "run `python -m builder.cli.ops_page`"
    )


def test_every_rewrite_is_of_an_op_of_tensorflow() -> None:
    assert set(REWRITES) <= set(ops_page.list_op_names())


def test_an_op_is_on_the_page_once() -> None:
    text = ops_page.PAGE.read_text(encoding="utf-8").partition("### What to do instead")[0]
    listed = re.findall(r"`(\w+)`(?=,|\n| \|)", text)
    assert len(listed) == len(set(listed)) > 1000
