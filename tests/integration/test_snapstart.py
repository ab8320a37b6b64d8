"""SnapStart: the function under AWS's own runtime client, stopped where Lambda takes the snapshot.

A fork stands for the snapshot: each child goes on with the same memory, as each instance does that is made of one.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from builder.base.project import HOME
from builder.measure.local.emulator import LambdaEmulator
from builder.measure.local.run_event import image_event, prepare_emulator
from tests.support import abi_library, runtime_api, s3
from tests.support.packages import linked

pytestmark = [pytest.mark.integration, pytest.mark.network]

FACE = HOME / "tests" / "data" / "face.jpg"
CHILDREN = 12
TWINS = """
import ctypes, json, os, sys
import awslambdaric.bootstrap  # as Lambda does
from awslambdaric import lambda_runtime_hooks_runner as hooks
from handler import app, remote, storage, tracing
from handler.telemetry import logger

# The C library's: Python's own fork seeds random numbers anew, which no snapshot does.
fork = ctypes.PyDLL(None).fork
tracing._open_socket()
remote._make_ssl_context()
storage.write_object(storage.S3Object("b", "k"), "{}", 9)  # a connection is open
def sockets():
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return sum(os.readlink(link).startswith("socket:") for link in links if os.path.islink(link))
open_before = sockets()
if sys.argv[1] == "hooks":
    hooks.run_before_snapshot()
kept = sockets()
os.environ["AWS_ACCESS_KEY_ID"] = "of-the-restored"
for _ in range(int(sys.argv[2])):
    read, write = os.pipe()
    if not (pid := fork()):
        if sys.argv[1] == "hooks":
            hooks.run_after_restore()
        import random
        key = storage.get_client(9)._request_signer._credentials.access_key
        told = [random.random(), logger._logger.level, key]
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    print(os.read(read, 4096).decode())
print(json.dumps([open_before, kept]))
"""


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> LambdaEmulator:
    """The function as it is packed, with boto3 beside it, which Lambda's runtime has."""
    folder = tmp_path_factory.mktemp("snapstart")
    found = prepare_emulator(abi_library.layer(folder / "bundle", abi_library.picture_description(mode="rgb")))
    path = f"{found.make_environment('/')['PYTHONPATH']}:{linked(folder / 'packages')}"
    found.environment |= {"PYTHONPATH": path, "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}
    return found


def twins(function: LambdaEmulator, way: str) -> tuple[list[list[Any]], list[int]]:
    """What the children of one process say, and how many sockets it had before the hooks and after them."""
    with s3.serving() as bucket:
        environment = (
            function.make_environment("/nonexistent") | bucket.environment | {"POWERTOOLS_LOGGER_SAMPLE_RATE": "0.5"}
        )
        command = [function.python.path, "-S", "-c", TWINS, way, str(CHILDREN)]
        done = subprocess.run(
            command, cwd=function.function, env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    *told, sockets = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return told, sockets


def test_without_the_hooks_all_instances_of_a_snapshot_are_one(function: LambdaEmulator) -> None:
    """What the next test would not notice otherwise."""
    told, (_, kept) = twins(function, "none")
    assert len({json.dumps(one) for one in told}) == 1
    assert told[0][2] == "test"  # credentials of the start
    assert kept > 0


def test_instances_of_one_snapshot_share_no_random_number_credential_or_connection(function: LambdaEmulator) -> None:
    told, (before, kept) = twins(function, "hooks")
    numbers, levels, keys = zip(*told, strict=True)
    assert len(set(numbers)) == CHILDREN
    assert len(set(levels)) == 2  # each decided by itself whether it logs all: alike by chance in one of 2,000 runs
    assert set(keys) == {"of-the-restored"}
    assert before > 0
    assert kept == 0


def test_the_first_request_after_a_restore_says_nothing_of_the_time_before_it(
    function: LambdaEmulator, tmp_path: Path
) -> None:
    with runtime_api.running(function, tmp_path / "log") as api:
        assert api.snapshot.wait(runtime_api.SECONDS)
        assert api.polling == 0  # the snapshot is taken before any request
        api.restore.set()
        first, second = [api.send(image_event(FACE)).result(runtime_api.SECONDS) for _ in range(2)]
    assert (first["cold_start"], second["cold_start"]) == (True, False)
    assert first["predictions"] == second["predictions"]
    metrics = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith('{"_aws"')]
    assert [line.get("ColdStart") for line in metrics] == [[1.0], None]
    assert not any("LoadMs" in line for line in metrics)
    assert not api.failed
