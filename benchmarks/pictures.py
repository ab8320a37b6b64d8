"""The time that images take: ``python -m benchmarks.pictures [MEMORY_MB]``.

It first prints the time until each image of tests/support/hostile_images.py is answered, the best of three, by a
function of MEMORY_MB (1,769 by default); then the processor's nanoseconds for each pixel of large images, decoded and
resized. Both together are FILE_SECONDS (handler/budget.py) at most. Idle processors give the best figures.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable

from PIL import Image

from handler.budget import RequestLimits
from handler.description import ImageInput
from handler.errors import HandlerError
from handler.image import read_pixels
from handler.resize import resize_image
from tests.support import hostile_images as hostile

SIZE = 6_000, 4_000
ROUNDS = 3
METHODS = [("nearest", True), ("area", True)]
METHODS += [(method, antialias) for method in ("bilinear", "bicubic", "lanczos") for antialias in (True, False)]


def main() -> None:
    limits = RequestLimits.for_memory(int(sys.argv[1]) if len(sys.argv) > 1 else 1769)
    target = ImageInput("image", 224, 224, "rgb", "stretch", "bilinear", decode="exact")
    files = {name: make() for name, (_, make) in hostile.REFUSED.items()}
    files |= {name: make() for name, make in hostile.HARMLESS.items()}
    for name, data in files.items():
        seconds, answer = _best(lambda data=data: _answer(data, target, limits))
        print(f"{name:50} {len(data):>10,} bytes {seconds * 1000:7.1f} ms  {answer}")
    sampled = target._replace(resize="nearest")  # the quickest
    for name, data in _files():
        seconds, _ = _best(lambda data=data: read_pixels(data, "it", sampled, RequestLimits(encoded=10**9)))
        _rate(f"decode {name}, {len(data) / SIZE[0] / SIZE[1]:.2f} bytes a pixel", seconds)
    photo = _photo()
    for method, antialias in METHODS:
        seconds, _ = _best(lambda m=method, a=antialias: resize_image(photo, (224, 224), m, a))
        _rate(f"resize {method}{'' if antialias else ', not antialiased'}", seconds)


def _best(call: Callable[[], object]) -> tuple[float, object]:
    """Return the least processor seconds of ``call`` over several rounds, and its result."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        answer = call()
        seconds.append(time.process_time() - start)
    return min(seconds), answer


def _answer(data: bytes, target: ImageInput, limits: RequestLimits) -> str:
    try:
        read_pixels(data, "it", target, limits)
    except HandlerError as error:
        return f"{error.status} {error.code}"
    return "200"


def _rate(what: str, seconds: float) -> None:
    print(f"{what:50} {seconds * 1e9 / SIZE[0] / SIZE[1]:6.1f} ns a pixel")


def _photo() -> Image.Image:
    width, height = SIZE
    noise = Image.effect_noise((width // 4, height // 4), 60).resize(SIZE, Image.Resampling.BICUBIC)
    turned = noise.transpose(Image.Transpose.ROTATE_180), noise.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return Image.merge("RGB", (noise, *turned))


def _files() -> list[tuple[str, bytes]]:
    photo, plain = _photo(), Image.new("RGB", SIZE, (10, 200, 30))
    kinds: list[tuple[str, dict[str, object]]] = [
        ("JPEG", {"quality": 85}),
        ("JPEG", {"quality": 85, "progressive": True}),
        ("PNG", {"compress_level": 1}),
        ("WEBP", {"quality": 85, "method": 0}),
        ("GIF", {}),
        ("BMP", {}),
    ]
    files = []
    for form, options in kinds:
        for name, image in (("plain", plain), ("photograph", photo)):
            buffer = io.BytesIO()
            image.save(buffer, form, **options)
            kind = "progressive " if "progressive" in options else ""
            files.append((f"{kind}{form}, {name}", buffer.getvalue()))
    return files


if __name__ == "__main__":
    main()
