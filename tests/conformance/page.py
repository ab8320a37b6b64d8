"""``docs/conformance.md``: what came of every case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

from builder.base.escape import escape_markdown
from tests.conformance.cases import DAYS
from tests.conformance.run import Result
from tests.conformance.special import COLUMNS, Row

_HEAD = f"""\
# Conformance

<!-- Made by `make conformance`; do not edit. -->

Whole lists of models, each built as it is: made in Keras {{keras}} with seeded weights, saved (as a SavedModel where
Keras has no graph of it), imported, compiled with TensorFlow {tf.__version__}, linked, and run on the golden inputs.
So are the layers of Keras 2, made by tf-keras of the same version as TensorFlow and saved as `.h5` and as `.keras`, and
the networks of PyTorch and JAX that `make test-frameworks` tests, in the frameworks' own formats.

- *Agrees*: the library's answers are the framework's, within the tolerance of a model without a `[tolerance]` of its
  own.
- *Refused*: the build stops and names what it cannot compile.
- *Disagrees*: the build stops, since the library's answers are not the framework's.
- *Error*: the framework or coldforge is at fault.

The column *error* has the worst difference, as a share of what is allowed. The seconds are those of a build on two
processors that had other work as well.

`make conformance` takes hours. Every day, `make test-all` builds a few layers and, on some days, one of the smaller
networks, and holds them against this page: in {{days}} days all layers and those networks. The others are run by hand.

ConvNeXtXLarge is not built: its 1.4 GB of weights take more than 18.5 GB to read and compile, and the machine has 23.

"""


_SPECIAL = """
## Special values

What each op answers where its input holds NaN, an infinity, zeros of both signs, an id out of range, a number that the
type of a cast cannot hold, or an end of its integer type: at the first place, in the middle, at the last, everywhere.
The library is called through its C ABI, and TensorFlow runs the op by itself. (The function refuses NaN and infinities
before, by the feed's name, unless the feed has `nan = true` in `model.toml`.)

- =: as the framework answers, but for the last digits, and for the sign of a zero.
- *refused*: the library refuses the call by the feed's name, as TensorFlow raises.
- *differs*: another answer, or one where TensorFlow raises: [how](ops.md#special-values).
- *not built*: the build refuses the op.

`make conformance GROUPS=special` makes the table, in a minute.

"""
_MARKS = {"as the framework": "="}


def special_values(rows: Sequence[Row]) -> str:
    """The page's part on special values."""
    outcomes = {(row.op, row.value): _MARKS.get(row.outcome, row.outcome) for row in rows}
    parts = [_SPECIAL, f"| op | {' | '.join(COLUMNS)} |\n|---{'|---' * len(COLUMNS)}|\n"]
    for op in dict.fromkeys(row.op for row in rows):
        cells = [outcomes.get((op, value), "") for value in COLUMNS]
        parts.append(f"| {escape_markdown(op)} | {' | '.join(cells)} |\n")
    return "".join(parts)


def text(results: Sequence[Result], sizes: Mapping[str, int]) -> str:
    """The page. ``sizes``: how long each list is."""
    import keras

    parts = [
        _HEAD.format(keras=keras.__version__, days=DAYS),
        "| | in the list | built | agree | refused | error | disagree |\n|---|---|---|---|---|---|---|\n",
    ]
    groups = list(dict.fromkeys(result.group for result in results))
    for group in groups:
        counts = Counter(r.outcome for r in results if r.group == group)
        share = f"{counts['agrees']} ({counts['agrees'] / counts.total():.1%})"
        numbers = (sizes[group], counts.total(), share, counts["refused"], counts["error"], counts["disagrees"])
        parts.append(f"| {group} | {' | '.join(map(str, numbers))} |\n")
    for group in groups:
        parts += [f"\n## {group}\n\n| | | error | build, s | library, MB | |\n|---|---|---|---|---|---|\n"]
        parts += _rows([r for r in results if r.group == group])
    return "".join(parts)


def _rows(results: Sequence[Result]) -> Iterator[str]:
    for r in results:
        measured = f"{r.error:.2g} | {r.seconds:.0f} | {r.size / 1e6:.1f} | {r.path}"
        if r.outcome in ("refused", "error"):
            measured = f"| | | {escape_markdown(_said(r.why))}"
        elif r.why:
            measured += f": {escape_markdown(r.why)}"
        yield f"| {r.name} | {r.outcome} | {measured} |\n"


def _said(why: str) -> str:
    """The line of a message that names what is at fault."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    return next((line for line in lines[1:] if ": " in line), lines[0])[:160]
