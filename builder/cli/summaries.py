"""Text for a person about results: of a build, an inspection, a check of a bundle, and a build that was repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from builder import __version__
from builder.base.commands import DEPLOYING
from builder.base.console_tables import RULE, format_table
from builder.base.escape import escape_invisible
from builder.config import DIRECT_UPLOAD_ZIPPED
from builder.package.lambda_limits import CONTAINER_IMAGE, SizeTable

if TYPE_CHECKING:  # These need NumPy, which a build in Docker does without.
    from builder.compiler.audit import AuditReport
    from builder.compiler.lower.decisions import LoweringReport
    from builder.importers.ports import PortInfo
    from builder.pipeline.build_bundle import BuildResult
    from builder.pipeline.inspect_model import Inspection
    from builder.pipeline.workspace import Workspace
    from builder.release.bundle_check import CheckedBundle
    from builder.release.compare_bundles import BundleComparison
    from builder.verify.agreement import OutputAgreement
    from builder.verify.verification import Verification


def format_build_start(ws: Workspace) -> str:
    """Return one line: the model, and its target."""
    spec = ws.spec
    batches, sizes = ", ".join(map(str, spec.buckets)), len(spec.variants) // len(spec.buckets)
    several = f", in {sizes} sizes" if sizes > 1 else ""
    return f"coldforge {__version__}: {spec.name} {spec.version} for {ws.target.name}, batch {batches}{several}"


def format_build_result(built: BuildResult) -> str:
    """Return sizes, agreement with TensorFlow, lowering and audit, and the state that the model keeps, if any."""
    library = built.library
    parts = [format_sizes(built.bundle.sizes), "", format_agreement(library.verification), ""]
    parts += [format_lowering(library.lowering), format_audit(library.audit)]
    if library.states:
        names = ", ".join(library.states)
        parts.append(f"state: {names}; each opened model has its own, and the function resets it before every request")
    return "\n".join(parts)


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


def format_inspection(inspection: Inspection) -> str:
    """Return the model's inputs and outputs, then the preflight; ``?`` stands for a dimension of open size."""
    from builder.pipeline.preflight import format_preflight

    ports = inspection.ports
    lines = [*_format_ports("inputs", ports.feeds), *_format_ports("outputs", ports.fetches)]
    if ports.facts:
        lines += [f"input {escape_invisible(spec.feed)}: {spec.describe_steps()}" for spec in ports.facts.scalings]
    if len(ports.signatures) > 1:
        others = ", ".join(escape_invisible(name) for name in ports.signatures if name != ports.signature)
        lines.append(f"signature: {escape_invisible(ports.signature or '')}; the model also has {others}")
    lines += [f"warning: {escape_invisible(text)}" for text in ports.warnings]
    if ports.origin:
        lines.append(f"file: {escape_invisible(ports.origin)}")
    if inspection.dynamic:
        lines.append(f"the data decides the size of {', '.join(map(escape_invisible, inspection.dynamic))}")
    if inspection.strings:
        lines.append(f"strings: {' → '.join(map(escape_invisible, inspection.strings))}")
    if inspection.parameters is not None:
        lines.append(f"parameters: {inspection.parameters:,}")
    return "\n".join([*lines, "", format_preflight(inspection.preflight)])


def _format_ports(title: str, ports: Sequence[PortInfo]) -> Iterator[str]:
    yield title
    names = [escape_invisible(port.name) for port in ports]
    width = max(map(len, names), default=0)
    for name, port in zip(names, ports, strict=True):
        values = "" if port.quantised is None else f", (value - {port.quantised[1]}) * {port.quantised[0]:.6g}"
        yield f"  {name.ljust(width)}  {escape_invisible(f'{port.dtype} {port.describe_shape()}')}{values}"


def format_checks(checked: CheckedBundle) -> Iterator[str]:
    """Yield the parts that were checked, and those that were not."""
    predicate = checked.statement["predicate"]
    definition, builder = predicate["buildDefinition"], predicate["runDetails"]["builder"]
    yield f"{checked.name} {checked.version}"
    yield f"{len(checked.subjects)} files are those that the statement names."
    yield f"built by {escape_invisible(builder['id'])} from {len(definition['resolvedDependencies'])} recorded inputs:"
    for entry in definition["resolvedDependencies"]:
        digest = next(iter(entry.get("digest", {}).items()), ("", entry.get("uri", "")))
        yield escape_invisible(f"  {entry['name']}  {':'.join(map(str, filter(None, digest)))}")
    for name in checked.beside:
        yield f"made later, NOT CHECKED: {escape_invisible(name)}"
    if checked.key:
        yield f"The signature is right: key {checked.key}"
    elif checked.signers:
        yield f"NOT CHECKED: it is signed by key {escape_invisible(', '.join(checked.signers))}; check that with --key."
    else:
        yield "It is not signed: this shows that nothing was changed by mistake, and not who built it."


def format_comparison(comparison: BundleComparison) -> Iterator[str]:
    """Yield the differences, and the recorded inputs that changed."""
    for name, where in comparison.differing.items():
        yield escape_invisible(f"differs: {name}, first in {where}")
    for name, where in comparison.measured.items():
        yield escape_invisible(f"measured anew: {name}, first in {where}")
    for line in comparison.inputs:
        yield escape_invisible(f"another input: {line}")
    if comparison.identical:
        yield f"identical: {comparison.files} files"
