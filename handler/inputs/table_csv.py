"""Rows of a table as CSV, with or without the names of the columns in the first line."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from ..budget import JSON_VALUE, RequestLimits
from ..description import Description
from ..errors import NotTextError, WrongFieldError, WrongTypeError
from ..request import File
from ..typed import Any
from .table import TableColumn, fill_inputs, list_ports, read_rows, refuse_unknown, require_rows, require_width

_HINT = 'if the first line has the names of columns, send the content type "text/csv; header=present"'


def read_cells(row: Mapping[str, object], description: Description, limits: RequestLimits) -> dict[str, Any]:
    """Return the fields of a Request for the ``"inputs"`` of one row, in which numbers may be text, as CSV has them.

    So is a row of a table in a list of inputs, whose reader does not know the model. Raises HandlerError.
    """
    table = description.table
    assert table is not None
    read = dict(row)
    for name, port in zip(table.columns, list_ports(description), strict=True):
        value = row.get(name)
        if isinstance(value, str) and port.dtype != "string":
            is_category = name in table.categories
            column = TableColumn(name, port, lambda number: '"inputs"')
            read[name] = (value or None) if is_category else _parse_cell(value, column, 0)
    return read_rows([read], description, limits, lambda number: '"inputs"')


def read_csv(file: File, description: Description, limits: RequestLimits) -> dict[str, Any]:
    """Return the fields of a Request for the rows of ``file``. Raises HandlerError."""
    table = description.table
    assert table is not None
    limits.require_memory(2 * len(file.data) + JSON_VALUE * sum(map(file.data.count, (b",", b"\n", b"\r"))))
    try:
        text = str(file.data, "utf-8-sig")
    except UnicodeDecodeError:
        raise NotTextError(f"{file.where} is not UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    try:
        for row in reader:
            if row:
                rows.append(row)
            if len(rows) > limits.items + 1:
                break
    except csv.Error as error:
        raise WrongTypeError(f"{file.where} is not CSV: line {reader.line_num}: {error}") from None
    names = table.columns
    if rows and _has_header(rows[0], names, file.media):
        names = tuple(rows.pop(0))
        _require_names(names, table.columns, file.where)
    require_rows(len(rows), description, limits)

    def name_row(number: int) -> str:
        return f"{file.where}, row {number + 1}"

    for number, row in enumerate(rows):
        require_width(row, len(names), name_row(number), f"; {_HINT}")
    ports = list_ports(description)
    cells = dict(zip(names, zip(*rows, strict=True), strict=True))
    columns: list[list[object]] = []
    for name, port in zip(table.columns, ports, strict=True):
        column = TableColumn(name, port, name_row)
        if name not in cells:
            columns.append([None] * len(rows))
        elif port.dtype == "string":
            columns.append([*cells[name]])
        elif name in table.categories:
            columns.append([cell or None for cell in cells[name]])
        else:
            columns.append(_parse_cells(cells[name], column))
    return fill_inputs(columns, description, limits, name_row)


def _has_header(row: Sequence[str], columns: Sequence[str], media: str) -> bool:
    """Return whether ``row``, the first, has the names of columns. ``media``: the content type, which may say so."""
    for parameter in media.lower().split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip() == "header":
            value = value.strip(' "')
            if value not in ("present", "absent"):
                raise WrongFieldError("the content type's header must be present or absent")
            return value == "present"
    return sorted(row) == sorted(columns)


def _require_names(names: Sequence[str], columns: Sequence[str], where: str) -> None:
    """Raise WrongFieldError for names in a header that are no columns, or that stand there twice."""
    left = set(columns)
    for name in names:
        if name not in left:
            if name in columns:
                raise WrongFieldError(f'{where} has the column "{name}" twice')
            raise refuse_unknown(name, columns, where)
        left.remove(name)


def _parse_cells(cells: Sequence[str], column: TableColumn) -> list[object]:
    """Return the numbers in ``cells`` of CSV, None for empty ones. Raises WrongTypeError."""
    text = "".join(cells)
    if column.port.dtype.startswith("float") and text.isascii() and "_" not in text:
        try:
            return [float(cell) if cell else None for cell in cells]
        except ValueError:
            pass
    return [_parse_cell(cell, column, number, f"; {_HINT}") for number, cell in enumerate(cells)]


def _parse_cell(cell: str, column: TableColumn, number: int, hint: str = "") -> object:
    if not cell:
        return None
    word = cell.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    if word.isascii() and "_" not in word:
        for parse in (int, float):
            try:
                return parse(word)
            except ValueError:
                continue
    raise WrongTypeError(f"{column.name_value(number)} must be a number{hint}")
