#!/bin/sh
# ./run.sh [OPTIONS OF benchmarks.run]: time every network here; results/benchmarks.md is the page, results.json the data.
set -eu
cd "$(dirname "$0")"
python=python3
[ -x peers/bin/python ] && python=peers/bin/python
exec "$python" -m benchmarks.run --prepared --repeats 0 --output results "$@"
