"""Table of a run: a row for each item, as Parquet, CSV or JSON Lines, written while the answers are read."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from builder.base.errors import BatchError, UsageError
from builder.release.batch.answer_rows import ResultRow
from builder.release.batch.batch_items import import_pyarrow

Kind = Literal["whole", "text", "number", "vector"]
Record = dict[str, Any]

BASE: dict[str, Kind] = {
    "row": "whole", "bucket": "text", "key": "text", "etag": "text",
    "model": "text", "version": "text", "layer": "text", "code": "text",
}  # fmt: skip
GROUP = 10_000
"""Number of rows of Parquet that are in memory, and that make one group of the file."""


@dataclass(frozen=True)
class Collected:
    """The table that the answers of a run were collected into."""

    file: str
    rows: int
    failed: dict[str, int]
    """Rows without an answer, by code."""
    columns: tuple[str, ...]


def check_ending(output: Path) -> str:
    """Return the form of the table by its name. Raises UsageError."""
    if output.suffix not in _WRITERS:
        raise UsageError(f"{output}: a table ends with {', '.join(_WRITERS)}.")
    return output.suffix


def write_table(rows: Callable[[], Iterator[ResultRow]], output: Path) -> Collected:
    """Write the table of ``rows``, which is read twice: up to the first answer, for its columns, and then as a whole.

    The file appears once it is complete. Raises UsageError, BatchError, and EnvironmentSetupError without pyarrow.
    """
    writer = _WRITERS[check_ending(output)]
    answered = next((row for row in rows() if row.predictions is not None), None)
    columns = BASE | (choose_columns(answered.predictions) if answered and answered.predictions is not None else {})
    count, failed = 0, Counter[str]()
    fresh = output.with_name(f".{output.name}.part")
    try:
        with writer(fresh, columns) as write:
            for group in _group_rows(rows()):
                count += len(group)
                failed.update(row.code for row in group if row.code)
                write(group)
        fresh.replace(output)
    finally:
        fresh.unlink(missing_ok=True)
    return Collected(str(output), count, dict(failed), tuple(columns))


def _group_rows(rows: Iterable[ResultRow]) -> Iterator[list[ResultRow]]:
    source = iter(rows)
    while group := list(islice(source, GROUP)):
        yield group


def choose_columns(predictions: list[Any]) -> dict[str, Kind]:
    """Choose the columns of an answer like this one: a label and a score of classes, a vector, a number, or JSON."""
    if len(predictions) != 1 or not isinstance(predictions[0], dict):
        return {"predictions": "text"}
    columns: dict[str, Kind] = {}
    for name, value in predictions[0].items():
        if _is_classes(value):
            columns |= {f"{name}.label": "text", f"{name}.score": "number"}
        else:
            columns[name] = "vector" if _is_vector(value) else "number" if _is_number(value) else "text"
    return columns


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_number, value))


def _is_classes(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) and "label" in row for row in value)


def make_record(row: ResultRow, columns: Mapping[str, Kind]) -> Record:
    """Return a value or None for each of ``columns``. Raises BatchError if the answer of ``row`` does not fit."""
    record = _fill_base_columns(row)
    if row.predictions is not None:
        record |= (
            {"predictions": _format_json(row.predictions)}
            if "predictions" in columns
            else dict(_convert_predictions(row, columns))
        )
    return {name: record.get(name) for name in columns}


def _fill_base_columns(row: ResultRow) -> Record:
    """Return the values of the columns of BASE."""
    item = row.item
    return {
        "row": row.number, "bucket": item.get("Bucket"), "key": item.get("Key"), "etag": row.etag,
        "model": row.model, "version": row.version, "layer": row.layer, "code": row.code,
    }  # fmt: skip


def _convert_predictions(row: ResultRow, columns: Mapping[str, Kind]) -> Iterator[tuple[str, Any]]:
    assert row.predictions is not None
    if len(row.predictions) != 1 or not isinstance(row.predictions[0], dict):
        raise _make_mismatch_error(row)
    for name, value in row.predictions[0].items():
        if f"{name}.label" in columns:
            first = value[0] if _is_classes(value) else {}
            yield f"{name}.label", None if not first else str(first["label"])
            yield f"{name}.score", first.get("probability", first.get("score"))
        elif name not in columns:
            raise _make_mismatch_error(row)
        else:
            yield name, _convert_value(value, columns[name], row)


def _convert_value(value: Any, kind: Kind, row: ResultRow) -> Any:
    match kind:
        case "vector" if isinstance(value, list):
            return [math.nan if number is None else float(number) for number in value]
        case "number" if _is_number(value):
            return float(value)
        case "text":
            return value if isinstance(value, str) else _format_json(value)
    raise _make_mismatch_error(row)


def _make_mismatch_error(row: ResultRow) -> BatchError:
    return BatchError(f"row {row.number:,} has an answer of another form than the first; take --output NAME.jsonl.")


def _format_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@contextmanager
def _open_csv(path: Path, columns: Mapping[str, Kind]) -> Iterator[Callable[[list[ResultRow]], None]]:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)

        def write(rows: list[ResultRow]) -> None:
            for row in rows:
                values = make_record(row, columns).values()
                writer.writerow(_format_json(value) if isinstance(value, list) else value for value in values)

        yield write


@contextmanager
def _open_json_lines(path: Path, _columns: Mapping[str, Kind]) -> Iterator[Callable[[list[ResultRow]], None]]:
    """Open a writer of JSON Lines, which writes each answer as it is."""
    with path.open("w", encoding="utf-8") as file:

        def write(rows: list[ResultRow]) -> None:
            for row in rows:
                answer = {"message": row.message} if row.code else {"predictions": row.predictions}
                file.write(_format_json(_fill_base_columns(row) | answer) + "\n")

        yield write


@contextmanager
def _open_parquet(path: Path, columns: Mapping[str, Kind]) -> Iterator[Callable[[list[ResultRow]], None]]:
    pyarrow, parquet = import_pyarrow()
    kinds = {
        "whole": pyarrow.int64(), "text": pyarrow.string(), "number": pyarrow.float64(),
        "vector": pyarrow.list_(pyarrow.float32()),
    }  # fmt: skip
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
    with parquet.ParquetWriter(path, schema, compression="zstd") as file:
        yield lambda rows: file.write_table(
            pyarrow.Table.from_pylist([make_record(row, columns) for row in rows], schema=schema)
        )


_WRITERS = {".parquet": _open_parquet, ".csv": _open_csv, ".jsonl": _open_json_lines}


def describe_table(table: Collected) -> str:
    """Describe the table that was written, for a person."""
    codes = ", ".join(f"{count:,} {code}" for code, count in sorted(table.failed.items()))
    return f"{table.file}: {table.rows:,} rows" + (f", of them without an answer: {codes}" if codes else "")
