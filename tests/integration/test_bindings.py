"""Packages for other languages, made by the command, built with the language's own tools, and run.

The answers are TensorFlow's to within 1e-5, the examples' own tolerance, and half of the last digit that is printed.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pytest
from PIL import Image

from builder.base.project import cache_folder
from builder.base.targets import X86_64
from builder.compiler.audit.elf_facts import read_facts
from builder.compiler.emit import emit_sources
from builder.compiler.link.shared_library import PUBLIC
from builder.compiler.link.static_archive import link_archive, list_global_symbols
from builder.compiler.link.toolchain import Toolchain
from builder.importers.graph import FrozenGraph
from builder.release.bindings.describe import BindingDescription, parse_description, to_camel_case
from builder.release.wasm.verify_module import find_node
from builder.verify.golden import GoldenFile
from tests.conftest import ROOT, make_bundle
from tests.support import needs
from tests.support.every_step import EVERY_STEP, SPEC
from tests.support.results import printed

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("checkout")]

EXAMPLES = ("digits", "age_gender")
TOLERANCE = 1e-5 + 5e-7
HOSTED = ROOT / "tests" / "support" / "hosted"


@dataclass(frozen=True)
class Model:
    """An example that was built, one of its golden inputs as a picture, and TensorFlow's answers to it."""

    name: str
    description: BindingDescription
    picture: Path
    raw: Path
    answers: Mapping[str, Any]


@pytest.fixture(scope="module", params=EXAMPLES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    name: str = request.param
    bundle = make_bundle(name)
    if find_node():
        run(["make", "--silent", "wasm", f"MODEL={name}"], ROOT)
    description = parse_description(bundle.description.read_text())
    graph, folder = FrozenGraph.load(ROOT / "build" / name / "import"), tmp_path_factory.mktemp(name)
    (feed,) = graph.feeds
    with GoldenFile.open(graph.golden_path) as golden:
        pixels = golden.read_feed("photo-face", feed.spec.name)
        answers = {p.spec.name: golden.read_fetch("photo-face", p.spec.name).reshape(-1) for p in graph.fetches}
    _, height, width, channels = pixels.shape
    head = f"P{5 if channels == 1 else 6}\n# a face\n{width} {height}\n255\n".encode()
    picture, raw = folder / "photo.ppm", folder / "photo.raw"
    picture.write_bytes(head + pixels.tobytes())
    raw.write_bytes(pixels.tobytes())
    return Model(name, description, picture, raw, answers)


@functools.cache
def package(name: str, language: str, *flags: str) -> Path:
    """The package that `coldforge bindings` writes for an example."""
    folder = ROOT / "dist" / "bindings" / name / language
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "builder.cli", "bindings", name, "--lang", language, "--json", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed("bindings", done.stdout) == {"language": language, "folder": str(folder)}
    return folder


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def check(said: str, model: Model) -> None:
    """What an example printed, against TensorFlow: `gender: male 0.513700, female 0.486300`, a line for each output."""
    lines = dict(line.split(": ") for line in said.splitlines())
    assert list(lines) == [head.name for head in model.description.heads]
    for head in model.description.heads:
        theirs = model.answers[head.fetch.spec.name]
        found = [pair.rsplit(" ", 1) for pair in lines[head.name].split(", ")]
        assert len(found) == head.top
        for label, probability in found:
            assert float(probability) == pytest.approx(theirs[head.labels.index(label)], abs=TOLERANCE, rel=0)
        best = [theirs[head.labels.index(label)] for label, _ in found]
        assert best[0] == theirs.max()
        assert all(a >= b - TOLERANCE for a, b in itertools.pairwise(best))
        assert best[-1] >= np.sort(theirs)[-head.top] - TOLERANCE


# C and C++


@pytest.mark.parametrize("target", ["predict", "predict-static"])
def test_c(model: Model, target: str, tmp_path: Path) -> None:
    needs.c_compiler()
    folder = copy(package(model.name, "c", "--static"), tmp_path)
    run(["make", target, "PICTURES=", "CFLAGS=-O2 -Wall -Wextra -Wpedantic -Werror"], folder)
    check(run([folder / target, model.picture], tmp_path), model)
    check(run([folder / target, model.raw], tmp_path), model)
    (folder / "libmodel.so").unlink()
    alone = subprocess.run([folder / target, model.picture], capture_output=True, check=False)
    assert (alone.returncode == 0) == (target == "predict-static")
    assert read_facts(folder / target).needed == ("libmodel.so",) * (target == "predict") + ("libc.so.6",)


def test_the_c_header_is_good_for_cpp(model: Model, tmp_path: Path) -> None:
    folder = package(model.name, "c", "--static")
    source = tmp_path / "main.cpp"
    source.write_text(f'#include "{model.description.package}.h"\nint main() {{ return 0; }}\n')
    command = [sys.executable, "-m", "ziglang", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-c"]
    run([*command, f"-I{folder}", source, "-o", tmp_path / "main.o"], tmp_path)


def test_an_image_that_does_not_fit_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """In every language alike; the others' tests of the same are below."""
    needs.c_compiler()
    make_bundle("digits")
    folder = copy(package("digits", "c"), tmp_path)
    run(["make"], folder)
    refuses(["./predict"], folder, tmp_path)


def refuses(command: list[str], folder: Path, tmp_path: Path, **environment: str) -> None:
    for content, complaint in (
        (b"P5 30 28 255\n" + bytes(30 * 28), "the picture is 30x28 grey; the model takes 28x28 grey"),
        (b"P6 28 28 255\n" + bytes(28 * 28 * 3), "the picture is 28x28 rgb; the model takes 28x28 grey"),
        (b"P5 28 28 255\n" + bytes(700), "700 bytes; feed image takes 784"),
        (b"P5 28 28 65535\n" + bytes(2 * 784), "8 bits"),
        (b"P5" + b" " * 5000 + b"28 28", "8 bits"),
        (b"nonsense", "no binary PPM or PGM"),
        (b"", "no binary PPM or PGM"),
    ):
        (tmp_path / "file").write_bytes(content)
        arguments = [*command, str(tmp_path / "file")]
        done = subprocess.run(
            arguments, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, content
        assert complaint in done.stderr or ("no binary" in done.stderr and complaint == "8 bits"), done.stderr
        assert done.stderr.startswith("predict: ")
        assert len(done.stderr.splitlines()) == 1
        assert not done.stdout


# libmodel.a


def test_the_static_library_shows_nothing_but_the_abi(model: Model, tmp_path: Path) -> None:
    archive = package(model.name, "c", "--static") / "libmodel.a"
    run([sys.executable, "-m", "ziglang", "ar", "x", archive], tmp_path)
    (member,) = tmp_path.iterdir()
    symbols = list_global_symbols(member.read_bytes())
    assert set(symbols.defined) == set(PUBLIC)
    library = read_facts(archive.with_name("libmodel.so"))
    # Whatever the compiler's own library would have to bring is in it already. Only the shared one asks for glibc's
    # checked functions: __vsnprintf_chk for snprintf, __open_2 for open, and so on.
    asked = {re.sub(r"^__v?(\w+)_(chk|2)$", r"\1", symbol.name) for symbol in library.undefined}
    assert set(symbols.undefined) <= asked | {"_GLOBAL_OFFSET_TABLE_"}
    assert not [name for name in symbols.undefined if name.startswith("__open") or name.endswith("_chk")]
    weights = (ROOT / "build" / model.name / "lower" / "weights.bin").stat().st_size
    assert weights < archive.stat().st_size < weights + 1_000_000


def test_the_static_library_brings_what_a_linker_may_lack(tmp_path: Path) -> None:
    """A kernel that divides 128 bits calls the compiler's library; the C library's functions stay its own."""
    kernels = tmp_path / "kernels.c"
    kernels.write_text(
        "typedef unsigned __int128 wide;\nvolatile wide a, b;\n"
        "void *graph_add(const void *frame) { a /= b; return (void *)(unsigned long)(frame == 0); }\n"
        "void graph_less(char *r, void *a, void *b, void *c, void *d, void *e) { *r = a == b && c == d && !e; }\n"
    )
    cache = cache_folder() / "zig"
    Toolchain(X86_64, cache).compile_source(kernels, tmp_path / "kernels.o", flags=("-Wno-unused-parameter",))
    (tmp_path / "sources").mkdir()
    (tmp_path / "link").mkdir()
    sources = emit_sources(EVERY_STEP, SPEC, X86_64, tmp_path / "sources")
    archive = link_archive(sources, [tmp_path / "kernels.o"], X86_64, tmp_path / "link", cache)
    (tmp_path / "out").mkdir()
    run([sys.executable, "-m", "ziglang", "ar", "x", archive], tmp_path / "out")
    symbols = list_global_symbols((tmp_path / "out" / "model.o").read_bytes())
    assert set(symbols.defined) == set(PUBLIC)
    assert not [name for name in symbols.undefined if name.startswith("__u")]
    assert "memcpy" in symbols.undefined


# Rust


def cargo(folder: Path, *flags: str) -> list[str | Path]:
    command = [needs.cargo(), "build", "--release", "--offline", "--quiet", "--example", "predict", *flags]
    target = ROOT / "build" / "cargo" / folder.parent.name
    run(command, folder, CARGO_TARGET_DIR=str(target), RUSTFLAGS="-D warnings")
    return [target / "release" / "examples" / "predict"]


@pytest.mark.parametrize("model", ["digits"], indirect=True)
def test_rust_linked(model: Model) -> None:
    folder = package(model.name, "rust", "--static")
    command = cargo(folder)
    check(run([*command, model.picture], folder), model)
    assert "libmodel.so" in read_facts(Path(command[0])).needed


@pytest.mark.parametrize("model", ["age_gender"], indirect=True)
def test_rust_in_a_single_executable(model: Model, tmp_path: Path) -> None:
    """The write-up's wish. Its numbers: 114 MB, 0.66 s."""
    folder = package(model.name, "rust", "--static")
    (program,) = cargo(folder, "--features", "static")
    alone = Path(shutil.copy2(program, tmp_path / "predict"))
    check(run([alone, model.picture], tmp_path, LD_LIBRARY_PATH=""), model)
    needed = set(read_facts(alone).needed)
    assert needed <= {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
    assert alone.stat().st_size < (folder / "native" / "libmodel.so").stat().st_size + 1_000_000


@pytest.mark.parametrize("model", ["digits"], indirect=True)
def test_rust_at_run_time(model: Model, tmp_path: Path) -> None:
    folder = package(model.name, "rust", "--static")
    (program,) = cargo(folder, "--no-default-features")
    assert "libmodel.so" not in read_facts(Path(program)).needed
    library = folder / "native" / "libmodel.so"
    check(run([program, "--library", library, model.picture], tmp_path), model)
    check(run([program, model.picture], tmp_path, LD_LIBRARY_PATH=str(library.parent)), model)
    done = subprocess.run([program, "--library", "none.so", model.picture], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "none.so: cannot open shared object file" in done.stderr


def test_rust_knows_another_models_library(tmp_path: Path) -> None:
    for name in EXAMPLES:
        make_bundle(name)
    (program,) = cargo(package("digits", "rust", "--static"), "--no-default-features")
    library = package("age_gender", "rust", "--static") / "native" / "libmodel.so"
    (tmp_path / "raw").write_bytes(bytes(784))
    done = subprocess.run(
        [program, "--library", library, tmp_path / "raw"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "predict: the library holds another model than digits\n"
    refuses(
        [str(program), "--library", str(package("digits", "rust", "--static") / "native/libmodel.so")],
        tmp_path,
        tmp_path,
    )


# Go


def go_environment() -> dict[str, str]:
    cache = cache_folder() / "go"
    return {
        "GOCACHE": str(cache),
        "GOPATH": str(cache / "path"),
        "GOPROXY": "off",
        "GOFLAGS": "",
        "GOTOOLCHAIN": "local",
    }


@pytest.mark.parametrize(("model", "tags"), [("digits", ""), ("age_gender", "static")], indirect=["model"])
def test_go(model: Model, tags: str, tmp_path: Path) -> None:
    go = needs.go()
    folder = package(model.name, "go", "--static")
    program = tmp_path / "predict"
    environment = go_environment()
    run([go, "build", "-tags", tags, "-o", program, "./cmd/predict"], folder, **environment)
    check(run([program, model.picture], tmp_path), model)
    check(run([program, as_png(model.picture)], tmp_path), model)
    assert ("libmodel.so" in read_facts(program).needed) == (tags == "")
    if model.name == "digits":
        refuses([str(program)], tmp_path, tmp_path)
        run([go, "vet", "./..."], folder, **environment)
        gofmt = Path(go).resolve().parent / "gofmt"
        assert run([gofmt, "-l", "."], folder) == ""


@pytest.mark.usefixtures("node_js")  # the engine behind the Go package's interface
def test_go_runs_webassembly_behind_the_interface(model: Model, tmp_path: Path) -> None:
    """The package's own code on the real module, in an engine that is neither wazero nor a pretence."""
    go = needs.go()
    folder = copy(package(model.name, "go", "--static"), tmp_path)
    assert (folder / "wasm" / "embed.go").exists()
    shutil.rmtree(folder / "native")  # no cgo
    shutil.rmtree(folder / "cmd")
    names = {"module": f"coldforge.model/{(name := model.description.package.replace('_', ''))}", "package": name}
    listed = {
        "feeds": ", ".join(f"feeds.{to_camel_case(f.identifier)}" for f in model.description.feeds),
        "fetches": ", ".join(f"fetches.{to_camel_case(f.identifier)}" for f in model.description.fetches),
    }
    (folder / "cmd" / "hosted").mkdir(parents=True)
    main = Template((HOSTED / "main.go.in").read_text()).substitute(names, **listed)
    (folder / "cmd" / "hosted" / "main.go").write_text(main)
    program = tmp_path / "hosted"
    run([go, "build", "-o", program, "./cmd/hosted"], folder, CGO_ENABLED="0", **go_environment())
    command = [program, HOSTED / "host.mjs", folder / "wasm" / "model.wasm", model.raw]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    found = np.frombuffer(done.stdout, np.float32)
    theirs = np.concatenate([model.answers[f.spec.name] for f in model.description.fetches])
    np.testing.assert_allclose(found, theirs, atol=1e-5, rtol=0)


# Node.js and Python


@pytest.mark.usefixtures("node_js")
def test_node(model: Model, tmp_path: Path) -> None:
    folder = package(model.name, "node")
    answer = json.loads(run(["node", "predict.mjs", model.picture], folder))
    lines = [
        f"{name}: " + ", ".join(f"{c['label']} {c['probability']:.6f}" for c in classes)
        for name, classes in answer.items()
    ]
    check("\n".join(lines), model)
    # As another package imports it, by its name.
    (tmp_path / "node_modules").mkdir()
    npm = json.loads((folder / "package.json").read_text())["name"]
    (tmp_path / "node_modules" / npm).symlink_to(folder)
    (tmp_path / "main.mjs").write_text(
        f'import {{ load }} from "{npm}";\nconst model = await load();\nconsole.log(model.describe.model.name);\n'
    )
    assert run(["node", "main.mjs"], tmp_path).strip() == model.name
    types = (folder / "predict.d.mts").read_text()
    exports = set(
        re.findall(r"^export (?:async )?(?:class|function) (\w+)", (folder / "predict.mjs").read_text(), re.M)
    )
    assert set(re.findall(r"^export (?:class|function) (\w+)", types, re.M)) == exports


@pytest.mark.network
@pytest.mark.usefixtures("node_js")
def test_node_reads_what_sharp_reads(model: Model, tmp_path: Path) -> None:
    folder = copy(package(model.name, "node"), tmp_path)
    command = ["node", folder / "predict.mjs"]
    without = subprocess.run([*command, as_png(model.picture)], capture_output=True, text=True, check=False)
    assert (without.returncode, "npm install sharp" in without.stderr) == (1, True)
    run(["npm", "install", "--no-save", "--no-audit", "--no-fund", "--silent", "sharp@0.35.5"], folder)
    assert run([*command, as_png(model.picture)], folder) == run([*command, model.picture], folder)
    with Image.open(model.picture) as opened:
        red = Image.merge("RGB", [opened.convert("L"), *[opened.convert("L").point(lambda v: v // 2)] * 2])
        red.convert("RGBA").save(tmp_path / "red.png")
        red.convert(opened.mode).save(tmp_path / "red.ppm")
        red.save(tmp_path / "red.jpg", quality=100, subsampling=0)
        opened.resize((opened.width, opened.height + 1)).save(tmp_path / "high.png")
    exact = run([*command, tmp_path / "red.ppm"], folder)
    assert run([*command, tmp_path / "red.png"], folder) == exact
    near, exactly = (
        [c["probability"] for classes in json.loads(said).values() for c in classes]
        for said in (run([*command, tmp_path / "red.jpg"], folder), exact)
    )
    assert near == pytest.approx(exactly, abs=0.05, rel=0)
    (tmp_path / "text").write_text("nonsense")
    for name, complaint in (("high.png", "the picture is"), ("text", "sharp cannot read it")):
        done = subprocess.run([*command, tmp_path / name], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert complaint in done.stderr


def test_python(model: Model, tmp_path: Path) -> None:
    folder = package(model.name, "python")
    name = model.description.package
    plain: Callable[..., str] = functools.partial(run, PYTHONPATH="", PYTHONDONTWRITEBYTECODE="1")
    # -S -I: no package but Python's own can be found.
    alone = f"import runpy, sys; sys.path.insert(0, {str(folder)!r}); runpy.run_module({name!r}, run_name='__main__')"
    check(plain([sys.executable, "-S", "-I", "-c", alone, model.picture], tmp_path), model)
    if model.name == "digits":
        refuses([sys.executable, "-S", "-I", "-c", alone], tmp_path, tmp_path)
    png = as_png(model.picture)
    check(plain([sys.executable, "-m", name, png], folder), model)
    no_pillow = subprocess.run(
        [sys.executable, "-S", "-I", "-c", alone, png], capture_output=True, text=True, check=False
    )
    assert no_pillow.returncode == 1
    assert "install Pillow to read JPEG, PNG" in no_pillow.stderr
    script = f"""
import array, sys, threading
sys.path.insert(0, {str(folder)!r})
import {name} as package
pixels = open({str(model.raw)!r}, "rb").read()
with package.Model(threads=1) as model:
    (feed,) = package.FEEDS
    answers = [model.run(package.Feeds(given)) for given in (pixels, bytearray(pixels), array.array("B", pixels))]
    assert answers[0] == answers[1] == answers[2]
    for fetch, port in zip(vars(answers[0]).values(), package.FETCHES):
        assert fetch.shape == port.shape and fetch.format == port.format, fetch
    found = []
    threads = [threading.Thread(target=lambda: found.append(model.run(package.Feeds(pixels)))) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert found == [answers[0]] * 4
    try:
        model.run(package.Feeds(b"short"))
    except package.ModelError as error:
        assert "bytes, not 5" in str(error), error
    else:
        raise SystemExit("a short feed was taken")
try:
    model.run(package.Feeds(pixels))
except package.ModelError as error:
    assert "closed" in str(error)
else:
    raise SystemExit("a closed model ran")
try:
    package.Model("/nowhere/libmodel.so")
except package.ModelError as error:
    assert "/nowhere" in str(error)
"""
    plain([sys.executable, "-c", script], tmp_path)


def test_the_python_package_is_a_wheel(tmp_path: Path) -> None:
    """pip makes it, for the library's machines only, and what it installs runs from anywhere."""
    make_bundle("digits")
    folder = copy(package("digits", "python"), tmp_path)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", tmp_path, folder], tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"digits-1-py3-none-manylinux_2_34_{platform.machine()}.whl"
    run([*pip, "install", "--no-deps", "--no-index", "--target", tmp_path / "site", wheel], tmp_path)
    installed = {p.name for p in (tmp_path / "site" / "digits").iterdir()} - {"__pycache__"}
    modules = {f"{module}.py" for module in ("__init__", "__main__", "columns", "pictures", "predictor")}
    assert installed == {*modules, "function", "py.typed", "libmodel.so", "model.json"}
    code = "from digits import FEEDS, Feeds, Model; print(len(vars(Model().run(Feeds(bytes(FEEDS[0].size))))))"
    assert run([sys.executable, "-c", code], tmp_path, PYTHONPATH=str(tmp_path / "site")) == "1\n"


def as_png(picture: Path) -> Path:
    """The same pixels in a format that only a decoder reads."""
    png = picture.with_suffix(".png")
    with Image.open(picture) as opened:
        opened.save(png)
    return png


def copy(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / folder.name))
