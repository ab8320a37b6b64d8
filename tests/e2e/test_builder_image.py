"""A build in the builder image: the same library as on the host, in a sandbox, with the same errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from builder.base.cache import file_digest
from builder.base.errors import EnvironmentSetupError, VerifyError
from builder.base.project import Project
from builder.config import read_spec
from builder.package.dependencies import build_dependencies
from builder.pipeline.docker.docker_client import DOCKERFILE, BuilderImage, ca_secret, run_docker
from builder.pipeline.docker.docker_run import (
    CACHE,
    INSIDE,
    Mount,
    build_mounts,
    bundle_in_docker,
    choose_user,
    make_sandbox_options,
)
from builder.sources import locate_model
from tests.e2e.conftest import Routes

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "build.txt"


def test_both_routes_give_the_same_bytes(routes: Routes) -> None:
    assert file_digest(routes.docker.bundle.library) == routes.host


def test_the_build_was_made_in_the_container(routes: Routes, builder_image: str) -> None:
    assert routes.docker.image == builder_image
    assert routes.said[0] == f"building in {builder_image}"
    stages = [line.split()[0] for line in routes.said if line.startswith("  ")]
    assert stages == ["source", "import", "compile", "lower", "link", "audit", "verify", "layer", "pack"]
    assert [line.split()[0] for line in routes.said if line.endswith("cached")] == ["layer"]


def test_the_result_is_a_bundle_like_any_other(routes: Routes, project: Project) -> None:
    assert "bundle: dist/emotion" in routes.docker.output
    manifest = json.loads(routes.docker.bundle.manifest.read_text(encoding="utf-8"))
    assert manifest["audit"]
    content = project.layers / "model" / "content" / "lib" / "libmodel.so"
    assert file_digest(content) == file_digest(routes.docker.bundle.library)
    owners = {path.stat().st_uid for path in [project.dist, *project.dist.rglob("*"), content]}
    assert owners == {os.getuid()}


def test_the_statement_names_the_base_and_is_else_that_of_the_host(routes: Routes, project: Project) -> None:
    texts = routes.docker.bundle.statement.read_text(encoding="utf-8"), routes.statement
    inside, outside = (json.loads(text)["predicate"]["buildDefinition"] for text in texts)
    base = BuilderImage.from_environment(LOCK).reference.partition("@")[0]
    assert inside["resolvedDependencies"].pop() == {"name": "base image", "uri": f"docker://{base}"}
    assert inside == outside


def test_the_same_build_again_is_cached(routes: Routes, project: Project) -> None:
    said: list[str] = []
    bundle_in_docker(read_spec(project.examples / "emotion" / "model.toml"), project, said.append)
    cached = [line.split()[0] for line in said if line.endswith("cached")]
    assert cached == ["import", "compile", "lower", "link", "layer"]


def test_an_error_inside_is_the_same_error_outside(routes: Routes, project: Project, tmp_path: Path) -> None:
    text = (project.examples / "emotion" / "model.toml").read_text(encoding="utf-8")
    strict = project.root / "strict, and no more" / "model.toml"
    strict.parent.mkdir()
    strict.write_text(text + "\n[tolerance]\nabsolute = 1e-12\nrelative = 1e-12\n", encoding="utf-8")
    before = file_digest(routes.docker.bundle.archive)
    with pytest.raises(VerifyError, match=r"^libmodel.so does not pass verification") as caught:
        bundle_in_docker(read_spec(strict), project)
    assert caught.value.exit_code == 17
    assert file_digest(routes.docker.bundle.archive) == before


def probe(project: Project) -> Path:
    """A folder for a container to write, below one that the engine can see."""
    scratch = project.build / "docker-probe"
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


PROBE = """
import json, os, socket

def tried(action):
    try:
        action()
    except OSError as error:
        return error.__class__.__name__ + " " + os.strerror(error.errno)
    return "allowed"

def limit(*paths):
    return next(int(open(path).read()) for path in paths if os.path.exists(path))

print(json.dumps({
    "user": os.getuid(),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "network": tried(lambda: socket.create_connection(("192.0.2.1", 80), 5)),
    "read only": [bool(os.statvfs(p).f_flag & os.ST_RDONLY) for p in MODELS],
    "code": tried(lambda: open("builder/new.py", "w")),
    "root": tried(lambda: open("/new", "w")),
    "system": tried(lambda: open("/opt/coldforge/new", "w")),
    "output": tried(lambda: open("build/new", "w")),
    "scratch": tried(lambda: open("/tmp/new", "w")),
    "capabilities": [l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")],
    "processes": limit("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"),
    "memory": limit("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
}))
"""


def test_a_model_can_reach_and_change_nothing(builder_image: str, project: Project, tmp_path: Path) -> None:
    spec = read_spec(project.examples / "emotion" / "model.toml")
    _, dependencies = build_dependencies(project)
    model = locate_model(spec, project.cache)
    scratch = probe(project)
    mounts = build_mounts(spec, project, model, dependencies, scratch)
    inside = [str(spec.path), str(CACHE / model.relative_to(project.cache))]
    options = [*make_sandbox_options(choose_user(scratch), mounts, 1 << 30), "--rm", "--entrypoint", "python"]
    done = run_docker("run", *options, builder_image, "-c", f"MODELS = {inside}\n{PROBE}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "user": os.getuid() or 1000,
        "interfaces": ["lo"],
        "network": "OSError Network is unreachable",
        "read only": [True, True],
        "code": "OSError Read-only file system",
        "root": "OSError Read-only file system",
        "system": "OSError Read-only file system",
        "output": "allowed",
        "scratch": "allowed",
        "capabilities": ["0000000000000000"],
        "processes": 4096,
        "memory": 1 << 30,
    }


def test_label_files_and_a_local_model_are_mounted_where_model_toml_names_them(
    project: Project, tmp_path: Path
) -> None:
    toml = tmp_path / "model.toml"
    toml.write_text('[model]\nsource = "m.keras"\n\n[[outputs]]\nname = "y"\nlabels_file = "labels/all.txt"\n')
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "all.txt").write_text("cat\ndog\n")
    (tmp_path / "m.keras").touch()
    spec = read_spec(toml)
    mounts = build_mounts(spec, project, tmp_path / "m.keras", project.build, probe(project))
    read = {mount.target for mount in mounts if not mount.writable}
    assert {toml, tmp_path / "m.keras", tmp_path / "labels" / "all.txt"} <= read
    written = {mount.target for mount in mounts if mount.writable}
    assert written == {INSIDE / "build", INSIDE / "dist", INSIDE / "layers" / "model"}


def test_a_path_may_hold_a_comma() -> None:
    assert Mount(Path("/a,b"), Path("/c")).format_option() == 'type=bind,"source=/a,b",target=/c,readonly'


def test_the_tag_follows_the_lock_and_the_base(tmp_path: Path) -> None:
    image = BuilderImage.from_environment(LOCK, {})
    assert image.base.endswith("amazonlinux:2023")
    lock = tmp_path / "build.txt"
    lock.write_bytes(LOCK.read_bytes())
    assert BuilderImage.from_environment(lock, {}).tag == image.tag
    lock.write_bytes(LOCK.read_bytes() + b"\n")
    pinned = {"COLDFORGE_BASE_DIGEST": "sha256:" + "0" * 64}
    others = [BuilderImage.from_environment(lock, {}), BuilderImage.from_environment(LOCK, pinned)]
    others.append(BuilderImage.from_environment(LOCK, {"COLDFORGE_BASE_IMAGE": "other:1"}))
    assert len({image.tag, *(other.tag for other in others)}) == 4
    assert image.pinned
    assert not others[2].pinned


def test_a_base_that_cannot_be_had_is_named_with_the_next_step(builder_image: str) -> None:
    image = BuilderImage.from_environment(LOCK, {"COLDFORGE_BASE_IMAGE": "registry.invalid/amazonlinux:2023"})
    with pytest.raises(EnvironmentSetupError, match=r"registry.invalid/amazonlinux:2023 cannot be fetched.*BUILD_IN"):
        image.ensure_built()


def test_no_certificates_stay_in_the_image(builder_image: str) -> None:
    assert "# syntax" not in DOCKERFILE.read_text(encoding="utf-8")
    if not ca_secret():
        pytest.skip("SSL_CERT_FILE is not set: the build was lent no certificates")
    probe = "ls -A /run/secrets 2>/dev/null; env | grep -i -E 'cert|_ca' || true"
    done = run_docker("run", "--rm", "--entrypoint", "sh", builder_image, "-c", probe)
    assert (done.returncode, done.stdout) == (0, "")
