"""What an attacker would send to be built: names, and models in every format. All is made here, none is kept.

Whatever a model does where it is run is to write ``written``, a file that a test then looks for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from builder.base.tf import import_tensorflow

ATTACK = "__attribute__((constructor)) void cf_attack(void) { __builtin_trap(); }"

# Names of tensors, layers and outputs. Each ends, hides or runs something somewhere.
NAMES = (
    f"*/ {ATTACK} /*",
    f"*/\n{ATTACK}\n/*",
    f"/*/ {ATTACK}",
    f'", 0}}; {ATTACK} //',
    "comment \\\nnext line",
    "trigraph ??/\nnext line ???/",
    "\u202e*/ right to left \u2066 \u200f",
    "\x1b]0;title\x07\x1b[2J\x9b31m \r\b\x7f",
    "nul \x00 after",
    "</script><script>alert(1)</script><!-- -->",
    "`touch executed` $(touch executed) ${IFS} ; touch executed & | > executed",
    "'; touch executed; '",
    '"""; import os; os.abort() #',
    "[link](javascript:alert(1)) | cell `code` <b>",
    '"]\n[[feeds]]\nname = "more',
    "\u2028\u2029\x85\x0b\x0c",
    "\U000e0001\U0001f600 \ud800",
    "ends in a backslash \\",
    "%s%n {0} {x} $x ${x} $$",
    "naïve 猫",
)


def _write_file(graph_def: Any, written: Path, *, name: str = "attack") -> str:
    """Add nodes that write ``written``, and return the name of the one that does."""
    tf = import_tensorflow()
    with tf.Graph().as_default() as graph:
        tf.raw_ops.WriteFile(filename=str(written), contents="executed", name=name)
    graph_def.node.extend(graph.as_graph_def().node)
    return name


def saved_model(folder: Path, change: Callable[[Any], None], *, kept: bool = True) -> Path:
    """A SavedModel of y = x w + b whose MetaGraph ``change`` has changed. ``kept``: whether its checkpoint has w."""
    tf = import_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [1, 3], name="x")
        w = v1.get_variable("w", [3, 2], initializer=v1.ones_initializer(), use_resource=True)
        b = v1.get_variable("b", [2], initializer=v1.ones_initializer(), use_resource=True)
        y = tf.add(tf.matmul(x, w), b, name="y")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(folder))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        saver = v1.train.Saver([w, b] if kept else [b], sharded=True)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, saver=saver)
        builder.save()
    change_meta_graph(folder, change)
    return folder


def change_meta_graph(folder: Path, change: Callable[[Any], None]) -> None:
    import_tensorflow()
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    file = folder / "saved_model.pb"
    saved = SavedModel.FromString(file.read_bytes())
    change(saved.meta_graphs[0])
    file.write_bytes(saved.SerializeToString())


def init_op_of_tensorflow_1(written: Path) -> Callable[[Any], None]:
    def change(meta: Any) -> None:
        name = _write_file(meta.graph_def, written)
        meta.collection_def["legacy_init_op"].node_list.value.append(name)

    return change


def init_op_of_tensorflow_2(written: Path) -> Callable[[Any], None]:
    def change(meta: Any) -> None:
        name = _write_file(meta.graph_def, written)
        meta.graph_def.node.add(name="init_all", op="NoOp").input.append(f"^{name}")
        meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = "init_all"

    return change


def restore_op(written: Path) -> Callable[[Any], None]:
    """The op that restores the variables writes as well."""

    def change(meta: Any) -> None:
        name = _write_file(meta.graph_def, written)
        (restore,) = (n for n in meta.graph_def.node if n.name == meta.saver_def.restore_op_name)
        restore.input.append(f"^{name}")

    return change


def answer(written: Path) -> Callable[[Any], None]:
    """The answer waits for a file that is written."""

    def change(meta: Any) -> None:
        name = _write_file(meta.graph_def, written)
        (y,) = (n for n in meta.graph_def.node if n.name == "y")
        y.input.append(f"^{name}")

    return change


def loop_of_tensorflow_1(file: Path, written: Path) -> Path:
    """A frozen graph x to y, whose answer comes from a loop and waits for a file that is written."""
    tf = import_tensorflow()
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [1, 4], name="x")
            _, y = v1.while_loop(
                lambda i, a: i < 3,
                lambda i, a: (i + 1, tf.reshape(a * 2.0, [-1, 4])),
                [0, x],
                shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 4])],
            )
            with tf.control_dependencies([tf.raw_ops.WriteFile(filename=str(written), contents="executed")]):
                tf.identity(y, name="y")
    finally:
        v1.enable_control_flow_v2()
    file.write_bytes(graph.as_graph_def().SerializeToString())
    return file


def nested_function(file: Path, secret: Path) -> Path:
    """A frozen graph x to y that reads a file in a branch in a loop in a function."""
    tf = import_tensorflow()

    @tf.function(autograph=False)
    def inner(x: Any) -> Any:
        def read(a: Any) -> Any:
            return a + tf.cast(tf.strings.length(tf.io.read_file(str(secret))), tf.float32)

        def body(i: Any, a: Any) -> Any:
            return i + 1, tf.cond(i > 1, lambda: a, lambda: read(a))

        return tf.while_loop(lambda i, a: i < 3, body, [tf.constant(0), x])[1]

    with tf.Graph().as_default() as graph:
        tf.compat.v1.enable_control_flow_v2()
        tf.identity(inner(tf.compat.v1.placeholder(tf.float32, [1, 4], name="x")), name="y")
    file.write_bytes(graph.as_graph_def().SerializeToString())
    return file


def graph_def(file: Path, build: Callable[[Any], Any], change: Callable[[Any], None] = lambda graph: None) -> Path:
    """The frozen graph of ``build``, from x float32 [1, 4] to y, after ``change``."""
    tf = import_tensorflow()
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [1, 4], name="x")
        tf.identity(build(x), name="y")
    definition = graph.as_graph_def()
    change(definition)
    file.write_bytes(definition.SerializeToString())
    return file


def oversized_constant(definition: Any) -> None:
    """One value that says it is four terabytes."""
    (constant,) = (n for n in definition.node if n.op == "Const")
    tensor = constant.attr["value"].tensor
    tensor.Clear()
    tensor.dtype = 1
    tensor.float_val.append(1.0)
    for size in (1 << 20, 1 << 20):
        tensor.tensor_shape.dim.add(size=size)


def function_called_like_an_op(definition: Any) -> None:
    """A function that is harmless and called WriteFile, as the op is that the node then runs."""
    node = next(n for n in definition.node if n.name == "y")
    node.op = "WriteFile"
    function = definition.library.function.add()
    function.signature.name = "WriteFile"
    function.signature.input_arg.add(name="x", type=1)
    function.signature.output_arg.add(name="y", type=1)
    function.ret["y"] = "x"


def stablehlo(folder: Path, call: str, *, text: bool = False) -> Path:
    """A SavedModel with a program that calls the function ``call`` of whatever process runs it."""
    tf = import_tensorflow()
    from tensorflow.compiler.mlir.stablehlo import stablehlo as mlir
    from tensorflow.compiler.tf2xla.python.xla import call_module

    t = "tensor<1x4xf32>"
    custom = f'stablehlo.custom_call @"{call}"(%0) {{api_version = 1 : i32}} : ({t}) -> {t}'
    program = f"module {{ func.func public @main(%0: {t}) -> {t} {{ %1 = {custom} return %1 : {t} }} }}"
    module = program.encode() if text else mlir.serialize_portable_artifact_str(program, mlir.get_current_version())

    @tf.function(input_signature=[tf.TensorSpec((1, 4), tf.float32, "x")])
    def serve(x: Any) -> Any:
        (y,) = call_module([x], version=10, module=module, Tout=[tf.float32], Sout=[(1, 4)], platforms=["CPU"])
        return {"y": y}

    tf.saved_model.save(tf.Module(), str(folder), signatures={"serving_default": serve})
    return folder
