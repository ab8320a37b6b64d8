"""The text tables a person sees after a build."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from builder.base.console_tables import RULE, format_table
from builder.base.targets import ARM64, X86_64
from builder.cli.summaries import format_agreement, format_audit, format_sizes
from builder.compiler.audit import audit_file
from builder.config import Tolerance
from builder.config.tensor import TensorSpec
from builder.package.lambda_limits import CONTAINER_IMAGE, Component, SizeTable
from builder.verify.agreement import compare_output
from builder.verify.verification import Verification
from tests.support.zig import ABI, shared_library


def test_a_table_lines_up() -> None:
    text = format_table(("name", "bytes"), [("a", "1,000"), RULE, ("longer", "2")], right=(1,))
    assert text.splitlines() == [
        "  name    bytes",
        "  ──────  ─────",
        "  a       1,000",
        "  ──────  ─────",
        "  longer      2",
    ]


def test_a_short_row_and_no_rows() -> None:
    assert format_table(("a", "b"), [("x",)]).splitlines()[2] == "  x"
    assert len(format_table(("a", "b"), []).splitlines()) == 2


def test_sizes_show_totals_and_limits() -> None:
    sizes = SizeTable(
        (Component("model layer", 45_000_000, 41_000_000), Component("function", 40_000, 12_000, layer=False)),
        262_144_000,
        52_428_800,
    )
    text = format_sizes(sizes)
    for part in ("45,040,000", "41,012,000", "262,144,000", "52,428,800", "17.2 %", "78.2 %"):
        assert part in text
    assert "S3" not in text
    assert "S3" in format_sizes(SizeTable((Component("model layer", 1, 60_000_000),), 262_144_000, 70_000_000))
    image = SizeTable((Component("model layer", 1, 60_000_000),), CONTAINER_IMAGE, CONTAINER_IMAGE)
    assert "S3" not in format_sizes(image)


def test_agreement_shows_each_output_and_every_warning() -> None:
    theirs = np.array([[0.25, 0.75]], np.float32)
    spec = TensorSpec("y", "float32", (1, 2))
    good = compare_output("class", spec, "classification", Tolerance(), [("a", theirs + np.float32(1e-6), theirs)])
    bad = compare_output("wrong", spec, "raw", Tolerance(), [("a", theirs + 1, theirs)])
    text = format_agreement(Verification("libmodel.so", ("a",), (good, bad), ("it sulks",), ("only one",)))
    assert "1 of 1" in text
    assert "1e-05 + 0.0001 × |y|" in text
    assert "DISAGREES" in text
    assert "warning: only one" in text
    assert "FAILS: it sulks" in text


def test_the_audit_is_one_line(tmp_path: Path) -> None:
    library = shared_library(tmp_path / "libmodel.so", ABI)
    line = format_audit(audit_file(library, X86_64))
    assert line.startswith("  libmodel.so: x86_64; needs ")
    assert line.endswith(": passes")
    assert "\n" not in line
    assert "FAILS machine" in format_audit(audit_file(library, ARM64))
