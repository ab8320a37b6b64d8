#!/bin/sh
# ./peers.sh: install the other engines into the folder peers, from PyPI. They need Python 3.11 or newer.
set -eu
cd "$(dirname "$0")"
for python in python3.13 python3.12 python3.11 python3; do
    command -v "$python" > /dev/null && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' && break
    python=
done
[ -n "$python" ] || { echo "no Python 3.11 or newer is here; on Amazon Linux: sudo dnf install python3.11" >&2; exit 1; }
"$python" -m venv peers
peers/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -r peers.txt
echo "installed; ./run.sh measures them, too"
