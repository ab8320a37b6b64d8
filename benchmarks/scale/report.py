"""``docs/scale.md``, its plot, and the table of ``docs/queues.md``, from ``docs/scale.json``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.plot import drawing
from benchmarks.scale.batch import ATTEMPTS
from benchmarks.tables import NONE, table

Results = Mapping[str, Any]
Row = Mapping[str, Any]

QUEUE_TABLE = re.compile(r"(?<=<!-- Written by `make scale`\. -->\n\n)\|.*?(?=\n\n)", re.DOTALL)
"""In docs/queues.md."""
NEAR = 1.05
TICKS = {
    "minutes": (1, 2, 5, 10, 20, 50, 100, 200),
    "dollars": (5, 10, 20, 30, 50),
    "concurrency": (50, 100, 200, 500, 1000, 2000, 5000, 10000),
}
_COLOURS = ("#1b6ca8", "#e08a1e", "#5a9e6f", "#a05195")


def page(results: Results) -> str:
    """docs/scale.md."""
    given = results["inputs"]
    parts = [
        "# Ten million items",
        "<!-- Written by `make scale` from benchmarks/scale/inputs.json. -->",
        f"What `coldforge batch` takes and costs for {given['items']:,} objects, against `--max-concurrency`: a "
        "queueing model of Step Functions, Lambda and S3 with AWS's default quotas, and measured times of this "
        "project's own models. It is arithmetic: nothing ran on AWS. [batch.md](batch.md) says how to run a batch.",
        "![Minutes and US dollars against MaxConcurrency](scale.svg)",
        "## What follows",
        "\n".join(_findings(results)),
    ]
    for scenario in given["scenarios"]:
        parts += [f"## {scenario['name']}", _about(given, scenario), table(rows(results["batch"][scenario["name"]]))]
    parts += ["## What the model knows", _model(given, results["fewer_attempts"])]
    return "\n\n".join(parts) + "\n"


def rows(found: Sequence[Row]) -> list[list[str]]:
    """A line for each MaxConcurrency."""
    cells = [
        ["MaxConcurrency", "minutes", "dry run says", "USD", "at once", "throttled calls", "given up", "out of time"]
    ]
    for row in found:
        cells.append(
            [
                f"{row['concurrency']:,}",
                f"{row['minutes']:,.1f}",
                f"{row['planned_minutes']:,.1f}",
                f"{row['dollars']:,.2f}",
                f"{row['peak']:,}",
                _count(row["throttled"]),
                _count(row["given_up"]),
                _count(row["late"]),
            ]
        )
    return cells


def queue_table(results: Results) -> str:
    """The table of docs/queues.md."""
    cells = [
        [
            "QueueMaximumConcurrency",
            "answers a second, at most",
            "waiting, at most",
            "longest wait",
            "caught up after",
            "first loss",
        ]
    ]
    for row in results["queue"]:
        lost = f"after {row['days_until_loss']:g} days" if row["days_until_loss"] else "never"
        cells.append(
            [
                f"{row['most']:,}",
                f"{row['per_second']:,.0f}",
                f"{row['messages']:,}",
                _duration(row["wait"]),
                _duration(row["behind"]) if row["behind"] is not None else "never",
                lost,
            ]
        )
    return table(cells)


def first(found: Sequence[Row], there: Callable[[Row], bool]) -> int | None:
    """The lowest MaxConcurrency of which ``there`` is true."""
    return next((int(row["concurrency"]) for row in found if there(row)), None)


def advised(found: Sequence[Row]) -> Row:
    """Of those that answer everything, the lowest MaxConcurrency that is within ``NEAR`` of the fastest."""
    whole = [row for row in found if not row["unanswered"]]
    fastest = min(row["minutes"] for row in whole)
    return min((row for row in whole if row["minutes"] <= fastest * NEAR), key=lambda row: int(row["concurrency"]))


def _findings(results: Results) -> list[str]:
    lines = []
    scenarios = {one["name"]: one for one in results["inputs"]["scenarios"]}
    for name, found in results["batch"].items():
        best = advised(found)
        said = (
            f"- **{name}**: as fast as it gets with {best['concurrency']:,} at once, in {best['minutes']:,.1f} minutes "
            f"for {best['dollars']:,.2f} USD."
        )
        throttled = first(found, lambda row: row["throttled"] > 0)
        late = first(found, lambda row: row["late"] > 0)
        if throttled:
            said += f" Lambda turns calls away from {throttled:,} on."
        peak, instances = max(row["peak"] for row in found), scenarios[name]["instances"]
        if peak < min(instances, found[-1]["concurrency"]):
            said += f" Step Functions starts too few a second to keep more than {peak:,} instances busy."
        if late:
            said += f" From {late:,} on, S3 delivers too slowly, and items run out of time; each has that as its code."
        lines.append(said)
    lines.append(
        "- Below these bounds the time is what `--dry-run` says, and the dollars hardly depend on MaxConcurrency. "
        "Above them more at once gains nothing: calls that are turned away are tried again, for a state transition "
        "each. Set MaxConcurrency to what the account has left for this function."
    )
    return lines


def _about(given: Mapping[str, Any], scenario: Mapping[str, Any]) -> str:
    model = given["models"][scenario["model"]]
    reads = given["quotas"]["reads"]["value"] * scenario["prefixes"]
    return (
        f"{model['ms']:g} ms an item and {model['cold_ms']:g} ms a cold start. The account has "
        f"{scenario['instances']:,} instances. The objects lie below {scenario['prefixes']} partitioned prefix"
        f"{'es' if scenario['prefixes'] > 1 else ''} of S3, which deliver{'s' * (scenario['prefixes'] == 1)} {reads:,} "
        "a second together."
    )


def _model(given: Mapping[str, Any], fewer: Row) -> str:
    function = given["function"]
    lines = [
        f"- A function with {function['memory']:,} MB and `Timeout={function['timeout']}`, and batches as "
        "`coldforge batch` cuts them for it.",
        "- Times as measured: " + "; ".join(f"{name} ({one['source']})" for name, one in given["models"].items()) + ".",
        *(f"- {_quota(one)}: [AWS]({one['source']})." for one in given["quotas"].values()),
        "- A call that is turned away is tried again as the template's state machine does: after up to 2, 4, 8, … 60 "
        f"seconds, drawn at random, up to {ATTEMPTS} times. With {given['fewer_attempts']} attempts "
        f"{fewer['given_up'] / (fewer['given_up'] + fewer['invocations']):.1%} of the batches were given up where "
        f"MaxConcurrency was {fewer['concurrency'] / given['scenarios'][0]['instances']:g} times what the account has.",
        "- All instances share what S3 delivers, and wait for it. In truth S3 answers `503 Slow Down`, and splits a "
        "prefix that is busy for long; both are left out. So are failures, other functions of the account, and the "
        "time that AWS takes to make an instance before a cold start.",
        "- List prices of `builder/prices.json`, as in [batch.md](batch.md#what-it-costs).",
        f"- Quotas are of {given['date']}. Change the inputs, and `make scale` writes this page again.",
    ]
    return "\n".join(lines)


def _quota(one: Mapping[str, Any]) -> str:
    rate = f", and {one['per_second']:,} more a second" if "per_second" in one else ""
    return f"{one['value']:,}{rate}: {one['what']}"


def _count(number: int) -> str:
    return f"{number:,}" if number else NONE


def _duration(seconds: float) -> str:
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.0f} s"


def draw(results: Results, path: Path) -> bool:
    """Write the plot, the same bytes for the same results; False when matplotlib is not installed."""
    pyplot = drawing()
    if pyplot is None:
        return False
    figure, axes = pyplot.subplots(1, 2, figsize=(12.4, 4.6))
    for axis, part, title in ((axes[0], "minutes", "minutes"), (axes[1], "dollars", "US dollars")):
        for colour, (name, found) in zip(_COLOURS, results["batch"].items(), strict=True):
            shown = {row["concurrency"]: row[part] for row in found}
            axis.plot(list(shown), list(shown.values()), color=colour, marker="o", markersize=3, label=name)
            for kind, marker in (("throttled", "x"), ("late", "s")):
                there = [row["concurrency"] for row in found if row[kind]]
                style = {"color": colour, "linestyle": "none", "markersize": 8, "fillstyle": "none"}
                axis.plot(there, [shown[at] for at in there], marker=marker, **style)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("MaxConcurrency")
        axis.set_title(f"{title}  (x: calls turned away, □: items out of time)", fontsize=9)
        axis.set_xticks(TICKS["concurrency"], [f"{tick:,}" for tick in TICKS["concurrency"]])
        axis.set_yticks(TICKS[part], [f"{tick:,}" for tick in TICKS[part]])
        axis.minorticks_off()
        axis.grid(linewidth=0.3)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True
