"""The library under the oldest C library above the floor (2.34) that Debian has, called by that system's own tools."""

from __future__ import annotations

import subprocess

import numpy as np

from builder.importers.graph import FrozenGraph
from builder.pipeline.docker.docker_client import find_docker
from builder.verify.golden import GoldenFile
from tests.e2e.conftest import Routes
from tests.support.docker import images


def test_it_answers_like_tensorflow_on_glibc_2_36(routes: Routes) -> None:
    graph = FrozenGraph.load(routes.golden.parent)
    (feed_port,), (fetch_port,) = graph.feeds, graph.fetches
    with GoldenFile.open(routes.golden) as golden:
        case = next(case for case in golden.cases if golden.read_feed(case, feed_port.spec.name).any())
        feed, expected = golden.read_feed(case, feed_port.spec.name), golden.read_fetch(case, fetch_port.spec.name)
    build = (
        f"gcc -std=gnu11 -O1 -Wall -Werror -DFEED={feed.nbytes} -DFETCH={expected.nbytes} -I/bundle /caller.c "
        "-L/bundle/layer/lib -lmodel -o /tmp/caller && exec env LD_LIBRARY_PATH=/bundle/layer/lib /tmp/caller"
    )
    mounts = [(routes.docker.bundle.folder.resolve(), "/bundle"), (images.HERE / "floor_caller.c", "/caller.c")]
    options = ["--rm", "--interactive", "--network", "none"]
    for source, target in mounts:
        options += ["--mount", f"type=bind,source={source},target={target},readonly"]
    done = subprocess.run(
        [find_docker() or "docker", "run", *options, images.floor(), "sh", "-c", build],
        input=feed.tobytes(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode().splitlines()[-1] == "glibc 2.36"
    np.testing.assert_allclose(np.array(done.stdout.split(), np.float32), expected.ravel(), rtol=1e-4, atol=1e-5)
