"""Text about a build for a person: before it, and when it has ended."""

from __future__ import annotations

from builder import __version__
from builder.cli.build_tables import format_agreement, format_audit, format_lowering, format_sizes
from builder.pipeline.build_bundle import BuildResult
from builder.pipeline.workspace import Workspace


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
