"""``python -m benchmarks.choices [NETWORK...]``: how far the rule's algorithms are behind measured ones.

For each network, every layer is timed with every algorithm that it can have, in place (as ``coldforge tune`` does, but
no file is written). The choice of the rule, which every machine makes alike, then has a total time, and so has the
tuner's. The rule is good enough if it is nowhere more than ``MOST`` behind. Exit code 1 if it is.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.models import FOLDER, NETWORKS, Network, named
from benchmarks.tables import NONE, table
from builder.measure.tune import Tuned, time_choices, to_dict
from builder.targets import host_target

MOST = 0.05


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choices", description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="as lstm or lstm-batch16; all when left out")
    parser.add_argument("--seconds", type=float, default=10.0, help="of measuring, for each network (default: 10)")
    default = FOLDER / "choices.json"
    parser.add_argument("--output", type=Path, default=default, help="default: build/bench/choices.json")
    options = parser.parse_args(arguments)
    found: dict[str, dict[str, Any]] = {}
    for name in options.networks or NETWORKS:
        found[name] = to_dict(_measure(named(name), options.seconds)) | {"file": None}
        options.output.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name}: {summary(found[name])}", flush=True)
    print(f"\n{text(found)}")
    return int(any(share > MOST for of in found.values() for share in of["behind"].values()))


def _measure(network: Network, seconds: float) -> Tuned:
    from benchmarks.prepare import save_keras, workspace

    save_keras(network)
    return time_choices(workspace(network, host_target()), seconds=seconds)


def summary(of: dict[str, Any]) -> str:
    """One network's result in a line."""
    behind = ", ".join(f"{isa} {share:.1%}" for isa, share in of["behind"].items()) or "no layer has a choice"
    return f"{behind}; {of['rounds']} rounds"


def text(found: dict[str, dict[str, Any]]) -> str:
    """A table of how far behind the rule is, and which layers the tuner would change."""
    isas = sorted({isa for of in found.values() for isa in of["behind"]})
    rows = [["the rule is behind by", *isas, "layers with a choice", "the tuner changes"]]
    for name, of in found.items():
        changed = [label for label, layer in of["layers"].items() if layer["algorithm"] != layer["rule"]]
        shares = [f"{of['behind'][isa]:.1%}" if isa in of["behind"] else NONE for isa in isas]
        rows.append([name, *shares, str(len(of["layers"])), str(len(changed))])
    return table(rows)


if __name__ == "__main__":
    raise SystemExit(main())
