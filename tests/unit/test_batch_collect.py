"""One row for each item of a run, whatever was answered, lost, retried or damaged; and the tables of them."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.base.aws import make_client
from builder.base.errors import BatchError, UsageError
from builder.cli import main
from builder.release.batch.answer_rows import (
    NOT_ANSWERED,
    ResultRow,
    choose_best_row,
    join_answers,
    read_rows,
    select_new_items,
    store_answers,
)
from builder.release.batch.batch_items import Item
from builder.release.batch.batch_manifest import write_batches, write_listing
from builder.release.batch.batch_run import BatchAttempt, BatchRun, find_run
from builder.release.batch.collect_answers import Collected, choose_columns, describe_table, make_record, write_table
from builder.release.batch.s3_location import S3Location
from tests.support.results import printed
from tests.support.s3 import Bucket, serving

MACHINE = "arn:aws:states:us-east-1:0:stateMachine:stack-batch"
HEAD = {"model": {"name": "emotion", "version": "1"}, "layer": "digest"}
RUN = BatchRun(S3Location("out", "run1"), "s3://in/", MACHINE, 0, 0, 1, {"max_concurrency": 1, "tolerated": 10})


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with serving() as bucket, pytest.MonkeyPatch.context() as patch:
        for name, value in bucket.environment.items():
            patch.setenv(name, value)
        yield bucket


@cache
def s3_client() -> Any:
    """One for all tests: making it takes half a second."""
    return make_client("s3")


@pytest.fixture
def bucket(server: Bucket) -> Bucket:
    server.objects = {}
    return server


def item(row: int) -> Item:
    return {"Row": row, "Bucket": "in", "Key": f"{row}.jpg", "ETag": f"e{row}"}


def happy(row: int) -> dict[str, Any]:
    return {"emotion": [{"label": "happy", "probability": row / 1000}, {"label": "sad", "probability": 0.0}]}


def line(row: int, code: str | None = None) -> dict[str, Any]:
    answer = {"error": {"code": code, "message": "m"}} if code else {"predictions": [happy(row)]}
    return {"Row": row, "ETag": f"e{row}", **answer}


def part(*lines: object, head: object = HEAD) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in (head, *lines))


def put(bucket: Bucket, run: BatchRun, items: list[Item], most: int, parts: dict[int, bytes]) -> BatchRun:
    """``run`` with one more attempt in ``bucket``."""
    file, number = io.StringIO(), len(run.attempts)
    count = write_batches(items, most, file)
    attempt = BatchAttempt(number, len(items), count, most, f"{MACHINE}:{number}")
    bucket.objects[f"out/run1/{attempt.list}"] = file.getvalue().encode()
    bucket.objects |= {f"out/run1/{attempt.make_part_name(number)}": data for number, data in parts.items()}
    run = replace(run.with_attempt(attempt), items=max(run.items, len(items)))
    run.save(s3_client())
    return run


LINES = st.lists(
    st.one_of(
        st.builds(line, st.integers(0, 9), st.sampled_from([None, "too_large"])),
        st.sampled_from([{}, [], None, 5, {"Row": 3}, {"Row": 4, "error": 7}, {"Row": "x"}]),
    ),
    max_size=20,
)


@given(LINES, st.one_of(st.just(HEAD), st.sampled_from([{}, [], 7])), st.integers(0, 9))
def test_a_part_gives_each_item_one_row_whatever_it_has(found: list[Any], head: object, count: int) -> None:
    items = [item(row) for row in range(count)]
    for data in (part(*found, head=head), part(*found, head=head)[:-5], b"\xff", b"", None):
        made = list(join_answers(items, data))
        assert [row.number for row in made] == list(range(count))
        for row in made:
            assert (row.predictions is None) == (row.code is not None)
            assert row.predictions in (None, [happy(row.number)])


@given(st.permutations([line(row) for row in range(6)]), st.lists(st.integers(0, 5), max_size=6))
def test_order_and_duplicates_in_a_part_change_nothing(found: list[Any], again: list[int]) -> None:
    items = [item(row) for row in range(6)]
    want = list(join_answers(items, part(*(line(row) for row in range(6)))))
    assert list(join_answers(items, part(*found, *(line(row) for row in again)))) == want


def test_of_several_attempts_the_one_that_says_most_counts() -> None:
    good, other = ResultRow(1, item(1), "e", [1], model="a"), ResultRow(1, item(1), "e", [2], model="b")
    lost, large = ResultRow(1, item(1), None, None, NOT_ANSWERED), ResultRow(1, item(1), None, None, "too_large")
    assert choose_best_row([lost, good]) == choose_best_row([good, lost]) == choose_best_row([good, large]) == good
    assert choose_best_row([good, other]) == other
    assert choose_best_row([large, lost]) == large
    assert choose_best_row([lost]) == lost


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=12)
@given(st.data())
def test_a_run_of_several_attempts_has_each_row_once(bucket: Bucket, data: st.DataObject) -> None:
    bucket.objects = {}
    count = data.draw(st.integers(1, 40))
    left, run, want = list(range(count)), RUN, dict.fromkeys(range(count), NOT_ANSWERED)
    for _ in range(data.draw(st.integers(1, 3))):
        most = data.draw(st.integers(1, 9))
        batches = [left[start : start + most] for start in range(0, len(left), most)]
        parts = {}
        for number, batch in enumerate(batches):
            if data.draw(st.booleans()):  # another one failed for good
                codes = {row: data.draw(st.sampled_from(["", "too_large"])) for row in batch}
                parts[number] = part(*(line(row, code or None) for row, code in codes.items()))
                want |= codes
        run = put(bucket, run, [item(row) for row in left], most, parts)
        left = [row for row in left if want[row]]
        if not left:
            break
    found = list(read_rows(BatchRun.load("s3://out/run1", s3_client()), s3_client()))
    assert [row.number for row in found] == list(range(count))
    assert {row.number: row.code or "" for row in found} == want
    assert all(row.etag == f"e{row.number}" for row in found)


@pytest.fixture
def finished(bucket: Bucket) -> BatchRun:
    """A run of 25 items in batches of 10, of which the second failed for good, and two items are wrong."""
    parts = {
        0: part(*(line(row, "too_large" if row == 3 else None) for row in range(10))),
        2: part(*(line(row, "damaged_image" if row == 24 else None) for row in range(20, 25))),
    }
    return put(bucket, RUN, [item(row) for row in range(25)], 10, parts)


FAILED = {"too_large": 1, "damaged_image": 1, NOT_ANSWERED: 10}
COLUMNS = ["row", "bucket", "key", "etag", "model", "version", "layer", "code", "emotion.label", "emotion.score"]


def test_a_table_as_csv_and_json_lines(finished: BatchRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", "collect", "s3://out/run1", "--output", str(tmp_path / "t.csv"), "--json"]) == 0
    found = printed("batch collect", capsys.readouterr().out)
    assert (found["rows"], found["failed"], found["columns"]) == (25, FAILED, COLUMNS)
    with (tmp_path / "t.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["row"] for row in table] == [str(row) for row in range(25)]
    assert table[1] == dict(
        zip(COLUMNS, ["1", "in", "1.jpg", "e1", "emotion", "1", "digest", "", "happy", "0.001"], strict=True)
    )
    assert table[12]["code"] == NOT_ANSWERED
    assert main(["batch", "collect", "s3://out/run1", "--output", str(tmp_path / "t.jsonl")]) == 0
    assert "25 rows, of them without an answer: 1 damaged_image, 10 not_answered" in capsys.readouterr().out
    lines = [json.loads(text) for text in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert lines[1]["predictions"] == [happy(1)]
    assert (lines[3]["code"], lines[3]["message"]) == ("too_large", "m")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.jsonl"]


def test_a_table_as_parquet(finished: BatchRun, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    s3 = s3_client()
    found = write_table(lambda: read_rows(finished, s3), tmp_path / "t.parquet")
    assert found == Collected(str(tmp_path / "t.parquet"), 25, FAILED, tuple(COLUMNS))
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table.column_names == COLUMNS
    assert table["row"].to_pylist() == list(range(25))
    assert table["emotion.score"].to_pylist()[:4] == [0.0, 0.001, 0.002, None]


def test_columns_of_other_answers() -> None:
    vector = ResultRow(7, {"inputs": {}}, None, [{"embedding": [0.5, None], "count": 3, "name": "x", "boxes": [[1]]}])
    columns = choose_columns([{"embedding": [0.1, 0.2], "count": 1.5, "name": "y", "boxes": [[2]]}])
    assert columns == {"embedding": "vector", "count": "number", "name": "text", "boxes": "text"}
    made = make_record(vector, columns)
    assert made["embedding"][0] == 0.5
    assert made["embedding"][1] != made["embedding"][1]
    assert (made["count"], made["name"], made["boxes"]) == (3.0, "x", "[[1]]")
    windows = [{"start": 0, "x": 1}, {"start": 1, "x": 2}]
    assert make_record(replace(vector, predictions=windows), choose_columns(windows))["predictions"] == json.dumps(
        windows, separators=(",", ":")
    )
    for other in ([], [{"more": 1}], [{"embedding": "x"}], [{"count": "x"}], windows):
        with pytest.raises(BatchError, match=r"row 7 has an answer of another form"):
            make_record(replace(vector, predictions=other), columns)


def test_a_run_without_answers_is_a_table_too(tmp_path: Path) -> None:
    found = write_table(lambda: iter([ResultRow(0, item(0), None, None, NOT_ANSWERED)]), tmp_path / "t.csv")
    assert found.failed == {NOT_ANSWERED: 1}
    assert describe_table(replace(found, failed={})).endswith("1 rows")
    with pytest.raises(UsageError, match="a table ends with"):
        write_table(lambda: iter([]), tmp_path / "t.xlsx")


def test_a_table_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[ResultRow]:
        yield ResultRow(0, item(0), "e", [happy(0)])
        raise BatchError("S3 is gone")

    with pytest.raises(BatchError, match="is gone"):
        write_table(broken, tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builder.release.batch.collect_answers.GROUP", 200)

    def peak(count: int) -> int:
        def made() -> Iterator[ResultRow]:
            return (ResultRow(row, item(row), "e", [happy(row)], model="m") for row in range(count))

        tracemalloc.start()
        write_table(made, tmp_path / "t.csv")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(6_000) < 1.2 * peak(2_000)


def test_answers_of_an_earlier_run_are_taken_over(finished: BatchRun) -> None:
    s3, reused = s3_client(), io.StringIO()
    changed = item(1) | {"ETag": "new"}
    new = {"Bucket": "in", "Key": "new.jpg", "ETag": "e0"}
    given_items = [new, item(0), changed, item(3), item(12), {"text": "hello"}, {"Bucket": "in", "Key": "0.jpg"}]
    plain = [{name: value for name, value in one.items() if name != "Row"} for one in given_items]
    with store_answers(read_rows(finished, s3), "digest") as known:
        left = list(select_new_items(iter(plain), known, reused))
    assert [one["Row"] for one in left] == [0, 2, 3, 4, 5, 6]  # a new key, new bytes, an error, a lost one, no ETag
    (taken,) = [ResultRow(**json.loads(text)) for text in reused.getvalue().splitlines()]
    assert (taken.number, taken.item["Key"], taken.predictions, taken.layer) == (1, "0.jpg", [happy(0)], "digest")
    with store_answers(read_rows(finished, s3), "another layer") as known:
        assert len(list(select_new_items(iter(plain), known, reused))) == len(plain)


def test_the_same_bytes_under_another_key_are_answered_already() -> None:
    """By S3's ETags, which are of the bytes alone; a text is read as its key says."""
    md5, parts = "0cc175b9c0f1b6a831c399e269772661", "0cc175b9c0f1b6a831c399e269772661-2"
    before = [
        ResultRow(n, item(n) | {"ETag": tag}, tag, [happy(n)], layer="digest") for n, tag in enumerate((md5, parts))
    ]
    keys = [("moved.jpg", md5), ("moved too.jpg", parts), ("a.json", md5), ("b.jpg", md5.upper()), ("c.jpg", md5[1:])]
    reused = io.StringIO()
    with store_answers(before, "digest") as known:
        left = list(
            select_new_items(({"Bucket": "other", "Key": key, "ETag": tag} for key, tag in keys), known, reused)
        )
    assert [one["Key"] for one in left] == ["a.json", "b.jpg", "c.jpg"]
    taken = [ResultRow(**json.loads(text)) for text in reused.getvalue().splitlines()]
    assert [(row.number, row.item["Key"], row.predictions) for row in taken] == [
        (0, "moved.jpg", [happy(0)]),
        (1, "moved too.jpg", [happy(1)]),
    ]


def test_reused_rows_stand_among_the_others(bucket: Bucket) -> None:
    reused = [ResultRow(row, item(row), f"e{row}", [happy(row)], layer="digest") for row in (0, 2)]
    bucket.objects["out/run1/reused.jsonl"] = b"".join(json.dumps(vars(row)).encode() + b"\n" for row in reused)
    run = put(bucket, replace(RUN, reused=2), [item(1), item(3)], 1, {0: part(line(1)), 1: part(line(3))})
    found = list(read_rows(run, s3_client()))
    assert [row.number for row in found] == [0, 1, 2, 3]
    assert all(row.predictions == [happy(row.number)] for row in found)


def test_a_run_is_found_again_and_others_are_not(finished: BatchRun, bucket: Bucket) -> None:
    s3 = s3_client()
    assert find_run("s3://out/run1/", s3) == replace(finished, place=S3Location("out", "run1/"))
    assert find_run("s3://out/run2", s3) is None
    with pytest.raises(BatchError, match="there is no run at s3://out/run2"):
        BatchRun.load("s3://out/run2", s3)
    with pytest.raises(BatchError, match="nothing was started"):
        _ = RUN.last
    for wrong in (b"{", b"[]", b'{"schema": 1}', b'{"schema": 2, "attempts": []}'):
        bucket.objects["out/run1/run.json"] = wrong
        with pytest.raises(BatchError, match=r"run\.json"):
            find_run("s3://out/run1", s3)


def test_a_store_that_is_not_reached_is_an_error(bucket: Bucket) -> None:
    with pytest.raises(BatchError, match=r"reading s3://out/run1/run\.json failed"):
        find_run("s3://out/run1", make_client("s3", "http://127.0.0.1:9", attempts=1))


def test_what_step_functions_gets(finished: BatchRun) -> None:
    assert finished.make_event() == {
        "Bucket": "out",
        "List": "run1/list/0.jsonl",
        "Report": "run1/report/0",
        "MaxConcurrency": 1,
        "ToleratedFailurePercentage": 10,
        "BatchInput": {"Results": "s3://out/run1/parts/0/", "Together": 1},
    }


def test_a_listing_keeps_its_rows() -> None:
    listing = write_listing([item(3), item(7)], numbered=True)
    assert [one["Row"] for one in listing] == [3, 7]
    listing.close()
