"""``python -m benchmarks.scale``: work everything out again, and write the pages."""

from __future__ import annotations

from benchmarks.gallery import DOCS
from benchmarks.report import write_json
from benchmarks.scale.report import QUEUE_TABLE, draw, page, queue_table
from benchmarks.scale.study import inputs, study


def main() -> None:
    results = study(inputs())
    write_json(results, DOCS / "scale.json")
    (DOCS / "scale.md").write_text(page(results), encoding="utf-8")
    queues = DOCS / "queues.md"
    shown = queue_table(results)
    queues.write_text(QUEUE_TABLE.sub(lambda _: shown, queues.read_text(encoding="utf-8")), encoding="utf-8")
    if not draw(results, DOCS / "scale.svg"):
        print("docs/scale.svg is as it was: there is no matplotlib")


if __name__ == "__main__":
    main()
