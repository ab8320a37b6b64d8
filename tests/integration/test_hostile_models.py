"""Models that somebody else made to harm whoever builds them: nothing of them runs, and the refusal says what to do."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from builder.base.errors import ColdforgeError, ImportModelError
from builder.base.tf import import_tensorflow
from builder.cli import main
from builder.config import FeedSpec, FetchSpec
from builder.importers.allowed_ops import UnsupportedOpsError
from builder.importers.model_description import describe_model
from builder.importers.rewrites.custom_steps import NMS, call_runtime_step
from builder.pipeline.import_model import check_preflight
from tests.fuzz.model_file import look
from tests.fuzz.targets import CORPUS
from tests.support import hostile, hostile_keras
from tests.support.hostile_keras import configured, function, replaced
from tests.support.keras2 import tf_keras
from tests.support.models import freeze, run_graph, spec_for
from tests.support.results import printed

pytestmark = [pytest.mark.integration, pytest.mark.quick]

PACKAGES = {"Keras 3": lambda: import_tensorflow().keras, "Keras 2": tf_keras}
"""What writes a ``.keras`` file that is then changed."""

OP_LAYERS = "tf_keras.src.layers.core.tf_op_layer"

PORTS = {"feeds": (FeedSpec("x", (1, 4)),), "fetches": (FetchSpec("y"),)}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """What the models write."""
    return tmp_path / "written"


def load_as_tensorflow_does(folder: Path) -> None:
    v1 = import_tensorflow().compat.v1
    with import_tensorflow().Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(folder))


class TestSavedModel:
    @pytest.mark.parametrize(
        "attack", [hostile.init_op_of_tensorflow_1, hostile.init_op_of_tensorflow_2, hostile.restore_op]
    )
    def test_variables_are_restored_without_running_an_op(
        self, attack: Callable[[Path], Any], written: Path, tmp_path: Path
    ) -> None:
        model = hostile.saved_model(tmp_path / "m", attack(written))
        load_as_tensorflow_does(model)
        assert written.read_text() == "executed"  # so the model does what it is here for
        written.unlink()
        graph = freeze(model, tmp_path / "out")
        np.testing.assert_array_equal(run_graph(graph, {"x": np.ones((1, 3), np.float32)})["y"], [[4, 4]])
        assert not written.exists()

    def test_what_no_answer_reads_is_left_out(self, written: Path, tmp_path: Path) -> None:
        graph = freeze(hostile.saved_model(tmp_path / "m", hostile.answer(written)), tmp_path / "out")
        np.testing.assert_array_equal(run_graph(graph, {"x": np.ones((1, 3), np.float32)})["y"], [[4, 4]])
        assert not written.exists()

    def test_an_init_op_that_is_needed_asks_for_trust(self, written: Path, tmp_path: Path) -> None:
        def change(meta: Any) -> None:
            hostile.init_op_of_tensorflow_1(written)(meta)
            (attack,) = (n for n in meta.graph_def.node if n.name == "attack")
            attack.input.append("^w/Assign")  # it sets w as well

        model = hostile.saved_model(tmp_path / "m", change, kept=False)
        with pytest.raises(ImportModelError, match=r"lacks w, and only the model's init op attack .*`trust = true`"):
            freeze(model, tmp_path / "out")
        assert not written.exists()
        graph = freeze(model, tmp_path / "out", trust=True)
        np.testing.assert_array_equal(run_graph(graph, {"x": np.ones((1, 3), np.float32)})["y"], [[4, 4]])
        assert written.exists()

    def test_a_variable_that_nothing_sets(self, tmp_path: Path) -> None:
        model = hostile.saved_model(tmp_path / "m", lambda meta: None, kept=False)
        with pytest.raises(ImportModelError, match=r"lacks w, and nothing sets them\. Save the model"):
            freeze(model, tmp_path / "out")

    def test_a_checkpoint_that_declares_more_than_it_has(self, tmp_path: Path) -> None:
        model = hostile.saved_model(tmp_path / "m", lambda meta: None)
        (data,) = (model / "variables").glob("*.data-*")
        data.write_bytes(data.read_bytes()[:8])
        with pytest.raises(ImportModelError, match=r"declares 32 bytes.*largest: w, 24.*have 8: it is damaged"):
            freeze(model, tmp_path / "out")

    @pytest.mark.parametrize("attribute", ["shape", "dtype"])
    def test_a_value_that_its_variable_cannot_have(self, attribute: str, tmp_path: Path) -> None:
        def change(meta: Any) -> None:
            (w,) = (node for node in meta.graph_def.node if node.name == "w")
            if attribute == "shape":  # [3, 1] would be added to b, too.
                w.attr["shape"].shape.dim[1].size = 1
            else:
                w.attr["dtype"].type = import_tensorflow().float64.as_datatype_enum

        model = hostile.saved_model(tmp_path / "m", change)
        with pytest.raises(ImportModelError, match=r"restored: its checkpoint has float32 \[3, 2\] for .* w,"):
            freeze(model, tmp_path / "out")

    @pytest.mark.parametrize("text", [False, True])
    def test_a_program_that_calls_into_the_process(self, text: bool, tmp_path: Path) -> None:
        for number, name in enumerate(("system", NMS)):
            model = hostile.stablehlo(tmp_path / f"m{number}", name, text=text)
            with pytest.raises(ImportModelError, match=rf"calls functions outside it: {name}\. Export"):
                freeze(model, tmp_path / "out")
        freeze(hostile.stablehlo(tmp_path / "n", "Sharding", text=text), tmp_path / "out")


class TestGraphDef:
    def test_a_call_of_a_step_that_only_rewrites_may_call(self, tmp_path: Path) -> None:
        def build(x: Any) -> Any:
            config = {"overlap": 0.5, "score": 0.0, "decay": 0.0, "overlaps": False}
            shapes = [("int32", [1]), ("float32", [1]), ("int32", [])]
            return call_runtime_step(NMS, config, [x, x[:, 0]], shapes)[1]

        model = hostile.graph_def(tmp_path / "g.pb", build)
        with pytest.raises(UnsupportedOpsError, match="XlaCustomCallV2 x1: it would reach outside the model"):
            freeze(model, tmp_path / "out", **PORTS)

    def test_a_loop_of_tensorflow_1_runs_without_what_waits_for_it(self, written: Path, tmp_path: Path) -> None:
        tf, model = import_tensorflow(), hostile.loop_of_tensorflow_1(tmp_path / "g.pb", written)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.import_graph_def(tf.compat.v1.GraphDef.FromString(model.read_bytes()), name="")
            session.run("y:0", {"x:0": np.ones((1, 4))})
        assert written.read_text() == "executed"
        written.unlink()
        graph = freeze(model, tmp_path / "out", **PORTS)
        assert not written.exists()
        np.testing.assert_array_equal(run_graph(graph, {"x": np.ones((1, 4), np.float32)})["y"], [[8] * 4])
        assert not written.exists()

    def test_an_op_in_a_nested_function(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        secret = tmp_path / "secret"
        secret.write_text("x" * 77)
        model = hostile.nested_function(tmp_path / "g.pb", secret)
        with pytest.raises(UnsupportedOpsError, match=r"(?s)ReadFile x1: XLA has no kernel.*StringLength x1") as error:
            freeze(model, tmp_path / "out", **PORTS)
        assert not (tmp_path / "out").exists()
        assert "77" not in str(error.value)
        assert "ReadFile" in error.value.ops.unsupported[0].nodes[0]
        found = check_preflight(spec_for(model, **PORTS), error.value.ops)
        assert {u.op for u in found.unsupported} == {"ReadFile", "StringLength"}
        assert main(["inspect", str(model), "--json"]) == 12
        ops = {row["op"] for row in printed("inspect", capsys.readouterr().out)["unsupported"]}
        assert ops == {"ReadFile", "StringLength"}

    def test_a_feed_behind_what_is_not_allowed(self, tmp_path: Path) -> None:
        tf = import_tensorflow()

        def build(x: Any) -> Any:
            text = tf.io.read_file("/etc/passwd")
            pixels, shape = tf.reshape(tf.io.decode_raw(text, tf.float32), [1, 4], name="pixels"), tf.shape(x)
            return pixels * 2.0 + tf.cast(shape[0], tf.float32)

        model = hostile.graph_def(tmp_path / "g.pb", build)
        fed = (FeedSpec("pixels", (1, 4)), FeedSpec("x", (1, 4)))
        graph = freeze(model, tmp_path / "out", feeds=fed, fetches=(FetchSpec("y"),))
        x = np.ones((1, 4), np.float32)
        np.testing.assert_array_equal(run_graph(graph, {"pixels": x, "x": x})["y"], x * 3)

    def test_init_proposes_what_can_be_compiled(self, tmp_path: Path) -> None:
        tf = import_tensorflow()

        def build(x: Any) -> Any:
            tf.io.decode_jpeg(tf.io.read_file("/etc/passwd"), name="picture")
            return x

        model = hostile.graph_def(tmp_path / "g.pb", build)
        assert [port.name for port in describe_model(spec_for(model).source, model).fetches] == ["y"]

    def test_a_function_that_is_called_like_an_op(self, tmp_path: Path) -> None:
        model = hostile.graph_def(tmp_path / "g.pb", lambda x: x, hostile.function_called_like_an_op)
        with pytest.raises(ImportModelError, match=r"function WriteFile.*another name"):
            freeze(model, tmp_path / "out", **PORTS)

    def test_a_constant_that_is_larger_than_any_bundle(self, tmp_path: Path) -> None:
        model = hostile.graph_def(tmp_path / "g.pb", lambda x: x + 1.0, hostile.oversized_constant)
        with pytest.raises(ImportModelError, match=r"declare more than 10,000,000,000 bytes .*smaller model"):
            freeze(model, tmp_path / "out", **PORTS)

    def test_functions_in_functions_without_end(self, tmp_path: Path) -> None:
        def change(definition: Any) -> None:
            for number in range(3000):
                function = definition.library.function.add()
                function.signature.name = f"f{number}"
                function.signature.input_arg.add(name="x", type=1)
                function.signature.output_arg.add(name="y", type=1)
                inside = function.node_def.add(name="n", op=f"f{number + 1}" if number < 2999 else "Identity")
                inside.input.append("x")
                function.ret["y"] = "n:y:0"
            next(n for n in definition.node if n.name == "y").op = "f0"

        model = hostile.graph_def(tmp_path / "g.pb", lambda x: x, change)
        with pytest.raises(ColdforgeError, match="too deeply"):
            freeze(model, tmp_path / "out", **PORTS)

    @pytest.mark.parametrize("number", [0, 99])
    def test_a_type_that_is_not_known(self, number: int, tmp_path: Path) -> None:
        def change(definition: Any) -> None:
            next(n for n in definition.node if n.op == "Const").attr["value"].tensor.dtype = number

        model = hostile.graph_def(tmp_path / "g.pb", lambda x: x + 1.0, change)
        with pytest.raises(ImportModelError, match=f"tensor of type number {number}, which.*damaged"):
            freeze(model, tmp_path / "out", **PORTS)

    @pytest.mark.parametrize("path", sorted((CORPUS / "model").iterdir()), ids=lambda path: path.name)
    def test_what_is_kept_of_the_fuzzers(self, path: Path, tmp_path: Path) -> None:
        look(path.read_bytes(), tmp_path)


class TestKeras:
    """Keras' safe mode does most of this; the tests hold whichever version the lock names to it."""

    def test_nothing_is_unpacked_outside(self, written: Path, tmp_path: Path) -> None:
        model = hostile_keras.keras(tmp_path / "m.keras", lambda members: hostile_keras.slips(members, outside=written))
        freeze(model, tmp_path / "out")
        with pytest.raises(ImportModelError):
            freeze(hostile_keras.link(tmp_path / "n.keras", tmp_path), tmp_path / "out")
        assert not written.exists()

    def test_pickled_weights(self, written: Path, tmp_path: Path) -> None:
        pickled = bytearray()

        def change(members: hostile_keras.Members) -> None:
            hostile_keras.pickled_weights(members, written=written)
            pickled.extend(members[hostile_keras.ARRAYS])

        model = hostile_keras.keras(tmp_path / "m.keras", change)
        np.load(io.BytesIO(pickled), allow_pickle=True)["__root__"]
        assert written.read_text() == "executed"
        written.unlink()
        with pytest.raises(ImportModelError, match="Object arrays cannot be loaded"):
            freeze(model, tmp_path / "out")
        assert not written.exists()

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (configured(activation=function("os", "system")), "needs classes that only its author has"),
            (configured(activation=function("builtins", "exec")), "needs classes that only its author has"),
            (configured(activation=function("keras.utils", "get_file")), "holds code|author has: get_file"),
            (replaced("subprocess", "Popen", args=["true"]), "needs classes that only its author has"),
            (replaced("keras.layers", "Lambda", function=hostile_keras.LAMBDA), "holds code .*`trust = true`"),
            (replaced("keras.layers", "TFSMLayer", filepath="/"), "holds code .*`trust = true`|has no TFSM"),
            (replaced("keras.layers", "StringLookup", vocabulary="/etc/passwd"), "holds code .*`trust = true`"),
            (replaced(OP_LAYERS, "TFOpLambda", function="io.write_file"), "holds code|author has"),
            (replaced(OP_LAYERS, "ClassMethod", cls_symbol="io.gfile.GFile", method_name="x"), "holds code|author has"),
            (configured(units=10**17), "cannot read"),
            (hostile_keras.oversized_configuration, r"config\.json .* says that it has 200,"),
            (hostile_keras.nested_configuration, "cannot read"),
            (hostile_keras.oversized_data(), "declares 4.00 TB but only 0.00 B are stored|holds code"),
        ],
        ids=[
            "a function of the system", "a builtin", "a download", "a program", "bytecode", "another model", "a file",
            "a function of TensorFlow", "a method", "a large layer", "a large description", "a deep description",
            "large weights",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("writer", PACKAGES)
    def test_what_it_names_is_not_looked_at(
        self, writer: str, change: Callable[[hostile_keras.Members], None], says: str, tmp_path: Path
    ) -> None:
        with pytest.raises(ImportModelError, match=says) as error:
            freeze(hostile_keras.keras(tmp_path / "m.keras", change, PACKAGES[writer]()), tmp_path / "out")
        assert "root:" not in str(error.value)
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("writer", PACKAGES)
    @pytest.mark.parametrize("change", ["external_link", "external_data", "virtual_data"])
    def test_weights_of_another_file(self, change: str, writer: str, tmp_path: Path) -> None:
        other = tmp_path / "other.h5"
        with h5py.File(other, "w") as file:
            file["kernel"] = np.ones((4, 2), np.float32)
        changed = getattr(hostile_keras, change)(other)
        model = hostile_keras.keras(tmp_path / "m.keras", changed, PACKAGES[writer]())
        with pytest.raises(ImportModelError, match=r"Not allowed: H5 file with |holds code"):
            freeze(model, tmp_path / "out")
