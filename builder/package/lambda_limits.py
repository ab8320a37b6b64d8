"""Lambda's limits, and checks of a bundle against them.

Source: "Lambda quotas", https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html, and
"Configuring Lambda function memory", https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from builder.base.errors import SizeLimitError
from builder.config import DIRECT_UPLOAD_ZIPPED, LAMBDA_UNZIPPED, ModelSpec

_MAX_LAYERS = 5
CONTAINER_IMAGE = 10 * 1024**3
"""Limit in bytes of an uncompressed container image with all layers, for functions that no zip can hold."""

_MEMORY_MAX_MB = 10_240
_WORKING_MEMORY = 256 << 20
"""Bytes of memory needed besides the weights: Python, the decoders, a model's buffers."""

QUEUE_TIMEOUTS = 6
"""Factor of the function's Timeout for which a message must stay out of sight, as AWS recommends."""


@dataclass(frozen=True)
class Component:
    """One zip that a function is made of: its own code, or a layer. Sizes are bytes."""

    name: str
    unzipped: int
    zipped: int
    layer: bool = True


@dataclass(frozen=True)
class SizeTable:
    """The components with their totals, against what Lambda and the spec allow. Sizes are bytes.

    ``max_unzipped`` holds for all components together; ``max_zipped`` for each zip, since each is
    uploaded on its own.
    """

    components: tuple[Component, ...]
    max_unzipped: int
    max_zipped: int

    @property
    def unzipped(self) -> int:
        """The bytes of all components together."""
        return sum(c.unzipped for c in self.components)

    @property
    def zipped(self) -> int:
        """The bytes of all zips together."""
        return sum(c.zipped for c in self.components)

    @property
    def largest_zip(self) -> int:
        """The bytes of the largest zip."""
        return max((c.zipped for c in self.components), default=0)

    @property
    def layers(self) -> int:
        """The number of layers."""
        return sum(c.layer for c in self.components)

    def to_dict(self) -> dict[str, Any]:
        """Return the table for JSON; ``from_dict`` reads it back."""
        return {
            "components": [asdict(component) for component in self.components],
            "unzipped": self.unzipped,
            "zipped": self.zipped,
            "max_unzipped": self.max_unzipped,
            "max_zipped": self.max_zipped,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SizeTable:
        """Read the result of ``to_dict``. Raises KeyError and TypeError."""
        components = tuple(Component(**row) for row in data["components"])
        return cls(components, data["max_unzipped"], data["max_zipped"])


def find_size_limits(spec: ModelSpec) -> tuple[int, int]:
    """Return the limits of ``spec`` in bytes (unzipped, of the largest zip): Lambda's, or its own where they are lower.

    The zip limit is the spec's alone: Lambda's 50 MB holds for direct uploads only; through S3, only the unzipped
    limit holds. A container image, for the whole function or for the weights alone, has no zip, and a limit of its own.
    """
    if "image" not in (spec.packaging, spec.weights.place):
        return min(spec.max_unzipped, LAMBDA_UNZIPPED), spec.max_zipped
    return spec.max_unzipped if spec.max_unzipped != LAMBDA_UNZIPPED else CONTAINER_IMAGE, CONTAINER_IMAGE


def make_size_table(components: Iterable[Component], spec: ModelSpec) -> SizeTable:
    """Put the components into a table with the limits of ``find_size_limits``."""
    return SizeTable(tuple(components), *find_size_limits(spec))


def list_remedies(weights: int) -> Iterator[str]:
    """Yield the ways to deploy ``weights`` bytes that no layer holds, the cheapest first, as lines for a person."""
    needed = -(-(weights + _WORKING_MEMORY) // 2**20)
    if weights + _WORKING_MEMORY <= CONTAINER_IMAGE:
        yield (
            "PACKAGE=image when you bundle and deploy: a container image holds "
            f"{CONTAINER_IMAGE:,} bytes, and costs its storage alone"
        )
    if needed <= _MEMORY_MAX_MB:
        yield (
            'place = "elsewhere", and the add-on weights with Weights=s3://bucket/key when you deploy: fetched into '
            f"memory at each start, with a MemorySize of at least {needed}"
        )
    yield 'place = "elsewhere", and the add-on file-system when you deploy, on EFS: of any size; needs a VPC'


def require_sizes(table: SizeTable) -> None:
    """Raise SizeLimitError that names every exceeded limit, by how much, and the next step."""
    problems = list(_list_problems(table))
    if not problems:
        return
    width = max(len(c.name) for c in table.components)
    rows = [f"  {c.name:<{width}}  {c.unzipped:>13,} unzipped  {c.zipped:>13,} zipped" for c in table.components]
    raise SizeLimitError("\n".join(["the function would be too large (bytes):", *rows, *problems]))


def _list_problems(table: SizeTable) -> Iterator[str]:
    over = table.unzipped - table.max_unzipped
    if over > 0:
        largest = max(table.components, key=lambda c: c.unzipped)
        whose = {LAMBDA_UNZIPPED: "Lambda's limit", CONTAINER_IMAGE: "a container image's limit"}.get(
            table.max_unzipped, "the limit in model.toml"
        )
        yield f"Unzipped, all together: {table.unzipped:,}, which is {over:,} over {whose} of {table.max_unzipped:,}."
        if table.max_unzipped == CONTAINER_IMAGE:
            yield f"  The largest part is {largest.name}. Use a smaller network: nothing on Lambda holds more."
        elif table.unzipped <= LAMBDA_UNZIPPED:
            yield f"  Raise unzipped under [limits] in model.toml (Lambda allows {LAMBDA_UNZIPPED:,})."
        else:
            yield f"  The largest part is {largest.name}. Use a smaller network, or take its weights out of the layer:"
            for way in list_remedies(largest.unzipped):
                yield f"  - {way}."
    for component in table.components:
        over = component.zipped - table.max_zipped
        if over > 0:
            yield (
                f"Zipped, {component.name}: {component.zipped:,}, which is {over:,} over the limit in model.toml of "
                f"{table.max_zipped:,}."
            )
            yield (
                f"  Lambda takes {DIRECT_UPLOAD_ZIPPED:,} in a direct upload, and more through S3, which `sam deploy` "
                f"uses: set zipped = {component.zipped} or more under [limits] in model.toml."
            )
    if table.layers > _MAX_LAYERS:
        yield f"Layers: {table.layers}, and a function takes {_MAX_LAYERS}: put several into one."
