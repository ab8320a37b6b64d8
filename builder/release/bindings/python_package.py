"""The Python package, without dependencies, around libmodel.so by ctypes; pip installs it and makes a wheel of it."""

from __future__ import annotations

import re

from builder.base.errors import UsageError
from builder.base.escape import escape_docstring, python_string, toml_string
from builder.base.project import HOME
from builder.base.targets import target_named
from builder.release.bindings.binding_files import (
    SHOWN,
    BindingSources,
    Files,
    describe_tensor,
    fill_template,
    format_image_reader,
    format_row_count,
    format_usage,
    list_plain_outputs,
    mention_image,
    wrap_items,
)
from builder.release.bindings.describe import BindingDescription, BindingTensor, OutputHead

FORMATS = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip


_FUNCTION = ("description", "errors", "tuples", "typed")
_DECODING = ("budget", "exif", "fit", "image", "later", "resize", "survey")
"""Modules of the function that the package includes: they read model.json, and decode images."""


def make_python_files(description: BindingDescription, parts: BindingSources) -> Files:
    """Return ``pyproject.toml`` and the package ``<model>/``. Raises UsageError for a static library."""
    if parts.archive:
        raise UsageError("Python loads libraries at run time: --static is for C, Rust and Go.")
    package = description.package
    picture = [f"{package}/pictures.py"] if description.picture else []
    function = _FUNCTION + (_DECODING if description.picture else ())
    return {
        "pyproject.toml": format_pyproject(description),
        f"{package}/__init__.py": format_python_init(description),
        f"{package}/__main__.py": format_python_example(description),
        f"{package}/predictor.py": format_predictor(description),
        f"{package}/columns.py": fill_template("python/columns.py"),
        **{path: fill_template("python/pictures.py") for path in picture},
        f"{package}/function/__init__.py": '"""Modules of coldforge\'s function, as they are there."""\n',
        **{f"{package}/function/{name}.py": HOME / "handler" / f"{name}.py" for name in function},
        f"{package}/py.typed": "",
        f"{package}/libmodel.so": parts.library,
        f"{package}/model.json": parts.description,
        "model.h": parts.header,
    }


def format_pyproject(description: BindingDescription) -> str:
    """Return the text of pyproject.toml."""
    pictures = 'pictures = ["pillow"]  # for JPEG and PNG\n'
    return fill_template(
        "python/pyproject.toml",
        model=description.package,
        distribution=description.package.replace("_", "-"),
        release=to_pep440_version(description.version),
        description=toml_string(f"{description.title}, compiled by coldforge"),
        pictures=pictures if description.picture else "",
        machine=target_named(description.arch).triple.partition("-")[0],
    )


def to_pep440_version(version: str) -> str:
    """Convert a model's version to PEP 440: an invalid one becomes the local part of version 0."""
    if re.fullmatch(r"\d+(\.\d+)*", version):
        return version
    words = re.split(r"[^a-z0-9]+", version.lower().rstrip("._+-"))
    return "0+" + ".".join(str(int(word)) if word.isdigit() else word for word in words)


def format_python_init(description: BindingDescription) -> str:
    """Return the text of __init__.py."""
    feeds, fetches = description.feeds, description.fetches
    return fill_template(
        "python/init.py",
        title=escape_docstring(description.title),
        model=description.package,
        arguments=format_usage(description),
        doc_feeds=", ".join(f"{f.identifier}=..." for f in feeds),
        name=python_string(description.name),
        version=python_string(description.version),
        batch=description.batch,
        feed_ports=_format_ports(feeds),
        fetch_ports=_format_ports(fetches),
        labels="".join(_format_labels(head) for head in description.classifications),
        feeds="\n".join(
            f"    {f.identifier}: Buffer\n    {_quote_docstring(describe_tensor(description, f))}" for f in feeds
        ),
        fetches="\n".join(
            f"    {f.identifier}: memoryview\n    {_quote_docstring(describe_tensor(description, f))}" for f in fetches
        ),
        ranks="".join(_format_rank_code(head) for head in description.classifications),
        sizes="".join(["        ports = [*FETCHES]\n", *map(_format_resize_call, description.dynamic)])
        if description.dynamic
        else "",
        ports="ports" if description.dynamic else "FETCHES",
        resize=_RESIZE if description.dynamic else "",
        feed_values=", ".join(f"feeds.{f.identifier}" for f in feeds) + ("," if len(feeds) == 1 else ""),
        helper=_HELPER if description.classifications else "",
        math="import math\n" if description.dynamic else "",
    )


def format_predictor(description: BindingDescription) -> str:
    """Return the text of predictor.py."""
    return fill_template(
        "python/predictor.py",
        title=escape_docstring(description.title),
        model=description.package,
        doc_columns=", ".join(f'"{f.identifier}": ...' for f in description.feeds),
    )


def format_python_example(description: BindingDescription) -> str:
    """Return the text of __main__.py."""
    picture = description.picture
    prints = [
        *map(_format_print_classes, description.classifications),
        *(_format_print_code(*p) for p in list_plain_outputs(description)),
    ]
    return fill_template(
        "python/main.py",
        title=escape_docstring(description.title),
        model=description.package,
        arguments=format_usage(description),
        imports="\n".join(f"import {name}" for name in (*(["io", "re"] if picture else []), "sys")),
        pixels=format_image_reader(
            description, "python/pixels.py", pillow_mode=_PILLOW[picture.mode] if picture else ""
        ),
        or_picture=mention_image(description),
        more_pictures=_MORE_PICTURES if picture else "",
        from_picture=_FROM_PICTURE.replace("FEED", python_string(picture.feed)) if picture else "",
        prints="\n".join(prints),
    )


_MORE_PICTURES = """

    Where Pillow is installed, the picture may be a JPEG or PNG, too.
    """

_PILLOW = {"grey": "L", "rgb": "RGB"}

_FROM_PICTURE = """\
    if port.name == FEED and len(data) != port.size:
        data = pixels(data, path)
"""


def _quote_docstring(text: str) -> str:
    return f'"""{escape_docstring(text)}"""'


def _format_ports(tensors: tuple[BindingTensor, ...]) -> str:
    if len(tensors) == 1:
        return f"({_format_port(tensors[0])},)"
    return "(\n" + "".join(f"    {_format_port(tensor)},\n" for tensor in tensors) + ")"


def _format_port(tensor: BindingTensor) -> str:
    spec = tensor.spec
    shape = f"({', '.join(map(str, spec.shape))}{',' if len(spec.shape) == 1 else ''})"
    return f'Port({python_string(spec.name)}, "{spec.dtype}", {shape}, "{FORMATS[spec.dtype]}", {spec.size})'


def _format_labels(head: OutputHead) -> str:
    labels = wrap_items([python_string(label) for label in head.labels], 4)
    return f"\n{head.identifier.upper()}_LABELS = (\n{labels}\n)  # fmt: skip\n"


def _format_resize_call(fetch: BindingTensor) -> str:
    name, shape = python_string(fetch.spec.name), python_string(fetch.spec.shape_fetch)
    return f"        _resize({name}, {shape}, results, ports)\n"


def _format_rank_code(head: OutputHead) -> str:
    item, first = ("", "0") if head.items == 1 else (", item: int", f"item * {head.length}")
    last = str(head.length) if head.items == 1 else f"(item + 1) * {head.length}"
    rows = format_row_count(head)
    return f'''
    def rank_{head.identifier}(self{item}) -> list[Class]:
        """The likeliest classes of output `{escape_docstring(head.name)}`, which is {rows}; the best first."""
        values = self.{head.fetch.identifier}.cast("B").cast({python_string(FORMATS[head.fetch.spec.dtype])})
        return _ranked(values[{first}:{last}].tolist(), {head.identifier.upper()}_LABELS, {head.top})
'''


_HELPER = '''

def _ranked(values: Sequence[float], labels: tuple[str, ...], top: int) -> list[Class]:
    """Equal ones stay in the model's order; NaN, which is not equal to itself, comes last."""
    order = sorted(range(len(values)), key=lambda i: (values[i] != values[i], -values[i]))
    return [Class(i, labels[i], values[i]) for i in order[:top]]

'''


_RESIZE = '''

def _resize(name: str, shape_name: str, results: list[bytearray], ports: list[Port]) -> None:
    """Let the fetch ``name`` have the shape that the fetch ``shape_name`` says, and only what is there."""
    places = {port.name: number for number, port in enumerate(ports)}
    at = places[name]
    shape = tuple(memoryview(results[places[shape_name]]).cast("i"))
    size = ports[at].size // max(math.prod(ports[at].shape), 1) * math.prod(shape)
    results[at], ports[at] = results[at][:size], ports[at]._replace(shape=shape, size=size)
'''


def _format_print_classes(head: OutputHead) -> str:
    show = f'", ".join(f"{{c.label}} {{c.probability:.6f}}" for c in fetches.rank_{head.identifier}'
    if head.items == 1:
        return f"    print({python_string(head.name + ':')}, {show}()))"
    return f"    for item in range({head.items}):\n        print({python_string(head.name + ':')}, {show}(item)))"


def _format_print_code(name: str, fetch: BindingTensor) -> str:
    number = 'f"{v:.6f}"' if fetch.spec.dtype.startswith("float") else "str(int(v))"
    more = ', "..."' if fetch.spec.elements > SHOWN and not fetch.sized_by else ""
    values = f'fetches.{fetch.identifier}.cast("B").cast("{FORMATS[fetch.spec.dtype]}")[:{SHOWN}]'
    return f"    print({python_string(name + ':')}, *({number} for v in {values}){more})"
