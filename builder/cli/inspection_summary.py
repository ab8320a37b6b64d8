"""What inspecting a model found, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builder.base.escape import visible
from builder.importers.ports import PortInfo
from builder.pipeline import preflight
from builder.pipeline.inspect_model import Inspection


def render(found: Inspection) -> str:
    """What the model takes and gives, then the preflight; ``?`` stands for a dimension that the model leaves open."""
    ports = found.ports
    lines = [*_ports("inputs", ports.feeds), *_ports("outputs", ports.fetches)]
    if ports.facts:
        lines += [f"input {visible(one.feed)}: {one.describe()}" for one in ports.facts.scalings]
    if len(ports.signatures) > 1:
        others = ", ".join(visible(name) for name in ports.signatures if name != ports.signature)
        lines.append(f"signature: {visible(ports.signature or '')}; the model also has {others}")
    lines += [f"warning: {visible(text)}" for text in ports.warnings]
    if ports.origin:
        lines.append(f"file: {visible(ports.origin)}")
    if found.dynamic:
        lines.append(f"the data decides the size of {', '.join(map(visible, found.dynamic))}")
    if found.strings:
        lines.append(f"strings: {' → '.join(map(visible, found.strings))}")
    if found.parameters is not None:
        lines.append(f"parameters: {found.parameters:,}")
    return "\n".join([*lines, "", preflight.render(found.preflight)])


def _ports(title: str, ports: Sequence[PortInfo]) -> Iterator[str]:
    yield title
    names = [visible(port.name) for port in ports]
    width = max(map(len, names), default=0)
    for name, port in zip(names, ports, strict=True):
        yield f"  {name.ljust(width)}  {visible(port.dtype)} {_shape(port.shape)}"


def _shape(shape: Sequence[int | None] | None) -> str:
    if shape is None:
        return "of any shape"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
