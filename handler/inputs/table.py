"""Rows of a table, by the names of its columns or in their order.

    {"row": {"age": 3, "colour": "red"}}
    {"rows": [{"age": 3}, [4, "blue"], …]}

or CSV, with or without the names in its first line. A value that is null or absent, or an empty cell of CSV, is
missing: NaN where the model takes that. The name of a category becomes its number; a name that the model does not
know is missing, another category or an error, as the model has it. True is 1, and false is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..budget import JSON_VALUE, RequestLimits
from ..description import Description, Port, TableInput
from ..errors import HandlerError, UnfitInputError, WrongFieldError, WrongShapeError, WrongTypeError
from ..named_tuples import NamedTuple
from ..request import File, name_json_type
from ..tensors import read_tensor, require_items, require_tensor_memory, reshape_port
from ..typed import Any
from . import InputKind

NameRow = Callable[[int], str]
"""Returns how messages call the row of this number."""


class TableColumn(NamedTuple):
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
        read_files=_read_files,
    )


def _read_event(event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
    if "row" in event:
        return read_rows([event["row"]], description, limits, lambda number: '"row"')
    if not isinstance(event["rows"], list):
        raise WrongTypeError('"rows" must be a list of objects or of lists; a single row goes into "row"')
    return read_rows(event["rows"], description, limits, lambda number: f'"rows"[{number}]')


def _read_files(files: Sequence[File], description: Description, limits: RequestLimits) -> dict[str, Any]:
    from .table_csv import read_csv

    return read_csv(files[0], description, limits)


def read_rows(
    rows: Sequence[object], description: Description, limits: RequestLimits, name_row: NameRow
) -> dict[str, Any]:
    """Return the fields of a Request for ``rows``, objects by column name or lists. Raises HandlerError."""
    table = description.table
    assert table is not None
    require_rows(len(rows), description, limits)
    columns, width = table.columns, len(table.columns)
    known, flat = frozenset(columns), list[object]()
    for number, row in enumerate(rows):
        if isinstance(row, dict):
            if not row.keys() <= known:
                raise refuse_unknown(next(name for name in row if name not in known), columns, name_row(number))
            flat += map(row.get, columns)
        elif isinstance(row, list):
            require_width(row, width, name_row(number))
            flat += row
        else:
            raise WrongTypeError(f"{name_row(number)} must be an object or a list, not {name_json_type(row)}")
    return fill_inputs([flat[at::width] for at in range(width)], description, limits, name_row)


def require_rows(count: int, description: Description, limits: RequestLimits) -> None:
    """Raise WrongFieldError, TooManyImagesError or OverBudgetError for a number of rows that cannot be answered."""
    assert description.table is not None
    if not count:
        raise WrongFieldError("there are no rows; at least one is needed")
    require_items({"rows": count}, description, limits)
    if count != description.batch and not description.batched:
        raise WrongShapeError(f"there are {count} rows; this model takes {description.batch} at a time")
    require_tensor_memory([port.name for port in description.feeds], count, description, limits)
    limits.require_memory(JSON_VALUE * count * len(description.table.columns))


def require_width(row: Sequence[object], width: int, where: str, hint: str = "") -> None:
    """Raise WrongShapeError, with a ``hint``, for a ``row`` that has not ``width`` values."""
    if len(row) != width:
        raise WrongShapeError(f"{where} has {len(row)} values; {width} are needed{hint}")


def refuse_unknown(name: str, columns: Sequence[str], where: str) -> WrongFieldError:
    """Return the error of a column ``name`` that is none of ``columns``, with the most similar of them."""
    from difflib import get_close_matches

    similar = get_close_matches(name[:40], columns, 1)
    listed = f'the column "{similar[0]}"' if similar else ", ".join(f'"{column[:40]}"' for column in columns[:8])
    more = ", …" if not similar and len(columns) > 8 else ""
    need = f"did you mean {listed}?" if similar else f"the columns are {listed}{more}"
    return WrongFieldError(f'{where} has a column "{name[:40]}", which the model does not have; {need}')


def list_ports(description: Description) -> list[Port]:
    """Return the input of each column; one with the dtype "string" takes strings."""
    table = description.table
    assert table is not None
    ports = {port.name: port for port in description.caller_inputs}
    return [ports[table.feed or name] for name in table.columns]


def fill_inputs(
    columns: list[list[object]], description: Description, limits: RequestLimits, name_row: NameRow
) -> dict[str, Any]:
    """Return the fields of a Request for the values of each column. Raises HandlerError."""
    table, ports = description.table, list_ports(description)
    assert table is not None
    strings: dict[str, object] = {}
    numbers: dict[str, list[list[object]]] = {}  # of each feed
    for name, port, values in zip(table.columns, ports, columns, strict=True):
        column = TableColumn(name, port, name_row)
        if port.dtype == "string":
            strings[name] = [_write_text(value, column, number) for number, value in enumerate(values)]
        else:
            checked = (
                _find_categories(values, table, column) if name in table.categories else _check_numbers(values, column)
            )
            numbers.setdefault(port.name, []).append(_fill_missing(checked, column, name in table.required))
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
            names = table.columns if table.feed else (feed,)
            number = _find_refused(flat, port)
            try:
                read_tensor(flat[number : number + 1], port._replace(name=names[number % len(names)], shape=(1,)))
            except HandlerError as error:
                raise type(error)(f"{name_row(number // len(names))}: {error.message}") from None
            raise
    return fields | {"inputs": inputs}


def _find_refused(flat: list[object], port: Port) -> int:
    """Return the number of the first of the values ``flat`` that the feed ``port`` refuses, or of the last value."""
    first, end = 0, len(flat)
    while end - first > 1:
        middle = (first + end) // 2
        try:
            read_tensor(flat[first:middle], port._replace(shape=(middle - first,)))
            first = middle
        except HandlerError:
            end = middle
    return first


def _check_numbers(values: list[object], column: TableColumn) -> list[object]:
    """Return ``values`` with 1 for true and 0 for false. Raises UnfitInputError for NaN and infinities."""
    types = set(map(type, values))
    if bool in types:
        values = [int(value) if isinstance(value, bool) else value for value in values]
    floats: list[Any] = values if types == {float} else [value for value in values if isinstance(value, float)]
    if not all(map(math.isfinite, floats)):
        wrong = next(value for value in floats if not math.isfinite(value))
        raise _refuse_infinite(column, values.index(wrong))
    return values


def _refuse_infinite(column: TableColumn, number: int) -> UnfitInputError:
    return UnfitInputError(f"{column.name_value(number)} is NaN or infinite; a missing value is null, or left out")


def _find_categories(values: list[object], table: TableInput, column: TableColumn) -> list[object]:
    """Return the numbers of categories, None for those that are missing. Raises HandlerError."""
    known, unknown = table.categories[column.name], table.unknown.get(column.name)
    refuses, found = table.refuses_unknown(column.name, column.port.nan), list[object]()
    for number, value in enumerate(values):
        name = value if value is None or isinstance(value, str) else _write_text(value, column, number)
        if refuses and name is not None and name not in known:
            listed = ", ".join(f'"{category[:40]}"' for category in table.list_categories(column.name)[:8])
            raise UnfitInputError(
                f'{column.name_value(number)} is "{name[:40]}", which is no category of the model; it has {listed}'
            )
        found.append(None if name is None else known.get(name, unknown))
    return found


def _write_text(value: object, column: TableColumn, number: int) -> str:
    """Return a string, a number or a boolean as text. Raises HandlerError."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise _refuse_infinite(column, number)
    if not isinstance(value, bool | int | float):
        what = "is missing" if value is None else f"must be a string, not {name_json_type(value)}"
        raise (WrongFieldError if value is None else WrongTypeError)(f"{column.name_value(number)} {what}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fill_missing(values: list[object], column: TableColumn, required: bool) -> list[object]:
    """Return ``values`` with NaN for None. Raises WrongFieldError where the column does not take that."""
    if None not in values:
        return values
    if required or not column.port.nan:
        raise WrongFieldError(f"{column.name_value(values.index(None))} is missing")
    return [math.nan if value is None else value for value in values]
