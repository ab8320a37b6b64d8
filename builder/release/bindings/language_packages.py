"""The files of a package in each language: a function of a model's description and the files that it includes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from builder.base.errors import UsageError
from builder.base.escape import (
    c_literal,
    escape_docstring,
    go_string,
    javascript_string,
    python_string,
    rust_string,
    toml_string,
)
from builder.base.project import HOME
from builder.base.targets import target_named
from builder.compiler.emit.header import C_TYPES
from builder.release.bindings.binding_files import BindingSources, Files
from builder.release.bindings.binding_templates import LanguageSyntax, fill_template, make_values, wrap_items
from builder.release.bindings.describe import BindingDescription, OutputHead, to_camel_case

_NO_STATIC = "--static is for C, Rust and Go."

SYNTAX = {
    "c": LanguageSyntax(
        C_TYPES,
        c_literal,
        ", or JPEG or PNG where `make` finds libjpeg and libpng by pkg-config",
        formats={"f": '" %.6f", (double)', "u": '" %llu", (unsigned long long)', "i": '" %lld", (long long)'},
    ),
    "rust": LanguageSyntax(
        {
            "bool": "u8", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32",
            "uint32": "u32", "int64": "i64", "uint64": "u64", "float32": "f32", "float64": "f64",
        },
        rust_string,
        ", or JPEG or PNG in `pictures/`",
        formats={"f": "{:.6}", "i": "{}"},
        indent=8 * " ",
    ),
    "go": LanguageSyntax(
        {"bool": "uint8"} | {
            name: name
            for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
        },
        go_string,
        ", JPEG or PNG",
        formats={"f": " %.6f", "i": " %d"},
        indent="\t",
    ),
    "node": LanguageSyntax(
        {
            "bool": "Uint8Array", "int8": "Int8Array", "uint8": "Uint8Array", "int16": "Int16Array",
            "uint16": "Uint16Array", "int32": "Int32Array", "uint32": "Uint32Array", "int64": "BigInt64Array",
            "uint64": "BigUint64Array", "float32": "Float32Array", "float64": "Float64Array",
        },
        javascript_string,
        ", or JPEG or PNG after `npm install sharp`",
    ),
    "python": LanguageSyntax(
        {
            "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
            "int64": "q", "uint64": "Q", "float32": "f", "float64": "d",
        },
        python_string,
        ", or whatever Pillow reads, where it is installed",
        escape_docstring,
        formats={"f": 'f"{v:.6f}"', "i": "str(int(v))"},
    ),
}  # fmt: skip


def make_c_files(description: BindingDescription, parts: BindingSources) -> Files:
    """Return a header with the model's types, an example and a Makefile, beside libmodel.so and libmodel.a."""
    values = make_values(description, SYNTAX["c"])
    values |= (
        {"flags": " $(PICTURE_FLAGS)", "libs": " $(PICTURE_LIBS)"} if description.image else {"flags": "", "libs": ""}
    )
    for fetch in values["plain"]:
        sizes = (f"(size_t)fetches->{fetch['sized_by']}[{axis}]" for axis in range(fetch["rank"]))
        fetch["sizes"] = " * ".join(sizes)
    archive = {"libmodel.a": parts.archive} if parts.archive else {}
    return {
        f"{description.package}.h": fill_template("c/model.h", values),
        "predict.c": fill_template("c/predict.c", values),
        "Makefile": fill_template("c/Makefile", values),
        "model.h": parts.header,
        "model.json": parts.description,
        "libmodel.so": parts.library,
        **archive,
    }


def make_rust_files(description: BindingDescription, parts: BindingSources) -> Files:
    """Return a crate without dependencies; it links libmodel, statically or not, or loads it at run time.

    For a model of images, its example is also a crate of its own in ``pictures/``, which may have dependencies.
    """
    feeds = description.feeds
    values = make_values(description, SYNTAX["rust"]) | {
        "quoted_about": toml_string(f"{description.title}, compiled by coldforge"),
        "doc_feeds": ", ".join(f"{feed.identifier}: &[0; {feed.spec.elements}]" for feed in feeds),
        "feed_arguments": ", ".join(f"{feed.identifier}: &{feed.identifier}" for feed in feeds),
    }
    names = {
        "Cargo.toml": "Cargo.toml",
        "build.rs": "build.rs",
        "src/lib.rs": "lib.rs",
        "src/native.rs": "native.rs",
        "examples/predict.rs": "predict.rs",
    }
    if description.image:
        names |= {"pictures/Cargo.toml": "pictures.toml", "pictures/build.rs": "pictures.rs"}
    archive = {"native/libmodel.a": parts.archive} if parts.archive else {}
    return {
        **{path: fill_template(f"rust/{name}", values) for path, name in names.items()},
        "native/libmodel.so": parts.library,
        "native/model.h": parts.header,
        "native/model.json": parts.description,
        **archive,
    }


def make_go_files(description: BindingDescription, parts: BindingSources) -> Files:
    """Return a module without dependencies; its packages run the library (cgo) or the WebAssembly module."""
    feeds, fetches = description.feeds, description.fetches
    values = make_values(description, SYNTAX["go"]) | name_go_package(description)
    values["parameters"] = ", ".join(
        [
            *(f"const void *feed_{feed.identifier}" for feed in feeds),
            *(f"void *fetch_{fetch.identifier}" for fetch in fetches),
        ]
    )
    for kind, holder, tensors in (("feed", "feeds", feeds), ("fetch", "fetches", fetches)):
        values |= {
            f"{kind}_rows": ", ".join(f"{{{kind}_{tensor.identifier}, {tensor.spec.size}u}}" for tensor in tensors),
            f"{kind}_sizes": ", ".join(str(tensor.spec.size) for tensor in tensors),
            f"{kind}_values": ", ".join(f"{holder}.{to_camel_case(tensor.identifier)}" for tensor in tensors),
        }
    archive = {"native/libmodel.a": parts.archive} if parts.archive else {}
    module: Files = {}
    if parts.wasm:
        module = {"wasm/model.wasm": parts.wasm / "model.wasm", "wasm/embed.go": fill_template("go/embed.go", values)}
    return {
        "go.mod": fill_template("go/go.mod", values),
        "model.go": fill_template("go/model.go", values),
        "native/native.go": fill_template("go/native.go", values),
        "native/model.h": parts.header,
        "native/libmodel.so": parts.library,
        "wasm/wasm.go": fill_template("go/wasm.go", values),
        "cmd/predict/main.go": fill_template("go/main.go", values),
        "model.json": parts.description,
        **archive,
        **module,
    }


def name_go_package(description: BindingDescription) -> dict[str, str]:
    """Return the name of the Go package, which has no underscores, and a path with a dot in it.

    Without one, it might be a package of Go's own library.
    """
    package = description.package.replace("_", "")
    return {"package": package, "module": f"coldforge.model/{package}"}


def make_node_files(description: BindingDescription, parts: BindingSources) -> Files:
    """Return a package for Node.js and browsers: `coldforge wasm`'s files, with type declarations.

    Raises UsageError without these.
    """
    if parts.archive:
        raise UsageError(f"Node.js runs WebAssembly: {_NO_STATIC}")
    if parts.wasm is None:
        raise UsageError(f"there is no WebAssembly module of {description.name}: run `coldforge wasm` first.")
    outputs = [_make_output_values(head) for head in description.heads]
    values = make_values(description, SYNTAX["node"]) | {
        "npm": description.name.lstrip("-_"),  # A name in npm begins with a letter or digit.
        "quoted_about": javascript_string(f"{description.title}, compiled by coldforge to WebAssembly"),
        "outputs": outputs,
        "classes": [output for output in outputs if output["classification"]],
    }
    return {
        "package.json": fill_template("node/package.json", values),
        "predict.d.mts": fill_template("node/predict.d.mts", values),
        **{name: parts.wasm / name for name in ("predict.mjs", "model.wasm", "model-baseline.wasm", "model.json")},
    }


def _make_output_values(head: OutputHead) -> dict[str, Any]:
    """Return the values of an output, of any size, in JavaScript."""
    name, syntax = to_camel_case(head.identifier), SYNTAX["node"]
    classification = head.kind == "classification"
    answer = "string[]" if head.fetch.spec.dtype in ("int64", "uint64") else "number[]"
    if classification:
        answer = f"Class<{name}Label>[]"
        answer += "[]" if head.fetch.sized_by or (head.items > 1 and head.labelled) else ""
    return {
        "Id": name,
        "quoted": syntax.quote(head.name),
        "about": syntax.comment(head.name),
        "classification": classification,
        "labelled": head.labelled,
        "members": wrap_items([f"| {syntax.quote(label)}" for label in head.labels], "  ", after=""),
        "answer": answer,
    }


_FUNCTION = ("description", "errors", "named_tuples", "typed")
_DECODING = ("budget", "crop", "deferred_import", "image", "image_header", "resize")
"""Modules of the function that a Python package includes: they read model.json, and decode images."""


def make_python_files(description: BindingDescription, parts: BindingSources) -> Files:
    """Return a package without dependencies around libmodel.so, by ctypes. Raises UsageError for a static library."""
    if parts.archive:
        raise UsageError(f"Python loads libraries at run time: {_NO_STATIC}")
    package, image, feeds = description.package, description.image, description.feeds
    values = make_values(description, SYNTAX["python"]) | {
        "distribution": package.replace("_", "-"),
        "release": to_pep440_version(description.version),
        "quoted_about": toml_string(f"{description.title}, compiled by coldforge"),
        "machine": target_named(description.arch).triple.partition("-")[0],
        "doc_feeds": ", ".join(f"{feed.identifier}=..." for feed in feeds),
        "doc_columns": ", ".join(f'"{feed.identifier}": ...' for feed in feeds),
        "feed_values": ", ".join(f"feeds.{feed.identifier}" for feed in feeds) + ("," if len(feeds) == 1 else ""),
        "picture_feed": python_string(image.feed) if image else "",
    }
    values |= {"feed_ports": _format_ports(values["feeds"]), "fetch_ports": _format_ports(values["fetches"])}
    modules = {"__init__": "init", "__main__": "main", "predictor": "predictor", "columns": "columns"}
    modules |= {"pictures": "pictures"} if image else {}
    function = _FUNCTION + (_DECODING if image else ())
    return {
        "pyproject.toml": fill_template("python/pyproject.toml", values),
        **{f"{package}/{module}.py": fill_template(f"python/{name}.py", values) for module, name in modules.items()},
        f"{package}/function/__init__.py": '"""Modules of coldforge\'s function, as they are there."""\n',
        **{f"{package}/function/{name}.py": HOME / "handler" / f"{name}.py" for name in function},
        f"{package}/py.typed": "",
        f"{package}/libmodel.so": parts.library,
        f"{package}/model.json": parts.description,
        "model.h": parts.header,
    }


def to_pep440_version(version: str) -> str:
    """Convert a model's version to PEP 440: an invalid one becomes the local part of version 0."""
    if re.fullmatch(r"\d+(\.\d+)*", version):
        return version
    words = re.split(r"[^a-z0-9]+", version.lower().rstrip("._+-"))
    return "0+" + ".".join(str(int(word)) if word.isdigit() else word for word in words)


def _format_ports(tensors: list[dict[str, Any]]) -> str:
    ports = [
        f'Port({tensor["quoted"]}, "{tensor["dtype"]}", {tuple(tensor["shape"])}, "{tensor["type"]}", {tensor["size"]})'
        for tensor in tensors
    ]
    return f"({ports[0]},)" if len(ports) == 1 else "(\n" + "".join(f"    {port},\n" for port in ports) + ")"


LANGUAGES: dict[str, Callable[[BindingDescription, BindingSources], Files]] = {
    "c": make_c_files,
    "rust": make_rust_files,
    "go": make_go_files,
    "node": make_node_files,
    "python": make_python_files,
}
STATIC = ("c", "rust", "go")
"""Languages whose programs can link the library statically."""
