"""Lists of inputs: every form that they come in, and the list that is made of them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.errors import BatchError, EnvironmentSetupError, UsageError
from builder.release.batch import batch_manifest
from builder.release.batch.batch_items import detect_form, import_pyarrow, read_items
from builder.release.batch.batch_plan import INPUT_BYTES
from builder.release.batch.s3_location import S3Location
from tests.support.s3 import Bucket, serving


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with serving() as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        yield bucket


def found(path: Path, text: str | bytes, **options: Any) -> list[dict[str, Any]]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(read_items(str(path), None, **options))


@pytest.mark.parametrize(
    ("source", "form"),
    [
        ("s3://b/in/", "prefix"), ("s3://b", "prefix"), ("s3://b/k.csv", "csv"), ("k.jsonl", "jsonl"),
        ("k.ndjson", "jsonl"), ("s3://b/k.parquet", "parquet"), ("s3://b/i/2026/manifest.json", "inventory"),
    ],
)  # fmt: skip
def test_what_a_source_is_by_its_name(source: str, form: str) -> None:
    assert detect_form(source) == form


def test_a_csv_of_keys(tmp_path: Path) -> None:
    text = '\ufeffKey,ETag,note\n"a, b.jpg","""abc""",x\nü.png,,\n'
    assert found(tmp_path / "k.csv", text, bucket="b") == [
        {"Bucket": "b", "Key": "a, b.jpg", "ETag": "abc"},
        {"Bucket": "b", "Key": "ü.png"},
    ]
    assert found(tmp_path / "k.csv", "bucket,key,version_id\nc,1,v\n", bucket="b") == [
        {"Bucket": "c", "Key": "1", "VersionId": "v"}
    ]
    with pytest.raises(BatchError, match="row 1 names an object without a bucket"):
        found(tmp_path / "k.csv", "key\n1.jpg\n")


def test_json_lines_of_objects_and_requests(tmp_path: Path) -> None:
    text = '{"Bucket": "b", "Key": "1.jpg"}\n\n{"inputs": {"x": [1, 2]}}\n{"x": [3, 4]}\n{"text": "hello"}\n'
    assert found(tmp_path / "k.jsonl", text) == [
        {"Bucket": "b", "Key": "1.jpg"},
        {"inputs": {"x": [1, 2]}},
        {"inputs": {"x": [3, 4]}},
        {"text": "hello"},
    ]
    for wrong in ("{}\n{", "[1]\n"):
        with pytest.raises(BatchError, match=r"row \d cannot be read"):
            found(tmp_path / "k.jsonl", wrong)
    with pytest.raises(UsageError, match="there is no file"):
        list(read_items(str(tmp_path / "none.csv"), None))


def test_parquet_of_keys_and_of_tensors(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    _, parquet = import_pyarrow()
    path = tmp_path / "k.parquet"
    parquet.write_table(pyarrow.table({"bucket": ["b"] * 2500, "key": [f"{n}.jpg" for n in range(2500)]}), path)
    rows = list(read_items(str(path), None))
    assert (len(rows), rows[2001]) == (2500, {"Bucket": "b", "Key": "2001.jpg"})
    parquet.write_table(pyarrow.table({"x": [[1.0, 2.0], [3.0, 4.0]]}), path)
    assert list(read_items(str(path), None)) == [{"inputs": {"x": [1.0, 2.0]}}, {"inputs": {"x": [3.0, 4.0]}}]


def test_the_rows_of_tables_have_a_value_under_each_name(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    _, parquet = import_pyarrow()
    row = {"age": [3.5, float("nan"), None], "text": ["red", None, "blue"]}
    parquet.write_table(pyarrow.table(row), tmp_path / "t.parquet")
    assert list(read_items(str(tmp_path / "t.parquet"), None)) == [
        {"inputs": {"age": 3.5, "text": "red"}},
        {"inputs": {"age": None, "text": None}},
        {"inputs": {"age": None, "text": "blue"}},
    ]
    assert found(tmp_path / "t.csv", 'age,text\n3,"a, b"\n,\n') == [
        {"inputs": {"age": "3", "text": "a, b"}},
        {"inputs": {"age": "", "text": ""}},
    ]
    assert found(tmp_path / "t.csv", "text,top_k\nhello,1\n") == [{"text": "hello", "top_k": "1"}]
    with pytest.raises(BatchError, match="row 1 cannot be read: it has more values"):
        found(tmp_path / "t.csv", "age\n1,2\n")


def test_without_pyarrow_the_line_that_installs_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(EnvironmentSetupError, match=r"pip install .*parquet"):
        found(tmp_path / "k.parquet", b"PAR1")


def test_an_inventory(bucket: Bucket) -> None:
    from builder.base.aws import make_client

    rows = (
        '"pictures","a+b%C3%BC.jpg","v2","true","false","abc"\n'
        '"pictures","a+b%C3%BC.jpg","v1","false","false","old"\n'
        '"pictures","gone.jpg","v3","true","true",""\n'
        '"pictures","in/","v4","true","false","def"\n'
    )
    about = {
        "sourceBucket": "pictures",
        "destinationBucket": "arn:aws:s3:::lists",
        "fileFormat": "CSV",
        "fileSchema": "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, ETag",
        "files": [{"key": "data/1.csv.gz"}],
    }
    bucket.objects = {
        "lists/2026/manifest.json": json.dumps(about).encode(),
        "lists/data/1.csv.gz": gzip.compress(rows.encode()),
    }
    current = [{"Bucket": "pictures", "Key": "a bü.jpg", "VersionId": "v2", "ETag": "abc"}]
    assert list(read_items("s3://lists/2026/manifest.json", make_client("s3"))) == current
    bucket.objects["lists/2026/manifest.json"] = json.dumps(about | {"fileFormat": "ORC"}).encode()
    with pytest.raises(BatchError, match="inventory in ORC"):
        list(read_items("s3://lists/2026/manifest.json", make_client("s3")))
    bucket.objects["lists/2026/manifest.json"] = b"[]"
    with pytest.raises(BatchError, match="not the manifest"):
        list(read_items("s3://lists/2026/manifest.json", make_client("s3")))
    with pytest.raises(BatchError, match=r"reading s3://lists/none\.csv failed"):
        list(read_items("s3://lists/none.csv", make_client("s3")))


def test_an_inventory_in_parquet_has_other_names(bucket: Bucket) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from builder.base.aws import make_client

    table = {
        "bucket": ["pictures"] * 2, "key": ["a b%C3%BC.jpg"] * 2, "version_id": ["v2", "v1"],
        "is_latest": [True, False], "is_delete_marker": [False, False], "e_tag": ["abc", "old"],
    }  # fmt: skip
    file = io.BytesIO()
    import_pyarrow()[1].write_table(pyarrow.table(table), file)
    about = {
        "sourceBucket": "pictures",
        "destinationBucket": "arn:aws:s3:::lists",
        "fileFormat": "Parquet",
        "fileSchema": "message s3.inventory { required binary bucket (STRING); required binary key (STRING); }",
        "files": [{"key": "data/1.parquet"}],
    }
    bucket.objects = {"lists/manifest.json": json.dumps(about).encode(), "lists/data/1.parquet": file.getvalue()}
    assert list(read_items("s3://lists/manifest.json", make_client("s3"))) == [
        {"Bucket": "pictures", "Key": "a b%C3%BC.jpg", "VersionId": "v2", "ETag": "abc"}
    ]


def test_places() -> None:
    assert S3Location.from_address("s3://out/run1/").join_key("parts/0.jsonl") == S3Location(
        "out", "run1/parts/0.jsonl"
    )
    assert str(S3Location.from_address("s3://out").join_key("run.json")) == "s3://out/run.json"
    for wrong in ("out/run1", "s3://", "https://out/run1"):
        with pytest.raises(UsageError, match="is no place in S3"):
            S3Location.from_address(wrong)


KEYS = st.lists(st.text(max_size=300), max_size=60)


@given(KEYS, st.integers(1, 20), st.integers(0, 70))
def test_every_item_is_in_one_batch_in_its_order(keys: list[str], most: int, limit: int) -> None:
    given_items = [{"Bucket": "b", "Key": key} for key in keys]
    listing = batch_manifest.write_listing(given_items, limit)
    try:
        assert (listing.items, listing.objects) == (min(limit, len(keys)),) * 2
        file = io.StringIO()
        count = batch_manifest.write_batches(listing, most, file)
    finally:
        listing.close()
    lines = file.getvalue().splitlines() if file.getvalue() else []
    read = list(batch_manifest.read_batches(lines))
    assert [number for number, _ in read] == list(range(count))
    assert all(1 <= len(batch) <= most for _, batch in read)
    assert [item for _, batch in read for item in batch] == [
        {"Row": row, **item} for row, item in enumerate(given_items[:limit])
    ]


def test_a_batch_fits_into_an_event_and_an_item_that_does_not_is_refused() -> None:
    large = [{"text": "x" * 90_000}] * 5
    assert [len(batch) for batch in batch_manifest.group_items(batch_manifest.write_listing(large), 5)] == [2, 2, 1]
    with pytest.raises(BatchError, match="item 2 has"):
        batch_manifest.write_listing([{"text": ""}, {"text": "x" * INPUT_BYTES}])
    with pytest.raises(BatchError, match="damaged"):
        list(batch_manifest.read_batches(['{"Batch": 0}']))
