"""pyarrow, which reads and writes Parquet. Only commands about batches import it, and only for files of Parquet."""

from __future__ import annotations

from typing import Any

from builder.base.commands import choose_command
from builder.base.errors import EnvironmentSetupError

INSTALL = choose_command(
    ".venv/bin/pip install --no-deps --require-hashes -r requirements/parquet.txt", "pip install 'coldforge[parquet]'"
)


def import_pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and pyarrow.parquet. Raises EnvironmentSetupError, which says how to install them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise EnvironmentSetupError(f"Parquet needs pyarrow, which is not installed here: `{INSTALL}`.") from None
    return pyarrow, pyarrow.parquet
