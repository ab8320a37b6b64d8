"""WebAssembly: graphs of the zoo and the examples, run in wasmtime and in Node and compared with TensorFlow."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builder.cli import main
from builder.compiler.lower import LoweringOptions, LoweringPath, lower_graph
from builder.compiler.lower.compress import WeightRules
from builder.importers.graph import FrozenGraph
from builder.release.wasm.link_module import BASELINE, FLAVOURS, SIMD, Flavour, emit_sources, link_module
from builder.release.wasm.verify_module import PREDICT, find_node, verify_in_node, verify_module
from builder.verify.golden import GoldenFile
from builder.verify.verification import require_passed
from tests.conftest import ROOT
from tests.support import needs
from tests.support.build import CACHE, rounding_of, spec_of
from tests.support.results import printed
from tests.support.zoo import CASES, TOGETHER, TURN

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("checkout")]
wasmtime = needs.needs_module("wasmtime")

EXAMPLES = ("digits", "emotion")  # test_bindings.py runs the module of age_gender

# Every kind of thunk, every mathematical function that XLA leaves open, 16-bit types, real networks, answers whose
# size the data decides and, every other day, ops of every family that is rewritten.
GRAPHS = (
    "activations", "argsort", "beam_of_scores", "bits", "casts", "cholesky_and_solve", "cond_inside_while", "conv1d",
    "detection", "embeddings", "half_precision_inside", "lstm", "map_and_scan", "matmul_batched_rank_4",
    "mobilenet_v3_small", "non_max_suppression", "stateless_random_int", "transforms", "boxes_that_are_left",
    "wide_resnet", "every_pair", "attentions", "special_numbers",
    *([TOGETHER.name] if TURN == "wasm32" else []),
)  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    command = [sys.executable, "-m", "tests.support.compile_ir", str(folder), *GRAPHS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def link(graph: FrozenGraph, path: LoweringPath, flavour: Flavour, folder: Path) -> Path:
    case = next(c for c in (*CASES, TOGETHER) if c.name == graph.folder.name)
    program = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE, path).program
    sources = folder / "sources"
    sources.mkdir()
    emit_sources(program, spec_of(case.name, case.absolute, case.relative), sources)
    return link_module(sources, tuple(sorted(graph.folder.glob("graph*.ll"))), flavour, folder, CACHE / "zig")


@pytest.mark.parametrize("name", GRAPHS)
def test_agrees_with_tensorflow(name: str, compiled: Path, tmp_path: Path) -> None:
    case, graph = next(c for c in (*CASES, TOGETHER) if c.name == name), FrozenGraph.load(compiled / name)
    spec = spec_of(name, case.absolute, case.relative)
    ways: tuple[tuple[LoweringPath, Flavour], ...] = (
        ("faithful", SIMD),
        ("optimised", BASELINE if GRAPHS.index(name) % 4 == 0 else SIMD),
    )
    for path, flavour in ways[name == TOGETHER.name :]:  # of many, one is enough
        folder = tmp_path / path
        folder.mkdir()
        require_passed(verify_module(link(graph, path, flavour, folder), graph, spec))


def test_rows_of_small_tables(compiled: Path, tmp_path: Path) -> None:
    graph = FrozenGraph.load(compiled / "embeddings")
    spec, rules = spec_of("embeddings"), WeightRules("int8", (("model/GatherV2_1", "float16"),))
    lowered = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE, options=LoweringOptions(weights=rules))
    rounding = rounding_of(lowered, graph, tmp_path)
    emit_sources(lowered.program, spec, tmp_path)
    for flavour in (BASELINE, SIMD):
        module = link_module(tmp_path, tuple(sorted(graph.folder.glob("graph*.ll"))), flavour, tmp_path, CACHE / "zig")
        require_passed(verify_module(module, graph, spec, rounding))


def test_another_function_in_a_kernel_is_noticed(compiled: Path, tmp_path: Path) -> None:
    """Or the agreement above would prove nothing."""
    graph = FrozenGraph.load(compiled / "activations")
    shutil.copytree(graph.folder, tmp_path / "activations")
    (ir,) = (tmp_path / "activations").glob("graph*.ll")
    text, calls = ir.read_text(), "call float @llvm.exp.f32("
    assert calls in text
    ir.write_text(text.replace(calls, "call float @llvm.fabs.f32("))
    case = next(c for c in CASES if c.name == "activations")
    module = link(FrozenGraph.load(tmp_path / "activations"), "faithful", SIMD, tmp_path)
    assert not verify_module(module, graph, spec_of(case.name, case.absolute, case.relative)).passed


@pytest.fixture(scope="module", params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Path:
    """``dist/<model>/wasm`` of an example, built as a user does."""
    name: str = request.param
    subprocess.run(["make", "--silent", "wasm", f"MODEL={name}"], cwd=ROOT, check=True, capture_output=True)
    return ROOT / "dist" / name / "wasm"


def test_an_example_is_delivered_verified(example: Path) -> None:
    manifest = json.loads((example / "manifest.json").read_text())
    assert {entry["path"] for entry in manifest["files"]} == {
        "model.wasm", "model-baseline.wasm", "predict.mjs", "model.h", "model.json"
    }  # fmt: skip
    for flavour in FLAVOURS:
        module = manifest["modules"][flavour.file]
        assert module["isa"] == flavour.isa
        assert module["lowered"].startswith("optimised")
        for engine in ["wasmtime", *(["node"] if find_node() else [])]:
            assert module["verified"][engine]["passed"]
            assert len(module["verified"][engine]["cases"]) >= 2
    simd, baseline = ((example / flavour.file).stat().st_size for flavour in FLAVOURS)
    weights = (ROOT / "build" / example.parent.name / "lower-wasm32" / "weights.bin").stat().st_size
    assert weights < simd < weights + 600_000
    assert simd < baseline


def test_only_one_of_the_two_needs_simd(example: Path) -> None:
    import wasmtime

    config = wasmtime.Config()
    config.wasm_relaxed_simd = False
    config.wasm_simd = False
    engine = wasmtime.Engine(config)
    wasmtime.Module.from_file(engine, str(example / BASELINE.file))
    with pytest.raises(wasmtime.WasmtimeError, match="SIMD"):
        wasmtime.Module.from_file(engine, str(example / SIMD.file))


needs_node = pytest.mark.usefixtures("node_js")


@needs_node
def test_predict_answers_an_image_as_tensorflow_does(tmp_path: Path) -> None:
    subprocess.run(["make", "--silent", "wasm", "MODEL=digits"], cwd=ROOT, check=True, capture_output=True)
    graph = FrozenGraph.load(ROOT / "build" / "digits" / "import")
    with GoldenFile.open(graph.golden_path) as golden:
        case = golden.cases[0]
        feed, fetch = graph.feeds[0].spec.name, graph.fetches[0].spec.name
        pixels, answer = golden.read_feed(case, feed), golden.read_fetch(case, fetch).reshape(-1)
    (tmp_path / "raw.bin").write_bytes(pixels.tobytes())
    (tmp_path / "digit.pgm").write_bytes(b"P5\n# a digit\n28 28\n255\n" + pixels.tobytes())
    for name in ("raw.bin", "digit.pgm"):
        (first, *rest) = predict(tmp_path / name)["digit"]
        assert len(rest) == 2
        assert int(first["label"]) == answer.argmax()
        assert first["probability"] == pytest.approx(answer.max(), abs=1e-5)


@needs_node
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"P6\n28 28\n255\n" + bytes(28 * 28 * 3), "28×28 rgb; the model takes 28×28 grey"),
        (b"nonsense", "no binary PPM"),
    ],
)
def test_predict_refuses_what_does_not_fit(content: bytes, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    done = run_predict(tmp_path / "file")
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "at " not in done.stderr  # a sentence, no stack


@needs_node
def test_a_module_of_a_zoo_graph_runs_in_node(compiled: Path, tmp_path: Path) -> None:
    """Several feeds and fetches, of other types than pictures."""
    case = next(c for c in CASES if c.name == "casts")
    graph = FrozenGraph.load(compiled / case.name)
    module = link(graph, "faithful", SIMD, tmp_path)
    require_passed(verify_in_node(module, graph, spec_of(case.name, case.absolute, case.relative)))


@needs_node
def test_javascript_gets_what_is_there(compiled: Path, tmp_path: Path) -> None:
    """None, some and all of the numbers are above 0; each with each other makes two open dimensions."""
    module = link(FrozenGraph.load(compiled / "every_pair"), "faithful", SIMD, tmp_path)
    numbers = [[-1] * 7, [2, -1, 3, -1, -1, -1, -1], [1] * 7]
    script = tmp_path / "run.mjs"
    script.write_text(f"""
import {{ readFileSync }} from "node:fs";
import {{ load }} from {json.dumps(PREDICT.resolve().as_uri())};
const model = await load(readFileSync({json.dumps(str(module))}));
const numbers = {json.dumps(numbers)};
const found = numbers.map((x) => model.run({{ x: new Float32Array(x) }}));
console.log(JSON.stringify(found.map((f) => [[...f.y0], [...f.y0_shape], [...f.y1]])));
console.log(JSON.stringify(model.predict({{ x: new Float32Array(numbers[1]) }})));
model.describe.outputs = [{{ name: "kinds", fetch: "y0", kind: "classification", labels: [], top_k: 1 }}];
const kinds = [numbers[0], numbers[2]].map((x) => model.predict({{ x: new Float32Array(x) }}).kinds);
console.log(JSON.stringify(kinds));
""")
    done = subprocess.run(["node", str(script)], capture_output=True, text=True, check=True)
    runs, predicted, kinds = map(json.loads, done.stdout.splitlines())
    assert runs == [
        [[], [0, 0], []],
        [[4, 6, 6, 9], [2, 2], [0, 0, 1, 0]],
        [[1] * 49, [7, 7], [0] * 49],
    ]
    assert predicted == {"y0": [4, 6, 6, 9], "y1": [0, 0, 1, 0]}
    assert kinds == [[], [[{"label": "0", "probability": 1}]] * 7]  # for each row that is there


def test_a_bundle_keeps_the_modules_of_the_same_model(tmp_path: Path) -> None:
    from builder.pipeline.pack_bundle import _keep_wasm

    before, fresh = tmp_path / "before", tmp_path / "fresh"
    (before / "wasm").mkdir(parents=True)
    (before / "wasm" / "manifest.json").write_text(json.dumps({"source": {"sha256": "same"}}))
    _keep_wasm(before, fresh, {"sha256": "other"})
    assert not fresh.exists()
    _keep_wasm(before, fresh, {"sha256": "same"})
    assert (fresh / "wasm" / "manifest.json").exists()


def test_the_command_says_what_it_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wasm", "digits"]) == 0
    out = capsys.readouterr().out
    assert "model-baseline.wasm" in out
    assert "agrees" in out
    assert "node dist/digits/wasm/predict.mjs" in out
    assert main(["wasm", "digits", "--json", "--quiet"]) == 0
    said = capsys.readouterr()
    assert [Path(m["file"]).name for m in printed("wasm", said.out)["modules"]] == ["model.wasm", "model-baseline.wasm"]
    assert said.err == ""


def predict(path: Path) -> dict[str, list[dict[str, float]]]:
    done = run_predict(path)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[dict[str, float]]] = json.loads(done.stdout)
    return found


def run_predict(path: Path) -> subprocess.CompletedProcess[str]:
    command = ["node", str(ROOT / "dist" / "digits" / "wasm" / "predict.mjs"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
