"""Files with weights and no graph, and the lines that export the model they belong to."""

from __future__ import annotations

from pathlib import Path

_TORCH = """\
    model.load_state_dict(weights); model.eval()
    program = torch.export.export(model, (example,))
    torch.export.save(program, "model.pt2")"""

_JAX = """\
    apply = jax.jit(lambda x: model.apply(weights, x))
    exported = jax.export.export(apply, platforms=["cpu"])(jax.ShapeDtypeStruct(x.shape, x.dtype))
    open("model.jax", "wb").write(exported.serialize())"""

_TENSORFLOW = """\
    saver = tf.compat.v1.train.Saver()
    saver.restore(session, "{stem}")
    tf.compat.v1.saved_model.simple_save(session, "model", inputs={{"x": x}}, outputs={{"y": y}})"""

_KERAS = """\
    model = build()  # as it was when the weights were saved
    model.load_weights("{name}")
    model.save("model.keras")"""

_BY_ENDING = {
    ".weights.h5": _KERAS,
    ".pth": _TORCH,
    ".pt": _TORCH,
    ".ckpt.index": _TENSORFLOW,
    ".ckpt.meta": _TENSORFLOW,
    ".index": _TENSORFLOW,
    ".data-00000-of-00001": _TENSORFLOW,
    ".safetensors": _TORCH,
    ".msgpack": _JAX,
}


def explain_if_weights(path: Path) -> str | None:
    """Explain a file or checkpoint folder that holds weights and no graph, and the way to export its model.

    Return None for anything else.
    """
    lines = next((lines for ending, lines in _BY_ENDING.items() if path.name.lower().endswith(ending)), None)
    if lines is None and path.is_dir():
        if (path / "checkpoint").is_file() and any(path.glob("*.index")):
            lines = _TENSORFLOW
        elif (path / "_CHECKPOINT_METADATA").is_file():
            lines = _JAX
    if lines is None and path.with_name(f"{path.name}.index").is_file():  # the argument of a saver's restore
        lines = _TENSORFLOW
    return lines and explain_weights(path, lines)


def explain_weights(path: Path, lines: str = _KERAS) -> str:
    """Explain that a file holds weights alone, and by which ``lines`` of code to save the model."""
    stem = path.name.removesuffix(".index").removesuffix(".meta").partition(".data-")[0]
    return (
        f"{path.name} holds weights and no graph: only the code that made the model can run it. Export it there:\n\n"
        f"{lines.format(name=path.name, stem=stem)}\n\nThen name what that wrote."
    )
