"""Rows of a table by every way that a request takes to the function: all give the same answers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.release.batch.batch_items import read_items
from handler.budget import RequestLimits
from tests.support import abi_library
from tests.support.everywhere import URL_EVENT, There, encoded, function, predictions

Row = dict[str, Any]
COLUMNS = ["age", "colour", "size"]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[There]:
    library = abi_library.build(tmp_path_factory.mktemp("table"), abi_library.table_description())
    with function(library, RequestLimits()) as there:
        yield there


def write_csv(rows: list[Row]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _function_url(there: There, rows: list[Row]) -> Any:
    event = json.loads(URL_EVENT.read_text())
    event["headers"] |= {"content-type": "text/csv; header=present"}
    return predictions(there.event(event | {"body": write_csv(rows), "isBase64Encoded": False})["body"])


def _sqs(there: There, rows: list[Row]) -> Any:
    there.bucket.objects = {}
    there.event({"Records": [{"eventSource": "aws:sqs", "messageId": "m1", "body": json.dumps({"rows": rows})}]})
    return predictions(there.bucket.objects["answers/m1.json"])


def _eventbridge(there: There, rows: list[Row]) -> Any:
    there.event({"id": "e1", "detail-type": "rows", "source": "tests", "detail": {"rows": rows}})
    return predictions(there.bucket.objects["answers/e1.json"])


def _step_functions(there: There, rows: list[Row]) -> Any:
    answer = there.event({"Items": [{"row": row} for row in rows], "BatchInput": {}})
    return [item for one in answer["results"] for item in predictions(one)]


def _batch_of(there: There, items: list[Row]) -> Any:
    there.bucket.objects = {}
    numbered = [{"Row": number, **item} for number, item in enumerate(items)]
    there.event({"Batch": 0, "Items": numbered, "BatchInput": {"Results": "s3://answers/parts/"}})
    _, *lines = there.bucket.objects["answers/parts/00000000.jsonl"].splitlines()
    return [item for line in lines for item in predictions(line)]


def _batch_of_csv(there: There, rows: list[Row], folder: Path) -> Any:
    (folder / "rows.csv").write_text(write_csv(rows))
    return _batch_of(there, [*read_items(str(folder / "rows.csv"), None)])


def _batch_of_parquet(there: There, rows: list[Row], folder: Path) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    kinds = {"age": pyarrow.float64(), "colour": pyarrow.string(), "size": pyarrow.float32()}
    parquet.write_table(pyarrow.Table.from_pylist(rows, pyarrow.schema(kinds)), folder / "rows.parquet")
    return _batch_of(there, [*read_items(str(folder / "rows.parquet"), None)])


def _tf_serving(there: There, rows: list[Row]) -> Any:
    answer = there.http("/v1/models/echo:predict", encoded({"instances": rows}))
    return [{"same": [None if value != value else value for value in row]} for row in answer["predictions"]]


WAYS: dict[str, Callable[[There, list[Row]], Any]] = {
    "Function URL": _function_url,
    "arrays": lambda there, rows: predictions(there.event({"rows": [[row[name] for name in COLUMNS] for row in rows]})),
    "SQS": _sqs,
    "EventBridge": _eventbridge,
    "S3, CSV": lambda there, rows: there.stored("rows.csv", write_csv(rows).encode()),
    "S3, JSON": lambda there, rows: there.stored("rows.json", encoded({"rows": rows})),
    "Step Functions": _step_functions,
    "TensorFlow Serving": _tf_serving,
}
values = st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False)
tables = st.lists(
    st.fixed_dictionaries({"age": values, "colour": st.none() | st.sampled_from(abi_library.COLOURS), "size": values}),
    min_size=1,
    max_size=5,
)


@given(rows=tables)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_have_the_same_answers_everywhere(there: There, rows: list[Row], tmp_path: Path) -> None:
    wanted = predictions(there.event({"rows": rows}))
    assert len(wanted) == len(rows)
    ways = {name: there.told(lambda way=way: way(there, rows)) for name, way in WAYS.items()}
    ways["batch of CSV"] = _batch_of_csv(there, rows, tmp_path)
    ways["batch of Parquet"] = _batch_of_parquet(there, rows, tmp_path)
    assert ways == dict.fromkeys(ways, wanted)


def test_a_wrong_row_of_a_batch_is_its_own_line(there: There) -> None:
    items: list[Row] = [{"inputs": {"age": str(number)}} for number in range(200)]
    items[7] = {"inputs": {"age": "x"}}
    items[8] = {"rows": [{"age": 8}, {"age": 8.5}]}
    items[9] = {"inputs": {"table": [[9, 9, 9], [10, 10, 10]]}}
    _batch_of(there, items)
    assert [refusal.code for refusal in there.refused] == ["wrong_type"]
    lines = map(json.loads, there.bucket.objects["answers/parts/00000000.jsonl"].splitlines()[1:])
    ages = [[one["same"][0] for one in line.get("predictions", [])] for line in lines]
    assert ages == [*([number] for number in range(7)), [], [8, 8.5], [9, 10], *([n] for n in range(10, 200))]
