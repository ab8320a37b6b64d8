"""The library under the oldest C library above the floor (2.34) that Debian has, called by that system's own tools."""

from __future__ import annotations

import subprocess

import numpy as np

from builder.docker.client import client
from tests.e2e.conftest import Routes
from tests.support.docker import images


def test_it_answers_like_tensorflow_on_glibc_2_36(routes: Routes) -> None:
    golden = np.load(routes.golden)
    feed_key = next(key for key in golden if key.startswith("feed/") and golden[key].any())
    feed = golden[feed_key]
    case = feed_key.split("/")[1]
    (expected,) = (golden[key] for key in golden if key.startswith(f"fetch/{case}/"))
    build = (
        f"gcc -std=gnu11 -O1 -Wall -Werror -DFEED={feed.nbytes} -DFETCH={expected.nbytes} -I/bundle /caller.c "
        "-L/bundle/layer/lib -lmodel -o /tmp/caller && exec env LD_LIBRARY_PATH=/bundle/layer/lib /tmp/caller"
    )
    mounts = [(routes.docker.bundle.folder.resolve(), "/bundle"), (images.HERE / "floor_caller.c", "/caller.c")]
    options = ["--rm", "--interactive", "--network", "none"]
    for source, target in mounts:
        options += ["--mount", f"type=bind,source={source},target={target},readonly"]
    done = subprocess.run(
        [client() or "docker", "run", *options, images.floor(), "sh", "-c", build],
        input=feed.tobytes(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode().splitlines()[-1] == "glibc 2.36"
    np.testing.assert_allclose(np.array(done.stdout.split(), np.float32), expected.ravel(), rtol=1e-4, atol=1e-5)
