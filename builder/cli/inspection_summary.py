"""Result of inspecting a model, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builder.base.escape import escape_invisible
from builder.importers.ports import PortInfo
from builder.pipeline import preflight
from builder.pipeline.inspect_model import Inspection


def format_inspection(found: Inspection) -> str:
    """Return the model's inputs and outputs, then the preflight; ``?`` stands for a dimension of open size."""
    ports = found.ports
    lines = [*_format_ports("inputs", ports.feeds), *_format_ports("outputs", ports.fetches)]
    if ports.facts:
        lines += [f"input {escape_invisible(spec.feed)}: {spec.describe_steps()}" for spec in ports.facts.scalings]
    if len(ports.signatures) > 1:
        others = ", ".join(escape_invisible(name) for name in ports.signatures if name != ports.signature)
        lines.append(f"signature: {escape_invisible(ports.signature or '')}; the model also has {others}")
    lines += [f"warning: {escape_invisible(text)}" for text in ports.warnings]
    if ports.origin:
        lines.append(f"file: {escape_invisible(ports.origin)}")
    if found.dynamic:
        lines.append(f"the data decides the size of {', '.join(map(escape_invisible, found.dynamic))}")
    if found.strings:
        lines.append(f"strings: {' → '.join(map(escape_invisible, found.strings))}")
    if found.parameters is not None:
        lines.append(f"parameters: {found.parameters:,}")
    return "\n".join([*lines, "", preflight.format_preflight(found.preflight)])


def _format_ports(title: str, ports: Sequence[PortInfo]) -> Iterator[str]:
    yield title
    names = [escape_invisible(port.name) for port in ports]
    width = max(map(len, names), default=0)
    for name, port in zip(names, ports, strict=True):
        yield f"  {name.ljust(width)}  {escape_invisible(port.dtype)} {_format_shape(port.shape)}"


def _format_shape(shape: Sequence[int | None] | None) -> str:
    if shape is None:
        return "of any shape"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
