#!/usr/bin/env python3
"""A check of the named model.toml files, for pre-commit, which runs this file without installing anything.

The system's Python runs it, so it says where that is too old for coldforge.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - this Python is not the one that coldforge is installed in
        sys.exit("coldforge: checking model.toml needs Python 3.11 or newer; this is " + sys.version.split()[0] + ".")
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from builder.cli import main

    sys.exit(main(["check-spec", *sys.argv[1:]]))
