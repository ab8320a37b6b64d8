"""Small real ``libmodel.so`` files for the tests of what calls one, built with the builder's toolchain."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builder.base.project import RUNTIME, cache_folder
from builder.base.targets import X86_64
from builder.compiler.link.shared_library import AUDIO_SOURCES, PUBLIC_AUDIO, audio_flags, format_exports_map
from builder.compiler.link.toolchain import Toolchain
from builder.package.openapi import write_openapi

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
POISON = 13
"""The value of the first two pixels of a picture with which the kernel fails."""

EXPORTS = ("cf_abi_version", "cf_close", "cf_describe", "cf_last_error", "cf_open", "cf_reset", "cf_run")
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
COLOURS = ["blue", "red", "5"]
"""The categories of the table's column ``colour``."""
_SIZES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "float32": 4}


def _port(name: str, dtype: str, *shape: int) -> dict[str, Any]:
    size = _SIZES.get(dtype, 8)
    for length in shape:
        size *= length
    return {"name": name, "dtype": dtype, "shape": list(shape), "bytes": size}


def _describe(name: str, batch: int, feeds: list[Any], fetches: list[Any], **rest: Any) -> dict[str, Any]:
    return {
        "abi": 1,
        "coldforge": "0.1.0",
        "model": {"name": name, "version": "7"},
        "target": {"arch": "x86_64", "isa": ["x86-64-v3"]},
        "batch": batch,
        "feeds": feeds,
        "fetches": fetches,
        **rest,
    }


def picture_description(
    *,
    batch: int = 1,
    width: int = 8,
    height: int = 8,
    mode: str = "grey",
    fit: str = "stretch",
    resize: str = "bilinear",
) -> dict[str, Any]:
    """The model that answers how bright a picture is, and the very pixels it was given."""
    shape = (batch, height, width, 1 if mode == "grey" else 3)
    image = {"feed": "image", "width": width, "height": height, "mode": mode, "fit": fit, "resize": resize}
    fetches = [
        _port("light", "float32", batch, 2),
        _port("level", "float32", batch, 1),
        _port("pixels", "uint8", *shape),
    ]
    outputs = [
        {"name": "tone", "fetch": "light", "kind": "classification", "labels": ["light", "dark"], "top_k": None},
        {"name": "level", "fetch": "level", "kind": "regression", "labels": [], "top_k": None},
        {"name": "pixels", "fetch": "pixels", "kind": "raw", "labels": [], "top_k": None},
    ]
    return _describe("brightness", batch, [_port("image", "uint8", *shape)], fetches, image=image, outputs=outputs)


def finder_description(*, fit: str, crop: float, width: int = 120, height: int = 80) -> dict[str, Any]:
    """The model that finds what is dark in a picture: its box in pixels, and its pixels as those of class 1."""
    image = {"feed": "image", "width": width, "height": height, "mode": "grey", "fit": fit, "resize": "bilinear"}
    fetches = [
        _port("boxes", "float32", 2, 1, 4),
        _port("scores", "float32", 2, 1),
        _port("parts", "uint8", 2, height, width),
    ]
    kind = {"kind": "detection", "scores": "scores", "classes": "", "counts": "", "box_format": "xyxy"}
    objects = {"fetch": "boxes", "labels": ["it"], "top_k": None, "box_units": "pixels", "threshold": 0.5} | kind
    parts = {"fetch": "parts", "labels": ["", "it"], "top_k": None, "kind": "segmentation", "format": "png"}
    outputs = [{"name": "objects"} | objects, {"name": "parts"} | parts]
    feeds = [_port("image", "uint8", 2, height, width, 1)]
    return _describe("finder", 2, feeds, fetches, image=image | {"padding": [255], "crop": crop}, outputs=outputs)


def tensor_description() -> dict[str, Any]:
    """The model that takes no picture: ``a`` float32 [2,3] times ``n`` int64 [2], row by row."""
    fetches = [_port("product", "float32", 2, 3), _port("total", "float64")]
    outputs = [
        {"name": name, "fetch": name, "kind": "raw", "labels": [], "top_k": None} for name in ("product", "total")
    ]
    feeds = [_port("a", "float32", 2, 3), _port("n", "int64", 2)]
    return _describe("product", 2, feeds, fetches, image=None, outputs=outputs)


def echo_description(*, batch: int = 2) -> dict[str, Any]:
    """The model of every dtype: feed ``in_<dtype>`` [batch, 2] comes back as fetch ``out_<dtype>``."""
    feeds = [_port(f"in_{dtype}", dtype, batch, 2) for dtype in DTYPES]
    fetches = [_port(f"out_{dtype}", dtype, batch, 2) for dtype in DTYPES]
    outputs = [{"name": f["name"], "fetch": f["name"], "kind": "raw", "labels": [], "top_k": None} for f in fetches]
    return _describe("echo", batch, feeds, fetches, image=None, outputs=outputs)


def counter_description() -> dict[str, Any]:
    """The model with state: feed ``x`` float32 [1] -> fetch ``calls`` int64 [1], its runs since the last reset."""
    outputs = [{"name": "calls", "fetch": "calls", "kind": "raw", "labels": [], "top_k": None}]
    states = [{"name": "calls", "dtype": "int64", "shape": [], "offset": 0, "bytes": 8}]
    feeds, fetches = [_port("x", "float32", 1)], [_port("calls", "int64", 1)]
    return _describe("counter", 1, feeds, fetches, image=None, outputs=outputs, states=states)


def padded_description(*, side: int = 224) -> dict[str, Any]:
    """A model that gives back what it takes: ``x`` float32 [1, side, side, 3], of which a part is filled up."""
    x, y = (_port(name, "float32", 1, side, side, 3) for name in ("x", "y"))
    output = {"name": "y", "fetch": "y", "kind": "raw", "labels": [], "top_k": None}
    return _describe("echo", 1, [x], [y], image=None, outputs=[output], pad={"x": 0})


def sized_description() -> dict[str, Any]:
    """The same in three sizes, ``x`` uint8 [1, side, side, 3]: what is between two is filled up."""
    sizes = [[_port(name, "uint8", 1, side, side, 3) for name in ("x", "y")] for side in (8, 64, 512)]
    (x, y), *_ = sizes
    output = {"name": "y", "fetch": "y", "kind": "raw", "labels": [], "top_k": None}
    shapes = [{"feeds": [x], "fetches": [y]} for x, y in sizes]
    return _describe("sized", 1, [x], [y], image=None, outputs=[output], pad={"x": 1}, shapes=shapes)


def sound_description(*, batch: int = 2, length: int = 8, hop: int = 4, rate: int = 8_000) -> dict[str, Any]:
    """A model that gives back the sound it takes: float32 [batch, length] at ``rate``."""
    feed, fetch = (_port(name, "float32", batch, length) for name in ("sound", "samples"))
    output = {"name": "samples", "fetch": "samples", "kind": "raw", "labels": [], "top_k": None}
    audio = {"feed": "sound", "rate": rate, "length": length, "hop": hop}
    return _describe("echo", batch, [feed], [fetch], image=None, audio=audio, outputs=[output])


def text_description(*, batch: int = 2, lengths: tuple[int, ...] = (4, 8), **more: Any) -> dict[str, Any]:
    """A model that gives back the ids and the mask that it takes, int64 and int32 [batch, length].

    ``more``: further facts of its text.
    """
    sizes = []
    for length in lengths:
        feeds = [_port("input_ids", "int64", batch, length), _port("attention_mask", "int32", batch, length)]
        sizes.append({"feeds": feeds, "fetches": [port | {"name": port["name"][-4:]} for port in feeds]})
    outputs = [
        {"name": port["name"], "fetch": port["name"], "kind": "raw", "labels": [], "top_k": None}
        for port in sizes[0]["fetches"]
    ]
    text = {"ids": "input_ids", "mask": "attention_mask", "types": "", **more}
    shapes = {"shapes": sizes} if len(sizes) > 1 else {}
    return _describe("sized", batch, **sizes[0], image=None, text=text, outputs=outputs, **shapes)


def sentence_description(*, size: int = 8, normalise: bool = False, formats: Sequence[str] = ()) -> dict[str, Any]:
    """A model whose embedding of a text, float32 [2, size], are the ids of its first tokens, of eight; over their
    Euclidean length, if it is to ``normalise``. It answers in each of the ``formats``, by its name.
    """
    ids, vector = _port("input_ids", "int64", 2, 8), _port("vector", "float32", 2, size)
    kind = {"fetch": "vector", "kind": "embedding", "labels": [], "top_k": None, "normalise": normalise}
    outputs = [{"name": form, "format": form, **kind} for form in formats]
    text = {"ids": "input_ids", "mask": "", "types": ""}
    return _describe("sentences", 2, [ids], [vector], image=None, text=text, outputs=outputs)


def tagged_description(lengths: tuple[int, ...] = (4, 8), classes: int = 2, **changes: Any) -> dict[str, Any]:
    """A model of ids, int64 [2, length], whose bytes it gives back as float32 [2, length, 2]: the label is the first,
    and its score the id, times the smallest float32.
    """
    sizes = [
        {
            "feeds": [_port("input_ids", "int64", 2, length)],
            "fetches": [_port("tags", "float32", 2, length, classes)],
        }
        for length in lengths
    ]
    output = {
        "name": "words", "fetch": "tags", "kind": "tokens", "labels": ["yes", "no"], "top_k": None, "join": False,
        "ignore": [],
    }  # fmt: skip
    shapes = {"shapes": sizes} if len(sizes) > 1 else {}
    text = {"ids": "input_ids", "mask": "", "types": ""}
    return _describe("sized", 2, **sizes[0], image=None, text=text, outputs=[output | changes], **shapes)


def example_description(*, batch: int = 2) -> dict[str, Any]:
    """A model that gives back the features of the tf.Examples that it takes: ``level`` float32 [batch, 2], and ``day``
    int64 [batch], which is 7 where it is missing.
    """
    feeds = [_port("level", "float32", batch, 2), _port("day", "int64", batch)]
    fetches = [port | {"name": f"same_{port['name']}"} for port in feeds]
    outputs = [{"name": p["name"], "fetch": p["name"], "kind": "raw", "labels": [], "top_k": None} for p in fetches]
    features = [
        {"key": "level", "name": "level", "default": None},
        {"key": "day", "name": "day", "default": base64.b64encode((7).to_bytes(8, "little")).decode()},
    ]
    examples = {"name": "examples", "features": features}
    return _describe("echo", batch, feeds, fetches, image=None, examples=examples, outputs=outputs)


def table_description(*, batch: int = 2, nan: bool = True, dtype: str = "float32", **own: Any) -> dict[str, Any]:
    """A model that gives back the table that it takes: [batch, 3], the columns age, colour and size.

    ``own``: further keys of the table.
    """
    feed, fetch = _port("table", dtype, batch, 3), _port("same", dtype, batch, 3)
    output = {"name": "same", "fetch": "same", "kind": "raw", "labels": [], "top_k": None}
    table = {"feed": "table", "columns": ["age", "colour", "size"], "categories": {"colour": COLOURS}}
    table |= {"unknown": {"colour": None}} | own
    missing = {"nan": ["table"]} if nan else {}
    return _describe("echo", batch, [feed], [fetch], image=None, table=table, outputs=[output], **missing)


def columns_description(*, batch: int = 2) -> dict[str, Any]:
    """The same with a feed for each column: age float32, count int64, and well bool."""
    kinds = {"age": "float32", "count": "int64", "well": "bool"}
    feeds = [_port(name, dtype, batch, 1) for name, dtype in kinds.items()]
    fetches = [port | {"name": f"same_{port['name']}"} for port in feeds]
    outputs = [{"name": p["name"], "fetch": p["name"], "kind": "raw", "labels": [], "top_k": None} for p in fetches]
    table = {"columns": [*kinds]}
    return _describe("echo", batch, feeds, fetches, image=None, table=table, outputs=outputs, nan=["age"])


def build(folder: Path, description: dict[str, Any], *, abi: int = 1, open_status: int = 0) -> Path:
    """Compile the model of ``description`` (one of those above) to ``folder/libmodel.so``."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "abi_library.c"
    shutil.copy(HERE / "abi_library.c", source)
    # A copy, because the compiler is told of macros here rather than on its command line.
    macros = {
        "ABI": abi,
        "OPEN_STATUS": open_status,
        "POISON": POISON,
        "BATCH": description["batch"],
        "COUNTER": int(description["model"]["name"] == "counter"),
        "ECHO": int(description["model"]["name"] in ("echo", "sized")),
        "SIZED": int(description["model"]["name"] == "sized"),
        "FINDER": int(description["model"]["name"] == "finder"),
        "WIDTH": (description["image"] or {}).get("width", 0),
        "SENTENCES": int(description["model"]["name"] == "sentences"),
        "NORMALISED": int(any(output.get("normalise") for output in description["outputs"])),
        "PICTURES": int(description["image"] is not None),
        "FEED_SIZES": "{" + ", ".join(str(p["bytes"]) for p in description["feeds"]) + "}",
        "FETCH_SIZES": "{" + ", ".join(str(p["bytes"]) for p in description["fetches"]) + "}",
    }
    defines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    source.write_text(defines + source.read_text())
    text = json.dumps(description, separators=(",", ":"))  # as model.json is
    (folder / "description.inc").write_text(json.dumps(text) + "\n")
    shutil.copy(REPOSITORY / "builder" / "runtime" / "abi" / "model.h", folder)
    exports = folder / "exports.map"
    toolchain = Toolchain(X86_64, cache_folder() / "zig")
    toolchain.compile_source(source, folder / "abi_library.o", include=(folder,))
    objects, names = [folder / "abi_library.o"], EXPORTS
    if "audio" in description:
        objects, names = [*objects, *_audio_objects(toolchain, folder)], (*EXPORTS, *PUBLIC_AUDIO)
    exports.write_text(format_exports_map(names))
    library = folder / "libmodel.so"
    toolchain.link_shared_library(objects, exports, library)
    return library


def _audio_objects(toolchain: Toolchain, folder: Path) -> list[Path]:
    """The decoders, as the builder compiles them."""
    objects = []
    for name in AUDIO_SOURCES:
        objects.append(folder / f"{Path(name).stem}.o")
        toolchain.compile_source(RUNTIME / name, objects[-1], include=(RUNTIME,), flags=audio_flags(cache_folder()))
    return objects


def layer(folder: Path, description: dict[str, Any], **options: int) -> Path:
    """A model layer (``lib/libmodel.so``, ``model/manifest.json``) as a bundle has it."""
    library = build(folder / "compile", description, **options)
    root = folder / "layer"
    (root / "lib").mkdir(parents=True)
    (root / "model").mkdir()
    shutil.copy(library, root / "lib")
    (root / "model" / "manifest.json").write_text(json.dumps({"model": description["model"]}))
    write_openapi(root, [json.dumps(description)])
    return root
