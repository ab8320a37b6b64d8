"""The table of ``make coverage``."""

from __future__ import annotations

from tests.coverage.table import Row, ranges, share, table, to_dict, total

ROWS = [
    Row("all.c", 4, 4, 2, 2),
    Row("half.c", 2, 1, 2000, 1999, missed=(7,), partial=(3, 4, 5, 9)),
    Row("straight.c", 1, 1, 0, 0),
]


def test_what_is_missing_most_comes_first() -> None:
    text = table("runtime", ROWS).splitlines()
    assert text[2:] == [
        "| all | 7 | 85.7 % | 2002 | 99.9 % |  |  |",
        "| half.c | 2 | 50.0 % | 2000 | 99.9 % | 7 | 3–5, 9 |",
        "| all.c | 4 | 100.0 % | 2 | 100.0 % |  |  |",
        "| straight.c | 1 | 100.0 % | 0 | – |  |  |",
    ]
    assert text[0].count("|") == text[1].count("|") == text[2].count("|")


def test_only_all_of_it_is_a_hundred_percent() -> None:
    assert [share(1999, 2000), share(99_999, 100_000), share(5, 5), share(0, 3)] == [
        "99.9 %",
        "99.9 %",
        "100.0 %",
        "0.0 %",
    ]
    assert share(0, 0) == "–"


def test_lines_are_told_as_ranges() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == "1–3, 7, 9–10"
    assert ranges([]) == ""


def test_the_json_has_every_row_and_their_sum() -> None:
    found = to_dict(ROWS)
    assert found["total"]["branches_run"] == total(ROWS).branches_run == 2001
    assert [row["file"] for row in found["files"]] == ["all.c", "half.c", "straight.c"]
