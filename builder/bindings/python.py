"""Python: one module without dependencies, around libmodel.so by ctypes."""

from __future__ import annotations

from builder.bindings.describe import Description, Head, Tensor
from builder.bindings.package import (
    SHOWN,
    Files,
    Parts,
    about,
    fill,
    or_picture,
    pixels,
    plain,
    rows,
    usage,
    wrapped,
)
from builder.errors import UsageError
from builder.escape import doc, python_string

FORMATS = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip


def files(description: Description, parts: Parts) -> Files:
    """``<model>.py`` and ``libmodel.so``. Raises UsageError for a static library."""
    if parts.archive:
        raise UsageError("Python loads libraries at run time: --static is for C, Rust and Go.")
    return {
        f"{description.package}.py": module(description),
        "libmodel.so": parts.library,
        "model.h": parts.header,
        "model.json": parts.description,
    }


def module(description: Description) -> str:
    feeds, fetches, picture = description.feeds, description.fetches, description.picture
    return fill(
        "python/module.py",
        title=doc(description.title),
        model=description.package,
        arguments=usage(description),
        doc_feeds=", ".join(f"{f.identifier}=..." for f in feeds),
        name=python_string(description.name),
        version=python_string(description.version),
        batch=description.batch,
        feed_ports=_ports(feeds),
        fetch_ports=_ports(fetches),
        labels="".join(_labels(head) for head in description.classifications),
        feeds="\n".join(f"    {f.identifier}: Buffer\n    {_doc(about(description, f))}" for f in feeds),
        fetches="\n".join(f"    {f.identifier}: memoryview\n    {_doc(about(description, f))}" for f in fetches),
        ranks="".join(_rank(head) for head in description.classifications),
        feed_values=", ".join(f"feeds.{f.identifier}" for f in feeds) + ("," if len(feeds) == 1 else ""),
        helper=_HELPER if description.classifications else "",
        pixels=pixels(description, "python/pixels.py"),
        imports="\n".join(f"import {name}" for name in (*_IMPORTS, *(["re"] if picture else []), *_MORE_IMPORTS)),
        or_picture=or_picture(description),
        from_picture=_FROM_PICTURE.replace("FEED", python_string(picture.feed)) if picture else "",
        prints="\n".join(
            [*map(_print_classes, description.classifications), *(_print(*p) for p in plain(description))]
        ),
    )


_IMPORTS, _MORE_IMPORTS = ("ctypes", "json"), ("sys", "threading")

_FROM_PICTURE = """\
    if port.name == FEED and len(data) != port.size:
        data = pixels(data, path)
"""


def _doc(text: str) -> str:
    return f'"""{doc(text)}"""'


def _ports(tensors: tuple[Tensor, ...]) -> str:
    if len(tensors) == 1:
        return f"({_port(tensors[0])},)"
    return "(\n" + "".join(f"    {_port(tensor)},\n" for tensor in tensors) + ")"


def _port(tensor: Tensor) -> str:
    spec = tensor.spec
    shape = f"({', '.join(map(str, spec.shape))}{',' if len(spec.shape) == 1 else ''})"
    return f'Port({python_string(spec.name)}, "{spec.dtype}", {shape}, "{FORMATS[spec.dtype]}", {spec.size})'


def _labels(head: Head) -> str:
    labels = wrapped([python_string(label) for label in head.labels], 4)
    return f"\n{head.identifier.upper()}_LABELS = (\n{labels}\n)  # fmt: skip\n"


def _rank(head: Head) -> str:
    item, first = ("", "0") if head.items == 1 else (", item: int", f"item * {head.length}")
    last = str(head.length) if head.items == 1 else f"(item + 1) * {head.length}"
    return f'''
    def rank_{head.identifier}(self{item}) -> list[Class]:
        """The likeliest classes of output `{doc(head.name)}`, which is {rows(head)}; the best first."""
        values = self.{head.fetch.identifier}.cast("B").cast({python_string(FORMATS[head.fetch.spec.dtype])})
        return _ranked(values[{first}:{last}].tolist(), {head.identifier.upper()}_LABELS, {head.top})
'''


_HELPER = '''
def _ranked(values: Sequence[float], labels: tuple[str, ...], top: int) -> list[Class]:
    """Equal ones stay in the model's order; NaN, which is not equal to itself, comes last."""
    order = sorted(range(len(values)), key=lambda i: (values[i] != values[i], -values[i]))
    return [Class(i, labels[i], values[i]) for i in order[:top]]

'''


def _print_classes(head: Head) -> str:
    show = f'", ".join(f"{{c.label}} {{c.probability:.6f}}" for c in fetches.rank_{head.identifier}'
    if head.items == 1:
        return f"    print({python_string(head.name + ':')}, {show}()))"
    return f"    for item in range({head.items}):\n        print({python_string(head.name + ':')}, {show}(item)))"


def _print(name: str, fetch: Tensor) -> str:
    number = 'f"{v:.6f}"' if fetch.spec.dtype.startswith("float") else "str(int(v))"
    more = ', "..."' if fetch.spec.elements > SHOWN else ""
    values = f'fetches.{fetch.identifier}.cast("B").cast("{FORMATS[fetch.spec.dtype]}")[:{SHOWN}]'
    return f"    print({python_string(name + ':')}, *({number} for v in {values}){more})"
