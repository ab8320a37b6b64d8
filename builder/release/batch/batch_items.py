"""Inputs of a batch run: the objects below a prefix, or the rows of a list, one item at a time.

An item is the function's input from Step Functions: an object (``Bucket``, ``Key``, and where they are known ``ETag``
and ``VersionId``), or a request of our own protocol.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote_plus

from builder.base.commands import choose_command
from builder.base.errors import BatchError, EnvironmentSetupError, UsageError
from builder.release.batch.s3_location import S3Location, batch_errors, open_object
from handler.options import NAMES

INSTALL = choose_command(
    ".venv/bin/pip install --no-deps --require-hashes -r requirements/parquet.txt", "pip install 'coldforge[parquet]'"
)
Item = dict[str, Any]

FORMS = ("prefix", "csv", "jsonl", "parquet", "inventory")
_ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_NAMES = {
    "bucket": "Bucket", "key": "Key", "versionid": "VersionId", "version_id": "VersionId",
    "etag": "ETag", "e_tag": "ETag",  # The latter is in an inventory in Parquet.
}  # fmt: skip
_FOLDER = "/"
"""Ending of the keys that consoles create for folders: objects without bytes."""
_ROWS = 1000
"""Number of rows of Parquet that are in memory at once."""


def import_pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and pyarrow.parquet. Raises EnvironmentSetupError, which says how to install them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise EnvironmentSetupError(f"Parquet needs pyarrow, which is not installed here: `{INSTALL}`.") from None
    return pyarrow, pyarrow.parquet


def detect_form(source: str) -> str:
    """Return the form of ``source`` by its name: one of FORMS."""
    name = source.rpartition("/")[2]
    return "inventory" if name == "manifest.json" else _ENDINGS.get(Path(name).suffix, "prefix")


def read_items(source: str, s3: Any, form: str | None = None, bucket: str | None = None) -> Iterator[Item]:
    """Yield the items of ``source``: an address in S3, or a list in a file here.

    ``form``: one of FORMS, where the name does not tell it. ``bucket``: the bucket of rows that name none. Raises
    BatchError, UsageError, and EnvironmentSetupError for Parquet without pyarrow.
    """
    form = form or detect_form(source)
    if form == "prefix":
        yield from _list_objects(S3Location.from_address(source), s3)
        return
    with _open_list(source, s3) as file:
        if form == "inventory":
            yield from _read_inventory(file, source, s3)
        else:
            yield from _convert_rows(_READERS[form](file), source, bucket)


def _list_objects(place: S3Location, s3: Any) -> Iterator[Item]:
    with batch_errors(f"listing {place}"):
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.key):
            for row in page.get("Contents", []):
                if not row["Key"].endswith(_FOLDER):
                    yield {"Bucket": place.bucket, "Key": row["Key"], "ETag": row["ETag"].strip('"')}


@contextmanager
def _open_list(source: str, s3: Any) -> Iterator[IO[bytes]]:
    """Open a list as a file; one in S3 is fetched to a temporary file, because Parquet is read from its end."""
    if not source.startswith("s3://"):
        try:
            with Path(source).open("rb") as file:
                yield file
        except FileNotFoundError:
            raise UsageError(f"there is no file {source}; write s3://bucket/prefix for objects in S3.") from None
        return
    location = S3Location.from_address(source)
    with tempfile.TemporaryFile() as file:
        with open_object(location, s3) as body:
            shutil.copyfileobj(body, file)
        file.seek(0)
        yield file


def _decode_lines(file: IO[bytes]) -> Iterator[str]:
    return (line.decode("utf-8-sig" if number == 0 else "utf-8") for number, line in enumerate(file))


def _read_csv(file: IO[bytes]) -> Iterator[Mapping[str, Any]]:
    return csv.DictReader(_decode_lines(file))


def _read_json_lines(file: IO[bytes]) -> Iterator[Mapping[str, Any]]:
    return (json.loads(line) for line in _decode_lines(file) if line.strip())


def _read_parquet(file: IO[bytes]) -> Iterator[Mapping[str, Any]]:
    _, parquet = import_pyarrow()
    for batch in parquet.ParquetFile(file).iter_batches(batch_size=_ROWS):
        for row in batch.to_pylist():
            yield {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in row.items()}


_READERS: dict[str, Callable[[IO[bytes]], Iterator[Mapping[str, Any]]]] = {
    "csv": _read_csv,
    "jsonl": _read_json_lines,
    "parquet": _read_parquet,
}


def _convert_rows(rows: Iterable[Mapping[str, Any]], source: str, bucket: str | None) -> Iterator[Item]:
    number = 1
    try:
        for row in rows:
            yield _make_item(row, bucket)
            number += 1
    except (ValueError, AttributeError, csv.Error) as error:
        raise BatchError(f"{source}: row {number:,} cannot be read: {error}") from error
    except LookupError:
        raise BatchError(
            f"{source}: row {number:,} names an object without a bucket; add a column, or --bucket."
        ) from None


def _make_item(row: Mapping[str, Any], bucket: str | None) -> Item:
    """Make an item of a row. Raises LookupError where an object has no bucket, ValueError for values without a name."""
    named = {_NAMES[name.lower()]: value for name, value in row.items() if name and name.lower() in _NAMES and value}
    if "Key" not in named:
        if None in row:
            raise ValueError("it has more values than the first row has names")
        # The row is a request as it is, or tensors, each a column of Parquet, or the row of a table.
        return dict(row) if row.keys() <= _REQUESTS and row.keys() & _CONTENTS else {"inputs": dict(row)}
    if "ETag" in named:
        named["ETag"] = str(named["ETag"]).strip('"')
    if not (bucket or "Bucket" in named):
        raise LookupError("bucket")
    return {"Bucket": bucket} | named


_CONTENTS = {"image", "images", "audio", "text", "texts", "row", "rows", "examples", "inputs"}
_REQUESTS = {*_CONTENTS, *NAMES, "text_pair", "text_pairs", "model", "signature"}


def _read_inventory(file: IO[bytes], source: str, s3: Any) -> Iterator[Item]:
    """Yield the objects of an S3 inventory, whose manifest.json is ``file``. Keys in its CSV are URL-encoded.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html
    """
    try:
        manifest = json.load(file)
        kind, bucket_name = manifest["fileFormat"], manifest["destinationBucket"].rpartition(":")[2]
        columns = [name.strip() for name in manifest["fileSchema"].split(",")] if kind == "CSV" else []
        parts = [S3Location(bucket_name, part["key"]) for part in manifest["files"]]
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise BatchError(f"{source} is not the manifest.json of an S3 inventory: {error}") from error
    if kind not in ("CSV", "Parquet"):
        raise BatchError(f"{source} is an inventory in {kind}; take one in CSV or Parquet.")
    for part in parts:
        with _open_list(str(part), s3) as data:
            rows = _read_inventory_csv(data, columns) if kind == "CSV" else _read_parquet(data)
            objects = _convert_rows(filter(_is_current, rows), str(part), manifest.get("sourceBucket"))
            yield from (item for item in objects if not item["Key"].endswith(_FOLDER))


def _read_inventory_csv(file: IO[bytes], columns: list[str]) -> Iterator[Mapping[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
        for values in csv.reader(text):
            row = dict(zip(columns, values, strict=False))
            yield {**row, "Key": unquote_plus(row["Key"])}


def _is_current(row: Mapping[str, Any]) -> bool:
    """Return whether the row of an inventory is an object's latest version, as it is where no versions are kept."""
    latest = row.get("IsLatest", row.get("is_latest"))
    deleted = row.get("IsDeleteMarker", row.get("is_delete_marker"))
    return str(latest).lower() in ("none", "", "true") and str(deleted).lower() != "true"
