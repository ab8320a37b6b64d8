"""Rows of a table, by the names of its columns or in their order.

    {"row": {"age": 3, "colour": "red"}}
    {"rows": [{"age": 3}, [4, "blue"], …]}

or CSV, with or without the names in its first line. A value that is null or absent, or an empty cell of CSV, is
missing: NaN where the model takes that. The name of a category becomes its number, and a name that the model does not
know is missing. True is 1, and false is 0.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence

from ..budget import JSON_VALUE, RequestLimits
from ..description import Description, Port
from ..errors import HandlerError, NotTextError, UnfitInputError, WrongFieldError, WrongShapeError, WrongTypeError
from ..named_tuples import NamedTuple
from ..request import File, name_json_type
from ..tensors import read_tensor, require_items, require_tensor_memory, reshape_port
from ..typed import Any
from . import InputKind

_HINT = 'if the first line has the names of columns, send the content type "text/csv; header=present"'

NameRow = Callable[[int], str]
"""Returns how messages call the row of this number."""


class _Column(NamedTuple):
    """A column: its name, the input that holds its values, and how messages call a row."""

    name: str
    port: Port
    name_row: NameRow

    def name_value(self, number: int) -> str:
        """Return how messages call the value in the row ``number``."""
        return f'{self.name_row(number)}: the column "{self.name}"'


def make_kind(description: Description) -> InputKind:
    """Return the kind of ``{"row": {…}}``, ``{"rows": […]}`` and CSV."""
    return InputKind(
        example='{"row": {"<column>": …}}',
        keys=("row", "rows"),
        replaces=tuple(port.name for port in description.caller_inputs),
        media_types=("text/csv",),
        stands_alone=True,
        read_event=_read_event,
        read_files=lambda files, description, limits: _read_csv(files[0], description, limits),
    )


def _read_event(event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
    if "row" in event:
        return read_rows([event["row"]], description, limits, lambda number: '"row"')
    if not isinstance(event["rows"], list):
        raise WrongTypeError('"rows" must be a list of objects or of lists; a single row goes into "row"')
    return read_rows(event["rows"], description, limits, lambda number: f'"rows"[{number}]')


def read_rows(
    rows: Sequence[object], description: Description, limits: RequestLimits, name_row: NameRow
) -> dict[str, Any]:
    """Return the fields of a Request for ``rows``, objects by column name or lists. Raises HandlerError."""
    table = description.table
    assert table is not None
    _require_rows(len(rows), description, limits)
    columns, width = table.columns, len(table.columns)
    known, flat = frozenset(columns), list[object]()
    for number, row in enumerate(rows):
        if isinstance(row, dict):
            if not row.keys() <= known:
                raise _refuse_unknown(next(name for name in row if name not in known), columns, name_row(number))
            flat += map(row.get, columns)
        elif isinstance(row, list):
            _require_width(row, width, name_row(number))
            flat += row
        else:
            raise WrongTypeError(f"{name_row(number)} must be an object or a list, not {name_json_type(row)}")
    return _fill_inputs([flat[at::width] for at in range(width)], description, limits, name_row)


def read_cells(row: Mapping[str, object], description: Description, limits: RequestLimits) -> dict[str, Any]:
    """Return the fields of a Request for the ``"inputs"`` of one row, in which numbers may be text, as CSV has them.

    So is a row of a table in a list of inputs, whose reader does not know the model. Raises HandlerError.
    """
    table = description.table
    assert table is not None
    read = dict(row)
    for name, port in zip(table.columns, _list_ports(description), strict=True):
        value = row.get(name)
        if isinstance(value, str) and port.dtype != "string":
            is_category = name in table.categories
            column = _Column(name, port, lambda number: '"inputs"')
            read[name] = (value or None) if is_category else _parse_cell(value, column, 0)
    return read_rows([read], description, limits, lambda number: '"inputs"')


def _read_csv(file: File, description: Description, limits: RequestLimits) -> dict[str, Any]:
    """Return the fields of a Request for the rows of ``file``. Raises HandlerError."""
    import csv

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
    _require_rows(len(rows), description, limits)

    def name_row(number: int) -> str:
        return f"{file.where}, row {number + 1}"

    for number, row in enumerate(rows):
        _require_width(row, len(names), name_row(number), f"; {_HINT}")
    ports = _list_ports(description)
    cells = dict(zip(names, zip(*rows, strict=True), strict=True))
    columns: list[list[object]] = []
    for name, port in zip(table.columns, ports, strict=True):
        column = _Column(name, port, name_row)
        if name not in cells:
            columns.append([None] * len(rows))
        elif port.dtype == "string":
            columns.append([*cells[name]])
        elif name in table.categories:
            columns.append([cell or None for cell in cells[name]])
        else:
            columns.append(_parse_cells(cells[name], column))
    return _fill_inputs(columns, description, limits, name_row)


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
    if unknown := [name for name in names if name not in set(columns)]:
        raise _refuse_unknown(unknown[0], columns, where)
    if len(set(names)) < len(names):
        raise WrongFieldError(f'{where} has the column "{max(names, key=names.count)}" twice')


def _require_rows(count: int, description: Description, limits: RequestLimits) -> None:
    """Raise WrongFieldError, TooManyImagesError or OverBudgetError for a number of rows that cannot be answered."""
    assert description.table is not None
    if not count:
        raise WrongFieldError("there are no rows; at least one is needed")
    require_items({"rows": count}, description, limits)
    if count != description.batch and not description.batched:
        raise WrongShapeError(f"there are {count} rows; this model takes {description.batch} at a time")
    require_tensor_memory([port.name for port in description.feeds], count, description, limits)
    limits.require_memory(JSON_VALUE * count * len(description.table.columns))


def _require_width(row: Sequence[object], width: int, where: str, hint: str = "") -> None:
    if len(row) != width:
        raise WrongShapeError(f"{where} has {len(row)} values; {width} are needed{hint}")


def _refuse_unknown(name: str, columns: Sequence[str], where: str) -> WrongFieldError:
    from difflib import get_close_matches

    similar = get_close_matches(name[:40], columns, 1)
    listed = f'the column "{similar[0]}"' if similar else ", ".join(f'"{column[:40]}"' for column in columns[:8])
    more = ", …" if not similar and len(columns) > 8 else ""
    need = f"did you mean {listed}?" if similar else f"the columns are {listed}{more}"
    return WrongFieldError(f'{where} has a column "{name[:40]}", which the model does not have; {need}')


def _list_ports(description: Description) -> list[Port]:
    """Return the input of each column; one with the dtype "string" takes strings."""
    table = description.table
    assert table is not None
    ports = {port.name: port for port in description.caller_inputs}
    return [ports[table.feed or name] for name in table.columns]


def _parse_cells(cells: Sequence[str], column: _Column) -> list[object]:
    """Return the numbers in ``cells`` of CSV, None for empty ones. Raises WrongTypeError."""
    text = "".join(cells)
    if column.port.dtype.startswith("float") and text.isascii() and "_" not in text:
        try:
            return [float(cell) if cell else None for cell in cells]
        except ValueError:
            pass
    return [_parse_cell(cell, column, number, f"; {_HINT}") for number, cell in enumerate(cells)]


def _parse_cell(cell: str, column: _Column, number: int, hint: str = "") -> object:
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


def _fill_inputs(
    columns: list[list[object]], description: Description, limits: RequestLimits, name_row: NameRow
) -> dict[str, Any]:
    """Return the fields of a Request for the values of each column. Raises HandlerError."""
    table, ports = description.table, _list_ports(description)
    assert table is not None
    strings: dict[str, object] = {}
    numbers: dict[str, list[list[object]]] = {}  # of each feed
    for name, port, values in zip(table.columns, ports, columns, strict=True):
        column = _Column(name, port, name_row)
        if port.dtype == "string":
            strings[name] = [_write_text(value, column, number) for number, value in enumerate(values)]
        else:
            known = table.categories.get(name)
            checked = _check_numbers(values, column) if known is None else _find_categories(values, known, column)
            numbers.setdefault(port.name, []).append(
                _fill_missing(checked, column, "" if known is None else ", or no category of the model")
            )
    fields: dict[str, Any] = {}
    if strings:
        from .strings import read_strings

        fields["strings"], _ = read_strings(strings, description, limits)
    inputs: dict[str, bytes] = {}
    by_name = {port.name: port for port in ports}
    for feed, parts in numbers.items():
        port = reshape_port(by_name[feed], (len(parts[0]), *by_name[feed].shape[1:]), description)
        flat = [value for row in zip(*parts, strict=True) for value in row] if table.feed else parts[0]
        try:
            inputs[feed] = read_tensor(flat, port)
        except HandlerError:
            _refuse_value(flat, port, table.columns if table.feed else (feed,), name_row)
            raise
    return fields | {"inputs": inputs}


def _refuse_value(flat: Sequence[object], port: Port, names: Sequence[str], name_row: NameRow) -> None:
    """Raise the error of the first value in ``flat``, row by row, that the feed ``port`` does not take."""
    for number, value in enumerate(flat):
        try:
            read_tensor([value], port._replace(name=names[number % len(names)], shape=(1,)))
        except HandlerError as error:
            raise type(error)(f"{name_row(number // len(names))}: {error.message}") from None


def _check_numbers(values: list[object], column: _Column) -> list[object]:
    """Return ``values`` with 1 for true and 0 for false. Raises UnfitInputError for NaN and infinities."""
    types = set(map(type, values))
    if bool in types:
        values = [int(value) if isinstance(value, bool) else value for value in values]
    floats: list[Any] = values if types == {float} else [value for value in values if isinstance(value, float)]
    if not all(map(math.isfinite, floats)):
        wrong = next(value for value in floats if not math.isfinite(value))
        raise _refuse_infinite(column, values.index(wrong))
    return values


def _refuse_infinite(column: _Column, number: int) -> UnfitInputError:
    return UnfitInputError(f"{column.name_value(number)} is NaN or infinite; a missing value is null, or left out")


def _find_categories(values: list[object], known: Mapping[str, int], column: _Column) -> list[object]:
    """Return the numbers of categories, None for those that are missing or not ``known``. Raises HandlerError."""
    return [
        None if value is None else known.get(value if isinstance(value, str) else _write_text(value, column, number))
        for number, value in enumerate(values)
    ]


def _write_text(value: object, column: _Column, number: int) -> str:
    """Return a string, a number or a boolean as text. Raises HandlerError."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise _refuse_infinite(column, number)
    if not isinstance(value, bool | int | float):
        what = "is missing" if value is None else f"must be a string, not {name_json_type(value)}"
        raise (WrongFieldError if value is None else WrongTypeError)(f"{column.name_value(number)} {what}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fill_missing(values: list[object], column: _Column, otherwise: str) -> list[object]:
    """Return ``values`` with NaN for None. Raises WrongFieldError where the feed does not take that."""
    if None not in values:
        return values
    if not column.port.nan:
        raise WrongFieldError(f"{column.name_value(values.index(None))} is missing{otherwise}")
    return [math.nan if value is None else value for value in values]
