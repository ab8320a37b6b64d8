"""Obstacles to a build, found in a second instead of after minutes: ops without a kernel in XLA, and size."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from builder.base.commands import DEPLOYING
from builder.base.errors import PreflightError, SizeLimitError
from builder.base.records import NOT_A_RECORD, read_part
from builder.config import DIRECT_UPLOAD_ZIPPED, LAMBDA_UNZIPPED, WeightsPlace
from builder.importers.graph import FrozenGraph
from builder.importers.xla_ops import OpReport, Unsupported, inspect_ops
from builder.package.lambda_limits import list_remedies

LIBRARY_OVERHEAD = 400_000
"""Bytes of libmodel.so besides the weights, measured for Lambda's default processor: kernels, runtime and tables."""
_DENSE_OVERHEAD = 190_000
"""LIBRARY_OVERHEAD for a graph without convolutions."""
_LEAST_OVERHEAD = 100_000
"""LIBRARY_OVERHEAD for a library with next to no kernels."""

_DEPENDENCIES_SIZE = 5_900_000
"""Bytes of the dependencies layer and the function, unpacked. A test holds the number to the real size."""
_CERTAIN_SHARE = 0.95
"""Share of that size that a function has whatever the next version of a package weighs."""

_COMPRESSION = 0.93
"""Share that zip leaves of trained float32 weights, whose mantissas are noise."""


@dataclass(frozen=True)
class Preflight:
    """The obstacles to a build, and the size that its bundle will have, in bytes."""

    nodes: int
    """The number of nodes in the graph."""
    unsupported: tuple[Unsupported, ...]
    """Ops that XLA cannot compile."""
    weights: int
    """Bytes."""
    library: int
    """Bytes, forecast."""
    dependencies: int
    """Bytes of the dependencies layer and the function."""
    max_unzipped: int
    """Bytes that are allowed."""
    max_zipped: int
    """Bytes that are allowed, for each zip."""
    place: WeightsPlace = "library"
    """The place where the weights are."""

    @property
    def unzipped(self) -> int:
        """Forecast size of the library, the dependencies and the function."""
        return self.library + self.dependencies

    @property
    def zipped(self) -> int:
        """Estimated size of the model layer's zip."""
        packed = self.weights if self.place in ("library", "layer") else 0
        return int(packed * _COMPRESSION) + (self.library - _count_stored_bytes(self.weights, self.place)) // 3

    @property
    def least(self) -> int:
        """The unpacked size that the bundle has whatever the compiler makes of the model: only that stops a build."""
        return _count_stored_bytes(self.weights, self.place) + _LEAST_OVERHEAD + int(_CERTAIN_SHARE * self.dependencies)

    @property
    def fits(self) -> bool:
        """False if the bundle is certainly too large."""
        return self.least <= self.max_unzipped

    @property
    def ok(self) -> bool:
        """True if nothing is known to stop a build."""
        return self.fits and not self.unsupported

    @property
    def exit_code(self) -> int:
        """Exit code of a command that only checks: 0, or that of the error which ``require_buildable`` raises."""
        if self.unsupported:
            return PreflightError.exit_code
        return 0 if self.fits else SizeLimitError.exit_code

    def to_json(self) -> dict[str, Any]:
        """Return the result for JSON; ``of_json`` reads it back."""
        rows = [{**asdict(u), "nodes": list(u.nodes), "count": len(u.nodes)} for u in self.unsupported]
        return {
            **asdict(self),
            "unsupported": rows,
            "unzipped": self.unzipped,
            "least": self.least,
            "zipped": self.zipped,
            "fits": self.fits,
            "ok": self.ok,
        }

    @classmethod
    def of_json(cls, data: Any) -> Preflight:
        """Read the result of ``to_json``. Raises PreflightError for anything else, which a broken process left."""
        try:
            rows = [{name: value for name, value in row.items() if name != "count"} for row in data["unsupported"]]
            return read_part(cls, data | {"unsupported": rows})
        except (*NOT_A_RECORD, AttributeError) as error:
            raise PreflightError("The process that read the model did not report its graph.") from error


def check_graph(
    graph: FrozenGraph | OpReport,
    *,
    dependencies: int = _DEPENDENCIES_SIZE,
    max_unzipped: int = LAMBDA_UNZIPPED,
    max_zipped: int = LAMBDA_UNZIPPED,
    place: WeightsPlace = "library",
    share: float = 1.0,
) -> Preflight:
    """Check every node of ``graph``, also inside loops, branches and called functions. Raises nothing.

    An OpReport is for a graph that the importer did not let run. ``place``: that of the weights, which do not count if
    they are elsewhere. ``share``: the share of their bytes that is left in the library.
    """
    ops = graph if isinstance(graph, OpReport) else inspect_ops(graph.read_definition(), rewritten=True)
    weights = int(ops.weights * share)
    library = _count_stored_bytes(weights, place) + (LIBRARY_OVERHEAD if ops.convolutions else _DENSE_OVERHEAD)
    return Preflight(
        ops.nodes, ops.unsupported, weights, library, dependencies, max_unzipped, max_zipped=max_zipped, place=place
    )


def _count_stored_bytes(weights: int, place: WeightsPlace) -> int:
    """Return the bytes of ``weights`` that are in the bundle, inside or outside the library."""
    return weights if place != "elsewhere" else 0


def require_buildable(preflight: Preflight) -> None:
    """Raise PreflightError if an op cannot be compiled, SizeLimitError if the bundle cannot fit Lambda."""
    if not preflight.ok:
        raise (PreflightError if preflight.unsupported else SizeLimitError)(format_preflight(preflight))


def format_preflight(preflight: Preflight) -> str:
    """Return the result as a few lines of text for the user."""
    lines = []
    if preflight.unsupported:
        lines += OpReport(preflight.nodes, preflight.unsupported, preflight.weights).format_lines()
    else:
        lines.append(f"XLA has a kernel for each of the graph's {preflight.nodes} nodes.")
    lines.append(
        f"Forecast: {_format_size(preflight.weights)} of weights, libmodel.so {_format_size(preflight.library)}, with "
        f"dependencies {_format_size(preflight.unzipped)} of {_format_size(preflight.max_unzipped)} unzipped; layer "
        f"zip about {_format_size(preflight.zipped)} of {_format_size(preflight.max_zipped)}."
    )
    if not preflight.fits:
        lines.append(
            f"Too large by at least {_format_size(preflight.least - preflight.max_unzipped)}: use a smaller model, or "
            "store its weights in fewer bits: `[weights] type` in model.toml."
        )
        if preflight.least > LAMBDA_UNZIPPED and preflight.max_unzipped <= LAMBDA_UNZIPPED:
            lines.append("Or keep the weights outside the layer. The cheapest way comes first:")
            lines += [f"  - {way}" for way in list_remedies(preflight.weights)]
    elif preflight.unzipped > preflight.max_unzipped:
        lines.append("That may be too large: the build measures it.")
    elif preflight.zipped > preflight.max_zipped:
        lines.append("The layer's zip is over `zipped` under [limits] in model.toml: the build may stop.")
    elif preflight.zipped > DIRECT_UPLOAD_ZIPPED and preflight.max_zipped <= LAMBDA_UNZIPPED:
        lines.append(f"The layer's zip is over 50 MB: deploy it through S3, as {DEPLOYING} do.")
    return "\n".join(lines)


def _format_size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if abs(count) >= 100_000 else f"{count / 1e3:.1f} kB"
