"""Common state of a build's stages: the model, the target, the folders and the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from builder.base.cache import code_digest, compute_digest, read_build_seconds, run_cached
from builder.base.files import lock_target
from builder.base.progress import Progress
from builder.base.project import Project
from builder.base.sandbox import Sandbox
from builder.base.sandbox.process_output import select_own_lines
from builder.base.sandbox.sandbox_client import Failed
from builder.base.targets import Target
from builder.config import ModelSpec


@dataclass(frozen=True)
class Workspace:
    """One model, built for one target in one project.

    A stage gets this and the results of the stages before it, and nothing else.
    """

    spec: ModelSpec
    project: Project
    target: Target
    progress: Progress = field(default_factory=Progress)
    sandbox: Sandbox = field(default_factory=Sandbox.from_machine)

    @classmethod
    def from_spec(
        cls, spec: ModelSpec, project: Project, target: Target | None = None, progress: Progress | None = None
    ) -> Workspace:
        """Return the workspace of a new build, by default for the spec's first target and without verbose progress."""
        progress = progress or Progress()
        return cls(spec, project, target or spec.target, progress, Sandbox.from_machine(verbose=progress.verbose))

    def for_spec(self, spec: ModelSpec) -> Workspace:
        """Return this workspace for another spec, such as one whose open questions are answered."""
        return replace(self, spec=spec)

    def for_target(self, target: Target) -> Workspace:
        """Return this workspace for another target."""
        return replace(self, target=target)

    @property
    def alone(self) -> Workspace:
        """This workspace for the spec's first variant alone."""
        return self.for_spec(self.spec.alone)

    @property
    def cache(self) -> Path:
        """The files that all models share: downloads, compiler caches, TensorFlow's recovered schema."""
        return self.project.cache

    @property
    def zig(self) -> Path:
        """The compiler's own cache."""
        return self.cache / "zig"

    @property
    def build(self) -> Path:
        """Folder of the stages' folders."""
        return self.project.build / self.spec.name

    @property
    def bundle(self) -> Path:
        """The folder that the build delivers."""
        return self.project.dist / f"{self.spec.name}{self.target.suffix}"

    @property
    def stage_times(self) -> Path:
        """File of each stage's time for the last bundle, as JSON, outside the bundle, which is reproducible."""
        return self.build / f"stages{self.target.suffix}.json"

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Keep other commands from working on this model: they wait, and print for whom. The lock is not reentrant.

        The lock is on the model, not on each stage: a stage reads the folders of those before it, long after they
        were made, and a build with another model.toml would replace them meanwhile.
        """
        with lock_target(self.build / "build", self.progress.show_lines):
            yield

    def build_stage(self, name: str, what: str, key: str, make: Callable[[Path], object], suffix: str = "") -> Path:
        """Return ``build/<model>/<name><suffix>``, made by ``make`` unless this coldforge made it for this ``key``.

        ``what`` is printed; ``key`` is the digest of all inputs. Errors of ``make`` pass through.
        """
        folder = self.build / f"{name}{suffix}"
        with self.progress.show_stage(name, what) as outcome:
            outcome.cached = run_cached(folder, compute_digest(code_digest(), key), make, self.progress.show_lines)
            outcome.made_in = read_build_seconds(folder)
        return folder

    def expect_import(self) -> None:
        """Start loading TensorFlow in parallel, if this model was never imported here.

        For one that was, nothing may have changed, and then TensorFlow is not needed at all.
        """
        if not (self.build / "import").exists():
            self.sandbox.start_server()

    def run_sandboxed(
        self, function: Callable[..., Any], *arguments: Any, folder: Path, reads: Iterable[Path], failed: Failed
    ) -> Any:
        """Return the result of ``function(*arguments)``, as JSON, run as ``Sandbox.run`` does and with its errors.

        The screen gets, once, a line about what the sandbox lacks here, and the model's own output. TensorFlow's output
        is shown only if ``progress.verbose``.
        """
        self.sandbox.kernel.require_demanded()
        if line := self.sandbox.kernel.describe_missing():
            self.progress.show_once(line)
        done = self.sandbox.run(function, *arguments, folder=folder, reads=reads, failed=failed)
        self.progress.show_detail(done.output)
        if not self.progress.verbose:
            for line in select_own_lines(done.output)[-_LINES:]:
                self.progress.show_lines(f"  the model says: {line}")
        return done.value


_LINES = 20
"""Number of lines of a model's output that are shown."""


@contextmanager
def hold_all_locks(workspaces: Iterable[Workspace]) -> Iterator[None]:
    """Hold the locks of all, in the order of their names, so that two commands with the same models don't deadlock."""
    with ExitStack() as locks:
        for ws in sorted(workspaces, key=lambda ws: ws.spec.name):
            locks.enter_context(ws.hold_lock())
        yield
