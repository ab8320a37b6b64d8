"""pyarrow, which reads and writes Parquet; only commands about batches use it, and only where a file is Parquet."""

from __future__ import annotations

from typing import Any

from builder.base.commands import choose_command
from builder.base.errors import EnvironmentSetupError

INSTALL = choose_command(
    ".venv/bin/pip install --no-deps --require-hashes -r requirements/parquet.txt", "pip install 'coldforge[parquet]'"
)


def import_pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and pyarrow.parquet. Raises EnvironmentSetupError with the line that installs them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise EnvironmentSetupError(f"Parquet needs pyarrow, which is not installed here: `{INSTALL}`.") from None
    return pyarrow, pyarrow.parquet
