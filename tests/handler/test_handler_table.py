"""Rows of a table in each form of a request, given back by a model that echoes them, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from builder.release.batch.batch_items import read_items
from handler.background import answer_file
from handler.budget import RequestLimits
from handler.description import parse_description
from handler.errors import HandlerError, StartupError
from handler.inputs.table import read_rows
from handler.inputs.table_csv import read_csv
from handler.request import File
from handler.storage import S3Object
from tests.support import abi_library
from tests.support.http import Client

COLUMNS = ["age", "colour", "size"]
COLOURS = ["blue", "red", "5"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client.of(tmp_path_factory.mktemp("table"), abi_library.table_description())


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """The same without missing values, and in doubles."""
    return Client.of(tmp_path_factory.mktemp("strict"), abi_library.table_description(nan=False, dtype="float64"))


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A model with a feed for each column."""
    return Client.of(tmp_path_factory.mktemp("columns"), abi_library.columns_description())


def predictions(client: Client, body: Any) -> list[Any]:
    status, answer = client.post("/predict", body)
    assert status == 200, answer
    return [item["same"] for item in answer["predictions"]]


def send_csv(client: Client, text: str, media: str = "text/csv") -> tuple[int, Any]:
    response = client.send("POST", "/predict", text.encode(), {"content-type": media})
    return response.status, json.loads(response.body)


def refusal(answered: tuple[int, Any]) -> tuple[str, str]:
    status, answer = answered
    assert status in (400, 413, 422)
    return answer["error"]["code"], answer["error"]["message"]


def refused(client: Client, body: Any) -> tuple[str, str]:
    return refusal(client.post("/predict", body))


def write_csv(rows: list[list[Any]], names: list[str] | None = None) -> str:
    file = io.StringIO()
    csv.writer(file).writerows([*([names] if names else []), *rows])
    return file.getvalue()


def test_a_row_by_name_or_in_order(client: Client) -> None:
    assert predictions(client, {"row": {"size": 2.5, "colour": "red", "age": 3}}) == [[3, 1, 2.5]]
    assert predictions(client, {"rows": [[3, "red", 2.5], {"age": True, "colour": 5, "size": False}]}) == [
        [3, 1, 2.5],
        [1, 2, 0],
    ]


def test_what_is_missing_is_nan_where_the_model_takes_that(client: Client, strict: Client) -> None:
    assert predictions(client, {"rows": [{}, [None, "green", 1], {"age": 2}]}) == [
        [None, None, None],
        [None, None, 1],
        [2, None, None],
    ]
    assert predictions(strict, {"row": [0.1, "5", 1e300]}) == [[0.1, 2, 1e300]]
    code, message = refused(strict, {"rows": [[1, "red", 1], {"age": 2, "colour": "red"}]})
    assert (code, message) == ("wrong_field", '"rows"[1]: the column "size" is missing')
    code, message = refused(strict, {"row": [1, "green", 1]})
    assert code == "unfit_input"
    assert message.startswith('"row": the column "colour" is "green", which is no category of the model; it has "blue"')
    assert refusal(send_csv(strict, "1,red,\n"))[1] == 'the body, row 1: the column "size" is missing'


def test_another_category_and_missing_values_column_by_column(tmp_path: Path) -> None:
    """Of one column they are a number of their own; the others of the same input refuse them."""
    taking = abi_library.table_description(unknown={"colour": -1}, required=["age"])
    client = Client.of(tmp_path / "taking", taking)
    assert predictions(client, {"rows": [[1, "green", None], [1, None, 2]]}) == [[1, -1, None], [1, None, 2]]
    assert refused(client, {"row": {"colour": "red"}}) == ("wrong_field", '"row": the column "age" is missing')
    refusing = Client.of(tmp_path / "refusing", abi_library.table_description(unknown={}))
    assert predictions(refusing, {"row": [1, None, 2]}) == [[1, None, 2]]
    assert refused(refusing, {"row": [1, "green", 2]})[0] == "unfit_input"


@pytest.mark.parametrize(
    ("body", "code", "needed"),
    [
        ({"row": {"agge": 3}}, "wrong_field", '"agge", which the model does not have; did you mean the column "age"?'),
        ({"rows": [{}, {"x": 3}]}, "wrong_field", 'the columns are "age", "colour", "size"'),
        ({"row": {"age": "3"}}, "wrong_type", '"row": "age" must hold float32 only'),
        ({"rows": [[1, "red", 2], [1, "red", 1e39]]}, "wrong_type", '"rows"[1]: "size" holds a number that float32'),
        ({"rows": [[1, "red", 2], [10**400, "red", 1]]}, "wrong_type", '"rows"[1]: "age" holds a number that float32'),
        ({"row": [1, "red", math.inf]}, "unfit_input", 'column "size" is NaN or infinite'),
        ({"row": [1, math.nan, 1]}, "unfit_input", 'column "colour" is NaN or infinite'),
        ({"row": {"age": [1]}}, "wrong_shape", '"age"'),
        ({"row": {"colour": {}}}, "wrong_type", '"colour" must be a string, not an object'),
        ({"row": [1, 2]}, "wrong_shape", '"row" has 2 values; 3 are needed'),
        ({"row": "1,red,2"}, "wrong_type", '"row" must be an object or a list, not a string'),
        ({"rows": {}}, "wrong_type", '"rows" must be a list'),
        ({"rows": []}, "wrong_field", "there are no rows"),
        ({"rows": [[]] * 5000}, "too_many_images", "5000 items"),
        ({"row": {}, "rows": []}, "wrong_field", "exclude each other"),
        ({"row": {}, "inputs": {"table": [[1, 2, 3]]}}, "wrong_field", '"table" is not known'),
    ],
)
def test_what_is_refused(client: Client, body: Any, code: str, needed: str) -> None:
    found, message = refused(client, body)
    assert found == code
    assert needed in message
    assert not client.failures


@pytest.mark.parametrize(
    ("text", "media", "code", "needed"),
    [
        ("", "text/csv", "wrong_field", "there are no rows"),
        ("age,colour,size\n", "text/csv", "wrong_field", "there are no rows"),
        ('1,"red', "text/csv", "wrong_type", "is not CSV: line 1"),
        ("1,red,x\n", "text/csv", "wrong_type", 'row 1: the column "size" must be a number'),
        ("1,red,2\n1_0,red,2\n", "text/csv", "wrong_type", 'row 2: the column "age" must be a number'),
        ("٣,red,2\n", "text/csv", "wrong_type", 'the column "age" must be a number'),
        ("nan,red,2\n", "text/csv", "unfit_input", 'row 1: the column "age" is NaN'),
        ("1,red,1e400\n", "text/csv", "unfit_input", 'row 1: the column "size" is NaN or infinite'),
        ("1,red\n", "text/csv", "wrong_shape", "row 1 has 2 values; 3 are needed"),
        ("size,aeg\n1,2\n", "text/csv; header=present", "wrong_field", 'did you mean the column "age"?'),
        ("age,age\n1,2\n", "text/csv; header=present", "wrong_field", 'has the column "age" twice'),
        ("1,red,2\n", "text/csv; header=no", "wrong_field", "header must be present or absent"),
        ("age,colour,size\n1,red,2\n", "text/csv; header=absent", "wrong_type", 'row 1: the column "age"'),
        ("1,red,2\n" * 5000, "text/csv", "too_many_images", "at most 4096"),
    ],
)
def test_what_csv_is_refused(client: Client, text: str, media: str, code: str, needed: str) -> None:
    found, message = refusal(send_csv(client, text, media))
    assert found == code
    assert needed in message
    assert not client.failures


def test_a_header_may_have_any_order_and_where_it_says_so_leave_columns_out(client: Client) -> None:
    def values(text: str, media: str = "text/csv") -> list[Any]:
        status, answer = send_csv(client, text, media)
        assert status == 200, answer
        return [item["same"] for item in answer["predictions"]]

    assert values("size,age,colour\r\n1,2,red\r\n\r\n,True,\r\n") == [[2, 1, 1], [1, None, None]]
    assert values("\ufeffsize,age\n1, 2 \n", 'text/csv; charset=utf-8; Header="present"') == [[2, None, 1]]
    assert values("1,red,2", "text/csv;header=absent") == [[1, 1, 2]]


def test_a_body_that_is_not_utf_8_or_takes_too_much_memory(client: Client, tmp_path: Path) -> None:
    response = client.send("POST", "/predict", b"1,\xff,2", {"content-type": "text/csv"})
    assert json.loads(response.body)["error"]["code"] == "not_text"
    small = Client.of(tmp_path, abi_library.table_description(), limits=RequestLimits(memory=10_000))
    assert refused(small, {"rows": [{}] * 100})[0] == "over_budget"
    assert refusal(send_csv(small, "," * 1000))[0] == "over_budget"


numbers = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(width=32, allow_nan=False)
finite = numbers.filter(lambda value: not isinstance(value, float) or math.isfinite(value))
rows_of = st.lists(st.tuples(finite, st.sampled_from([*COLOURS, "unknown", 'a "b",\nc', 5, None]), finite), min_size=1)


@given(rows=rows_of, order=st.permutations(range(3)))
def test_csv_json_and_arrays_are_the_same(client: Client, rows: list[tuple[Any, ...]], order: list[int]) -> None:
    wanted = predictions(client, {"rows": [list(row) for row in rows]})
    named = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    assert predictions(client, {"rows": named}) == wanted
    assert predictions(client, {"rows": [{k: v for k, v in row.items() if v is not None} for row in named]}) == wanted
    status, served = client.post("/v1/models/echo:predict", {"instances": named})
    assert status == 200
    assert [[None if math.isnan(v) else v for v in row] for row in served["predictions"]] == wanted
    assert [row[1] for row in wanted] == [COLOURS.index(str(c)) if str(c) in COLOURS else None for _, c, _ in rows]
    mixed = [[row[at] for at in order] for row in rows]
    names = [COLUMNS[at] for at in order]
    for text in (write_csv([*map(list, rows)]), write_csv(mixed, names), write_csv(rows, COLUMNS)):  # type: ignore[arg-type]
        status, answer = send_csv(client, text)
        assert status == 200, answer
        assert [item["same"] for item in answer["predictions"]] == wanted


def test_names_of_rows_in_tensorflow_servings_protocol(client: Client) -> None:
    url = "/v1/models/echo:predict"
    assert client.post(url, {"instances": [[1, 2, 3], [4, 5, 6]]}) == (200, {"predictions": [[1, 2, 3], [4, 5, 6]]})
    status, answer = client.post(url, {"instances": [{"age": 1}, {"agee": 3}]})
    assert status == 400
    assert answer["error"].startswith('"instances"[1] has a column "agee"')


def test_a_model_with_a_feed_for_each_column(columns: Client) -> None:
    body = {"rows": [{"count": 2**53 + 1, "well": True}, [0.5, 3.0, 0], [None, -1, False]]}
    status, answer = columns.post("/predict", body)
    wanted = [[None, 2**53 + 1, True], [0.5, 3, False], [None, -1, False]]
    assert status == 200, answer
    assert [[value for (value,) in item.values()] for item in answer["predictions"]] == wanted
    text = f"well,count,age\nTrue,{2**53 + 1},\nfalse,3.0,0.5\n0,-1,\n"
    assert send_csv(columns, text)[1]["predictions"] == answer["predictions"]
    assert refused(columns, {"row": {"age": 1, "well": 1}})[1] == '"row": the column "count" is missing'
    assert refused(columns, {"rows": [[1, 1, 1], [1, 2.5, 1]]})[1] == '"rows"[1]: "count" must hold int64 only'
    served = [{"count": 5, "well": True}, {"age": 0.5, "count": 3, "well": False}]
    for rows, age in ((served, None), ([served[1] | {"age": [1]}], 1)):
        status, answer = columns.post("/v1/models/echo:predict", {"instances": rows})
        assert status == 200, answer
        first = answer["predictions"][0]["same_age"][0]
        assert (None if math.isnan(first) else first) == age
    status, _ = columns.post("/predict", {"inputs": {"age": [[1]], "count": [[2]], "well": [[True]]}})
    assert status == 200


def test_rows_of_a_list_of_inputs_may_have_numbers_as_text(client: Client, columns: Client, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("size,age,colour\n2.5, 3 ,red\n,1e2,\n0,true,5\n")
    items = list(read_items(str(tmp_path / "t.csv"), None))
    assert [predictions(client, item) for item in items] == [[[3, 1, 2.5]], [[100, None, None]], [[1, 2, 0]]]
    assert predictions(client, {"inputs": {"age": 3, "colour": 5}}) == [[3, 2, None]]
    assert predictions(client, {"inputs": {"input": [[1, 2, 3]]}}) == [[1, 2, 3]]
    assert refused(client, {"inputs": {"age": "x"}}) == ("wrong_type", '"inputs": the column "age" must be a number')
    assert refused(client, {"inputs": {"agee": "3"}})[0] == "wrong_field"
    assert refused(client, {"inputs": {}})[0] == "wrong_field"
    assert refused(client, {"inputs": {"age": 3}, "row": {}})[0] == "wrong_field"
    row = {"age": "", "count": str(2**53 + 1), "well": "False"}
    status, answer = columns.post("/predict", {"inputs": row})
    assert (status, answer["predictions"]) == (
        200,
        [{"same_age": [None], "same_count": [2**53 + 1], "same_well": [False]}],
    )


def test_columns_of_strings_take_texts(tmp_path: Path) -> None:
    described = abi_library.columns_description()
    described["strings"] = [{"name": "word", "shape": [2, 1], "feeds": ["count"]}]
    described["table"] = {"columns": ["word", "age", "well"]}
    description, limits = parse_description(json.dumps(described)), RequestLimits()
    rows = [["a", 1, True], {"word": 5, "well": False}, ["", None, 0]]
    found = read_rows(rows, description, limits, str)
    assert found["strings"] == {"word": (b"a", b"5", b"")}
    assert found["inputs"].keys() == {"age", "well"}
    assert found["inputs"]["well"] == b"\1\0\0"
    text = File(b"a,1,True\n5,,false\n,,0\n", "the body")
    assert read_csv(text, description, limits) == found
    with pytest.raises(HandlerError, match='0: the column "word" is missing'):
        read_rows([{"well": 1}], description, limits, str)
    with pytest.raises(HandlerError, match='1: the column "word" must be a string, not a list'):
        read_rows([["a", 1, 1], [[], 1, 1]], description, limits, str)


def test_an_object_in_s3_is_csv_or_a_request(client: Client) -> None:
    def answer(key: str, data: bytes) -> Any:
        answer = answer_file(data, S3Object("rows", key), client.server, client.call())
        return [item["same"] for item in answer["predictions"]]

    assert answer("a.CSV", b"age,size,colour\n1,2,red\n") == [[1, 1, 2]]
    assert answer("a.json", b'{"row": {"age": 3}}') == answer("a", b'{"row": {"age": 3}}') == [[3, None, None]]


@pytest.mark.parametrize("model", ["client", "strict", "columns"])
@pytest.mark.parametrize(
    "row",
    [
        {}, {"age": 1}, {"age": True, "colour": "red", "size": 2.5}, {"age": None, "colour": "red", "size": 1},
        {"age": 1, "colour": "green", "size": 1}, {"age": "1", "colour": "red", "size": 1}, [1, "red", 2], [1, None, 1],
        {"age": 1, "colour": "red", "size": 1, "x": 1}, {"age": 1, "count": 2, "well": False}, [1, 2.5, 1], [1, 2], 5,
    ],
)  # fmt: skip
def test_the_openapi_document_allows_what_is_answered(request: pytest.FixtureRequest, model: str, row: Any) -> None:
    client: Client = request.getfixturevalue(model)
    paths = client.get("/openapi.json")["paths"]
    bodies = [("/predict", {"row": row}), ("/predict", {"rows": [row, row]})]
    if model != "columns" and isinstance(row, dict):
        bodies.append(("/v1/models/echo:predict", {"instances": [row]}))
    for path, body in bodies:
        content = paths[path]["post"]["requestBody"]["content"]
        allowed = Draft202012Validator(content["application/json"]["schema"]).is_valid(body)
        assert (client.post(path, body)[0] == 200) == allowed, body
    assert "text/csv" in paths["/predict"]["post"]["requestBody"]["content"]


@pytest.mark.parametrize(
    ("names", "feed"), [(["a", "b"], "table"), (["a", "b", "b"], "table"), (["a", "b", "c"], "no"), (["table"], "")]
)
def test_a_table_that_the_model_does_not_have(names: list[str], feed: str) -> None:
    described = abi_library.table_description() | {"table": {"feed": feed, "columns": names}}
    with pytest.raises(StartupError):
        parse_description(json.dumps(described))


def test_names_of_categories_as_other_programs_write_them() -> None:
    described = abi_library.table_description()
    described["table"]["categories"] = {"colour": ["1.0", "2", "true", "x.0"]}
    table = parse_description(json.dumps(described)).table
    assert table is not None
    known = table.categories["colour"]
    assert [known.get(name) for name in ("1", "1.0", "2", "2.0", "true", "True", "x.0", "x")] == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        None,
    ]
