"""What the optimised path made of a model, step by step: what was fused, what stayed XLA's, and why."""

from __future__ import annotations

from builder.errors import UsageError
from builder.importers.graph import FrozenGraph
from builder.lower.notes import Note
from builder.lower.optimise import Outcome, optimise
from builder.pack.bundle import bundle_suffix
from builder.project import Project
from builder.report.text import RULE, table
from builder.spec import ModelSpec
from builder.xla.result import read_result
from builder.xla.tfcompile import CompiledGraph


def explain(spec: ModelSpec, project: Project) -> Outcome:
    """Lower the compiled graph of an earlier ``coldforge bundle``. Raises UsageError where there is none."""
    folder = project.build / spec.name
    target = spec.targets[0]
    compiled = CompiledGraph(folder / f"compile{bundle_suffix(target)}", target, "", "", 0.0)
    ports = folder / "import" / "ports.json"
    if not compiled.metadata_path.exists() or not ports.exists():
        raise UsageError(f"{spec.name} was not compiled yet; run `coldforge bundle {spec.name}` first.")
    graph = FrozenGraph.load(folder / "import")
    return optimise(read_result(compiled.metadata_path, project.cache), graph.feeds, graph.fetches)


def render(outcome: Outcome) -> str:
    """A table of the steps in the order they run, then the sums."""
    if outcome.program is None:
        return f"One step per XLA thunk: {outcome.reason}."
    rows: list[list[str] | None] = [_row(note) for note in outcome.notes]
    flop, moved = (sum(getattr(note, name) for note in outcome.notes) for name in ("flop", "bytes"))
    rows += [RULE, ["together", "", "", _mega(flop), f"{moved:,}"]]
    counts = {kind: sum(n.kind == kind for n in outcome.notes) for kind in ("layer", "pool", "repack", "copy", "xla")}
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    steps = table(("step", "kind", "algorithm and what was fused", "MFLOP", "bytes"), rows, right=(3, 4), indent=0)
    program = outcome.program
    return (
        f"{steps}\n\n{kinds}; layers do {100 * outcome.layer_share:.1f} % of the convolutions' and products' work; "
        f"{program.weights_size:,} bytes of weights, {program.arena_size:,} of working memory"
    )


def _row(note: Note) -> list[str]:
    what = " ".join([note.algorithm, " + ".join(note.matched)]).strip()
    return [note.name, note.kind, what, _mega(note.flop), f"{note.bytes:,}"]


def _mega(flop: int) -> str:
    return f"{flop / 1e6:.1f}" if flop else ""
