"""``docs/conformance.md``: what came of every case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

from builder.escape import markdown
from tests.conformance.run import Result
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "conformance.md"

_HEAD = f"""\
# Conformance

<!-- Made by `make conformance`; do not edit. -->

Whole lists of models, each built as it is: made in Keras {{keras}} with seeded weights, saved, imported, compiled with
TensorFlow {tf.__version__}, linked, and run on the golden inputs. *Agrees* means that the library's answers are
TensorFlow's, within the tolerance of a model without a `[tolerance]` of its own. *Error* is the worst difference, as a
share of what is allowed. *Refused* means that the build stops and names what it cannot compile, *disagrees* that it
stops because the library's answers are not TensorFlow's, and *error* that Keras or coldforge is at fault.

"""


def text(results: Sequence[Result], sizes: Mapping[str, int]) -> str:
    """The page. ``sizes``: how long each list is."""
    import keras

    parts = [
        _HEAD.format(keras=keras.__version__),
        "| | in the list | built | agree | refused | error | disagree |\n|---|---|---|---|---|---|---|\n",
    ]
    groups = list(dict.fromkeys(result.group for result in results))
    for group in groups:
        counts = Counter(r.outcome for r in results if r.group == group)
        total = counts.total()
        row = " | ".join(f"{counts[name]}" for name in ("refused", "error", "disagrees"))
        parts.append(
            f"| {group} | {sizes[group]} | {total} | {counts['agrees']} ({counts['agrees'] / total:.1%}) | {row} |\n"
        )
    for group in groups:
        parts += [f"\n## {group}\n\n| | | error | build, s | library, MB | |\n|---|---|---|---|---|---|\n"]
        parts += _rows(sorted((r for r in results if r.group == group), key=lambda r: r.name))
    return "".join(parts)


def _rows(results: Sequence[Result]) -> Iterator[str]:
    for r in results:
        measured = f"{r.error:.2g} | {r.seconds:.0f} | {r.size / 1e6:.1f} | {r.path}"
        if r.outcome in ("refused", "error"):
            measured = f"| | | {markdown(_said(r.why))}"
        elif r.why:
            measured += f": {markdown(r.why)}"
        yield f"| {r.name} | {r.outcome} | {measured} |\n"


def _said(why: str) -> str:
    """The line of a message that names what is at fault."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    return next((line for line in lines[1:] if ": " in line), lines[0])[:160]
