"""Results of a build as plain text: its sizes, its agreement with TensorFlow, its lowering and its audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from builder.base.commands import DEPLOYING
from builder.base.console_tables import RULE, format_table
from builder.config import DIRECT_UPLOAD_ZIPPED
from builder.package.lambda_limits import CONTAINER_IMAGE, SizeTable

if TYPE_CHECKING:  # These need NumPy, which a build in Docker does without.
    from builder.compiler.audit import AuditReport
    from builder.compiler.lower.decisions import LoweringReport
    from builder.verify.agreement import OutputAgreement
    from builder.verify.verification import Verification


def format_sizes(sizes: SizeTable) -> str:
    """Return each component's bytes, the total, and the used share of each limit."""
    rows: list[Sequence[str] | None] = [(c.name, f"{c.unzipped:,}", f"{c.zipped:,}") for c in sizes.components]
    rows += [
        RULE,
        ("together", f"{sizes.unzipped:,}", f"{sizes.zipped:,}"),
        ("largest zip", "", f"{sizes.largest_zip:,}"),
        ("limit", f"{sizes.max_unzipped:,}", f"{sizes.max_zipped:,}"),
        ("used", _format_share(sizes.unzipped, sizes.max_unzipped), _format_share(sizes.largest_zip, sizes.max_zipped)),
    ]
    text = format_table(("bytes", "unzipped", "zipped"), rows, right=(1, 2))
    if sizes.largest_zip > DIRECT_UPLOAD_ZIPPED and sizes.max_zipped != CONTAINER_IMAGE:
        text += f"\n  The largest zip is over 50 MB: deploy it through S3, as {DEPLOYING} do."
    return text


def _format_share(used: int, limit: int) -> str:
    return f"{100 * used / limit:.1f} %" if limit else "–"


def format_agreement(verification: Verification) -> str:
    """Return each output's worst error against TensorFlow's answers and its tolerance, then warnings and failures."""
    rows = [_format_agreement_row(row) for row in verification.outputs]
    rows += [(f"{row.output}, same weights", *_format_agreement_row(row)[1:]) for row in verification.same_weights]
    if not verification.machine:
        return "\n".join(f"  WARNING: {text}" for text in verification.warnings)
    headers = ("output", "type", "worst absolute", "worst relative", "allowed", "top-1", "")
    lines = [
        format_table(headers, rows, right=(2, 3)),
        f"  over {len(verification.cases)} golden inputs, run by {verification.machine}",
    ]
    lines += [f"  warning: {text}" for text in verification.warnings]
    lines += [f"  FAILS: {text}" for text in verification.failures]
    return "\n".join(lines)


def _format_agreement_row(row: OutputAgreement) -> tuple[str, ...]:
    allowed = "equal" if row.exact else row.describe_rule("|y|")
    ties = f", {row.top1_ties} ties" if row.top1_ties else ""
    top1 = f"{row.top1_rows - row.top1_wrong} of {row.top1_rows}{ties}" if row.top1_rows else "–"
    verdict = "agrees" if row.passed else "DISAGREES"
    return row.output, row.dtype, f"{row.max_absolute:.2g}", f"{row.max_relative:.2g}", allowed, top1, verdict


def format_lowering(lowering: LoweringReport) -> str:
    """Return the library's lowering, the number of fused steps, and the lowerings that failed, with the reasons."""
    fused, tuned = len(lowering.decisions), lowering.to_dict()["tuned"]
    steps = f"{fused} of {lowering.steps} steps fused" if fused else f"{lowering.steps} steps, none fused"
    parts = [f"  lowering: {lowering.path}; {steps}" + (f", {tuned} as tuned" if tuned else "")]
    parts += [f"  {format_weights(lowering)}"] if lowering.compressed else []
    if lowering.reason:
        parts.append(f"  not optimised: {lowering.reason}")
    parts += [f"  gave up {path}: {why}" for path, why in lowering.given_up]
    return "\n".join(parts)


def format_weights(lowering: LoweringReport) -> str:
    """Return the size of the weights, their types, and how many layers keep theirs."""
    sizes = lowering.sizes
    kinds = dict.fromkeys(layer.type for layer in lowering.weights if layer.type != "float32")
    names = " and ".join(kinds) or "none"
    line = f"weights: {sizes.bytes:,} bytes, {sizes.as_float32:,} as float32; {100 * sizes.compressed_share:.1f} % "
    line += f"of them {names}"
    unchanged = sum(bool(layer.kept) for layer in lowering.weights)
    rounded = sum(layer.input is not None for layer in lowering.weights)
    if rounded or any(layer.input_kept for layer in lowering.weights):
        line += f"; {rounded} of {len(lowering.weights)} layers round their input to int8"
    return line + (f"; {unchanged} {'layer keeps' if unchanged == 1 else 'layers keep'} float32" if unchanged else "")


def format_audit(report: AuditReport) -> str:
    """Return the audit in one line, and one more line for each violation."""
    facts = report.facts
    relro = f"{facts.relro} RELRO"
    parts = [
        report.target,
        f"needs {', '.join(facts.needed) or 'nothing'}",
        f"glibc {facts.glibc} of {report.glibc_floor}" if facts.glibc else "no glibc version",
        f"{len(facts.exports)} exports",
        relro,
        "NX stack" if facts.nx_stack else "executable stack",
        f"{facts.size:,} bytes",
    ]
    lines = [f"  {report.file}: {'; '.join(parts)}: {'passes' if report.passed else 'DOES NOT PASS'}"]
    lines += [f"  FAILS {v.rule}: it {v.found}" for v in report.violations]
    return "\n".join(lines)
