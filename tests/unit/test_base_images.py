"""Every image that a Dockerfile builds on, and every action that a workflow runs, is named by its digest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.package.container_image import DOCKERFILE, make_dockerfile
from builder.pipeline.docker.docker_client import BuilderImage

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "builder", "examples", "handler", "layers", "tests")
DOCKERFILES = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*[Dd]ockerfile*") if "node_modules" not in path.parts
)

MADE_HERE = {"tests/support/docker/stand_ins/lambda.Dockerfile": "${BASE}"}
"""Bases that no registry has: the tests make them, and tag them with the hash of their recipe."""


def images(text: str) -> list[str]:
    """What a Dockerfile takes from a registry, with the defaults of its arguments filled in."""
    defaults = dict(re.findall(r"^ARG (\w+)=(\S*)$", text, re.MULTILINE))

    def filled(reference: str) -> str:
        reference = re.sub(
            r"\$\{(\w+):\+([^{}]*(?:\$\{\w+\})?[^{}]*)\}",
            lambda m: m.group(2) if defaults.get(m.group(1)) else "",
            reference,
        )
        return re.sub(r"\$\{?(\w+)\}?", lambda m: defaults.get(m.group(1), m.group(0)), reference)

    stages = {name.lower() for name in re.findall(r"^FROM .*\sAS\s+(\S+)$", text, re.MULTILINE | re.IGNORECASE)}
    found = re.findall(r"^FROM\s+(?:--\S+\s+)*(\S+)", text, re.MULTILINE | re.IGNORECASE)
    found += re.findall(r"--from=(\S+)", text) + re.findall(r"^#\s*syntax\s*=\s*(\S+)", text, re.MULTILINE)
    return [filled(name) for name in found if name.lower() not in stages and not name.isdigit() and name != "scratch"]


def unpinned(text: str) -> list[str]:
    return [name for name in images(text) if not re.search(r"@sha256:[0-9a-f]{64}$", name)]


@pytest.mark.parametrize("path", DOCKERFILES, ids=[str(path.relative_to(ROOT)) for path in DOCKERFILES])
def test_no_base_without_a_digest(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert images(text)
    made_here = MADE_HERE.get(path.relative_to(ROOT).as_posix())
    assert unpinned(text) == ([made_here] if made_here else [])


def test_every_dockerfile_was_looked_at() -> None:
    assert {path.name for path in DOCKERFILES} >= {"Dockerfile", "image.Dockerfile", "lambda.Dockerfile"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("FROM a:1\n", ["a:1"]),
        ("FROM --platform=linux/amd64 a:1 AS one\nFROM one\nCOPY --from=one x y\n", ["a:1"]),
        ("ARG IMAGE=a:1\nARG DIGEST=\nFROM ${IMAGE}${DIGEST:+@${DIGEST}}\n", ["a:1"]),
        ("ARG DIGEST=sha256:" + "0" * 64 + "\nFROM a${DIGEST:+@${DIGEST}}\n", []),
        ("FROM a@sha256:" + "0" * 63 + "\n", ["a@sha256:" + "0" * 63]),
        ("FROM scratch\nCOPY --from=b:2 x y\n", ["b:2"]),
        ("# syntax=docker/dockerfile:1\nFROM scratch\n", ["docker/dockerfile:1"]),
    ],
)
def test_what_has_no_digest_is_found(text: str, found: list[str]) -> None:
    assert unpinned(text) == found


def test_the_builder_image_is_pinned_unless_a_base_is_named(tmp_path: Path) -> None:
    image = BuilderImage.from_environment(tmp_path, {})
    assert image.pinned
    assert image.reference == f"{image.base}@{image.base_digest}"
    assert not BuilderImage.from_environment(tmp_path, {"COLDFORGE_BASE_IMAGE": "ours:1"}).pinned
    assert BuilderImage.from_environment(tmp_path, {"COLDFORGE_BASE_IMAGE": "ours@sha256:" + "0" * 64}).pinned


def test_the_functions_image_may_be_built_on_another_base() -> None:
    assert make_dockerfile({}) == DOCKERFILE.read_text(encoding="utf-8")
    changed = make_dockerfile({"COLDFORGE_LAMBDA_IMAGE": r"registry.example/python:3.13\1"})
    assert unpinned(changed) == [r"registry.example/python:3.13\1"]
    assert len(changed.splitlines()) == len(make_dockerfile({}).splitlines())


def test_every_action_is_named_by_its_commit() -> None:
    """In our action, the workflow of a new project and the documentation, by one commit of each everywhere."""
    files = [ROOT / "action.yml", *(ROOT / "builder").rglob("*.yml.in"), *(ROOT / "docs").glob("*.md")]
    lines = [line for file in files for line in re.findall(r"uses: *(.+)", file.read_text(encoding="utf-8"))]
    others = {line for line in lines if not line.startswith("OWNER/coldforge@")}  # a placeholder
    assert {line for line in others if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d\S*", line)} == set()
    names = [line.partition("@")[0] for line in others]
    assert len(set(names)) == len(names) == 7
