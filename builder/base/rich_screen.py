"""Live lines on a terminal: rich's spinners and bars for ``builder.base.progress``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.progress import Task as Row
from rich.table import Column
from rich.text import Text

from builder.base.screen import PlainScreen, SetProgress, Style

_STYLES: dict[Style, str] = {"plain": "", "name": "bold", "soft": "dim", "bad": "bold red"}


class RichScreen(PlainScreen):
    """A terminal whose last lines show the current work."""

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        super().__init__(stream)
        self.console = Console(file=stream, no_color=not colour, highlight=False, force_terminal=True)
        self.rows = Progress(
            SpinnerColumn(),
            TextColumn(
                "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)
            ),
            _Bar(bar_width=20),
            _Amount(table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            console=self.console,
            transient=True,
            expand=True,  # The description takes the remaining width.
            redirect_stdout=False,  # A result may be piped.
        )

    def print_line(self, *pieces: tuple[str, Style]) -> None:
        """Print a line that stays above the live ones."""
        text = Text.assemble(*((piece, _STYLES[style]) for piece, style in pieces))
        self.console.print(text, soft_wrap=True)

    @contextmanager
    def show_task(self, text: str, *, in_bytes: bool = False) -> Iterator[SetProgress]:
        """Show a live line during the block."""
        if not self.rows.task_ids:
            self.rows.start()
        row = self.rows.add_task(text, total=None, in_bytes=in_bytes)
        try:
            yield lambda done, total, what: self.rows.update(
                row, completed=done, total=total, description=f"{text}: {what}" if what else text
            )
        finally:
            self.rows.remove_task(row)
            if not self.rows.task_ids:
                self.rows.stop()


class _Bar(BarColumn):
    """A bar, shown only if things are counted."""

    def render(self, task: Row) -> Text:  # type: ignore[override]
        return super().render(task) if task.total else Text()  # type: ignore[return-value]


class _Amount(ProgressColumn):
    """A count (``3 of 8``), or bytes and their rate."""

    def __init__(self, table_column: Column) -> None:
        super().__init__(table_column)
        self.came, self.speed = DownloadColumn(), TransferSpeedColumn()

    def render(self, task: Row) -> Text:
        if task.fields["in_bytes"]:
            return Text.assemble(self.came.render(task), "  ", self.speed.render(task))
        return Text(f"{int(task.completed)} of {int(task.total)}") if task.total else Text()
