"""The static shape of every feed, as XLA compiles for one size of each tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.config import AudioSpec, FeedSpec, Format, ImageSpec, ModelSpec, TextSpec, sound_shapes
from builder.config.rules import FRAMEWORK_FORMATS, KERAS
from builder.config.tensor import ITEM_SIZES
from builder.importers.ports import ModelPorts, OpenShape, PortInfo, format_shape, read_image_size

Shape = tuple[int, ...]

STRING = "string"
"""The dtype of inputs that ``builder.importers.strings.cut_strings`` cuts off."""

_INSTEAD = {
    "string": "answer with numbers, and leave this one out by [[fetches]]",
    "complex64": "feed real and imaginary parts as two float32 tensors",
    "complex128": "feed real and imaginary parts as two float64 tensors",
    "bfloat16": "wrap the model so that it casts from and to float32 itself",
    "resource": "freeze the graph first",
    "variant": "choose a dense tensor instead",
}
CAST = {"float16", "bfloat16"}
"""Types that callers pass as float32: the graph casts from and to it."""


def pin_shapes(ports: ModelPorts, spec: ModelSpec) -> dict[str, Shape]:
    """Return the static shape of every feed of the model, by name, before preprocessing.

    A shape in the spec wins if it fits the model's; a leading None becomes ``spec.batch``; the shape of the feed of
    images or sound comes from [image] or [audio]. Raises ImportModelError with every dimension that stays open, and
    the lines to add.
    """
    known = [port.name for port in ports.feeds]
    problems = list(_list_unknown(ports, [feed.name for feed in spec.feeds]))
    if not known:
        problems.append("The model has no inputs.")
    media: ImageSpec | AudioSpec | None = spec.image or spec.audio
    media_feed, problem = _media_feed(ports, media)
    problems += [problem] if problem else []
    shapes: dict[str, Shape] = {}
    for port in ports.feeds:
        own = media if port.name == media_feed else None
        problems += check_dtype(port, "input", spec.source.format) if port.dtype != STRING else []
        declared = next((f.shape for f in spec.feeds if f.name == port.name), None)
        port = ports.fix_batch(port, spec.batch) if declared is None else port
        fixed = port.shape[0] if port.shape and declared is None and spec.source.format in KERAS else None
        if fixed not in (None, spec.batch):
            problems.append(f"The model runs for batches of {fixed} alone: write `batch = {fixed}` under [model].")
            continue
        try:
            shapes[port.name] = _pin_shape(port, declared, spec.source.format, spec.batch, own)
        except ImportModelError as error:
            problems.append(str(error))
    if spec.text:
        problems += _text_problems(spec.text.with_feed_names(known), ports, shapes)
    if problems:
        raise ImportModelError("\n".join(problems))
    return shapes


def _list_unknown(ports: ModelPorts, names: Iterable[str]) -> Iterator[str]:
    known = [port.name for port in ports.feeds]
    for name in names:
        if name not in known:
            yield f"[[feeds]] names {name!r}, which is not an input; the inputs are {', '.join(known)}."


def drop_constants(spec: ModelSpec) -> ModelSpec:
    """Return ``spec`` without the inputs to which it gives a value."""
    return replace(spec, feeds=tuple(feed for feed in spec.feeds if feed.value is None))


def read_constants(ports: ModelPorts, spec: ModelSpec) -> dict[str, Array]:
    """Return the values that ``spec`` gives to inputs, by name, as arrays of their types and shapes.

    Raises ImportModelError for a value that the input cannot have, or that no input has.
    """
    fixed = {feed.name: feed for feed in spec.feeds if feed.value is not None}
    if unknown := list(_list_unknown(ports, fixed)):
        raise ImportModelError("\n".join(unknown))
    return {port.name: _read_constant(port, fixed[port.name], spec.batch) for port in ports.feeds if port.name in fixed}


def _read_constant(port: PortInfo, feed: FeedSpec, batch: int) -> Array:
    values = np.array(feed.value)
    shape = feed.shape if feed.shape is not None else port.shape
    if shape is None:
        shape = () if values.size == 1 else values.shape
    try:
        value = values.astype(port.dtype)
        if value.dtype.kind in "biu" and (value != values).any():
            raise ValueError
        sizes: list[Any] = [batch if at == 0 and size is None else size for at, size in enumerate(shape)]
        return value.reshape(sizes) if value.size > 1 else np.full(sizes, value[0])
    except (TypeError, ValueError) as error:
        raise ImportModelError(
            f"[[feeds]] gives {port.name!r} the value {', '.join(map(str, values.tolist()))}, and it is "
            f"{port.dtype} {format_shape(shape)}: give it one number of that type, or one for each element, and "
            "`shape` if a size is open."
        ) from error


def describe_fixed_batch(ports: ModelPorts, spec: ModelSpec) -> tuple[str, ...]:
    """Say that a model's own batch applies, if all its inputs share it and ``spec`` has another."""
    sizes = {port.shape[0] for port in ports.feeds if port.shape and len(port.shape) > 1}
    if spec.source.format in KERAS or len(sizes) != 1 or sizes & {None, spec.batch}:
        return ()
    return (f"the model was saved for batches of {sizes.pop()}: `batch = {spec.batch}` under [model] changes nothing",)


def _text_problems(text: TextSpec, ports: ModelPorts, shapes: Mapping[str, Shape]) -> Iterator[str]:
    """Yield the errors in what [text], with its feed names filled in, states about the model's inputs."""
    known = {port.name: port for port in ports.feeds}
    if not text.ids:
        yield f"Nothing tells which input takes the ids of tokens: add `ids` under [text] (of {', '.join(known)})."
    for key, name in (("ids", text.ids), ("mask", text.mask), ("types", text.types)):
        if not name:
            continue
        shape = shapes.get(name)
        if name not in known:
            yield f"[text] {key} names {name!r}, which is not an input; the inputs are {', '.join(known)}."
        elif shape and (len(shape) != 2 or shape != shapes.get(text.ids or "", shape)):
            other = f", and {text.ids!r} is {list(shapes[text.ids])}" if text.ids and key != "ids" else ""
            yield f"[text] {key} is {name!r} {list(shape)}{other}: inputs of text are [batch, length], all the same."


def check_dtype(port: PortInfo, kind: str, form: Format) -> list[str]:
    """Return a message if the port's dtype cannot cross the C ABI and the graph does not cast it.

    ``form``: the model's format. The frameworks' own answers are in NumPy's files, which do not support bfloat16.
    """
    passed = CAST - ({"bfloat16"} if form in FRAMEWORK_FORMATS else set())
    if port.dtype in ITEM_SIZES or port.dtype in passed:
        return []
    instead = _INSTEAD.get(port.dtype, "use one of those")
    return [
        f"The {kind} {port.name!r} is {port.dtype}; coldforge passes {', '.join(ITEM_SIZES)}. What to do: {instead}."
    ]


def _media_feed(ports: ModelPorts, media: ImageSpec | AudioSpec | None) -> tuple[str | None, str | None]:
    """Return the feed of images or sound, and a message if the spec is wrong about it."""
    names = [port.name for port in ports.feeds]
    if media is None:
        return None, None
    section = "[image]" if isinstance(media, ImageSpec) else "[audio]"
    if media.feed in names:
        return media.feed, None
    if media.feed is not None:
        return None, f"{section} names {media.feed!r}, which is not an input; the inputs are {', '.join(names)}."
    if len(names) == 1:
        return names[0], None
    example = names[0] if names else "?"
    return None, f'The model has several inputs: add `feed = "{example}"` under {section} (of {", ".join(names)}).'


def _pin_shape(
    port: PortInfo, given: Shape | None, form: Format, batch: int, media: ImageSpec | AudioSpec | None
) -> Shape:
    shape = port.shape
    if given is not None:
        if shape is not None and not _is_shape_possible(given, shape):
            raise ImportModelError(
                f"[[feeds]] gives {port.name!r} the shape {list(given)}, but the model's is {port.describe_shape()}."
            )
        shape = given
    if isinstance(media, ImageSpec):
        return _pin_image(port.name, shape, form, batch, media)
    if media is not None:
        return _pin_audio(port.name, shape, batch, media)
    if shape is not None:
        shape = tuple(batch if i == 0 and d is None else d for i, d in enumerate(shape))
        if all(d is not None and d > 0 for d in shape):
            return tuple(d for d in shape if d is not None)
    if shape is None:
        what, example = "of unknown rank", f"[]  # a scalar; or the shape you call it with, such as [{batch}, 16]"
    else:
        what = port.describe_shape()
        example = "[" + ", ".join(str(d) if d else "16" for d in shape) + "]  # put your sizes where 16 stands"
    line = f"shape = {example}"
    if port.value is not None:
        line = f"value = {str(port.value).lower()}  # for inference; or `shape = []`, and callers pass it"
    raise ImportModelError(
        f"The input {port.name!r} is {what}, and XLA compiles for fixed sizes only. Add to model.toml:\n\n"
        f'[[feeds]]\nname = "{port.name}"\n{line}\n'
    )


def _pin_image(name: str, shape: OpenShape | None, form: Format, batch: int, image: ImageSpec) -> Shape:
    """Return [batch, height, width, channels], or [batch, channels, height, width] if that fits alone.

    A model of grey images may omit their channels or have flat ones. Raises ImportModelError if nothing fits, or if
    [image] has to say which of the two it is: TensorFlow's images have their channels last.
    """
    last = (batch, image.height, image.width, image.channels)
    first = (batch, image.channels, image.height, image.width)
    flat = (batch, image.height * image.width * image.channels)
    full = {"channels_last": [last], "channels_first": [first], None: [last, first]}[image.layout]
    candidates = [*full, flat, *([last[:3]] if image.channels == 1 else [])]
    fitting = [candidate for candidate in candidates if shape is None or _is_shape_possible(candidate, shape)]
    either = form in FRAMEWORK_FORMATS and {last, first}.issubset(fitting)
    if image.layout is None and (either or (fitting[:1] == [first] != [last] and not image.is_channels_first(first))):
        raise ImportModelError(
            f"The input {name!r} is {format_shape(shape)}, so its images may have their channels first or last: add "
            '`layout = "channels_first"` or `layout = "channels_last"` under [image].'
        )
    if fitting:
        return fitting[0]
    raise ImportModelError(
        f"[image] says {image.width} x {image.height} pixels in {image.mode} ({image.channels} "
        f"channel{'s' if image.channels > 1 else ''}) in batches of {batch}, which is "
        f"{' or '.join(str(list(one)) for one in full)}, but the model's input {name!r} is {format_shape(shape)}. "
        f"{_suggest_remedy(shape, batch, image)}"
    )


def _pin_audio(name: str, shape: OpenShape | None, batch: int, audio: AudioSpec) -> Shape:
    for candidate in sound_shapes(batch, audio.length):
        if shape is None or _is_shape_possible(candidate, shape):
            return candidate
    right = "Set length under [audio], and batch under [model], to what it takes."
    raise ImportModelError(
        f"[audio] says {audio.length:,} samples in batches of {batch}, which is {[batch, audio.length]}, but the "
        f"model's input {name!r} is {format_shape(shape)}. {right}"
    )


def _suggest_remedy(shape: OpenShape | None, batch: int, image: ImageSpec) -> str:
    size = read_image_size(shape)
    if shape is not None and size is not None:
        height, width, channels = size
        wanted = f"width = {width or image.width}, height = {height or image.height}"
        mode = {1: ', mode = "grey"', 3: ', mode = "rgb"'}[channels]
        fixed = f"; batch = {shape[0]} under [model]" if shape[0] not in (None, batch) else ""
        return f"Set {wanted}{mode} under [image]{fixed}."
    return "Change [image] to what the model was trained on."


def _is_shape_possible(chosen: Shape, shape: OpenShape) -> bool:
    return len(chosen) == len(shape) and all(d is None or d == c for c, d in zip(chosen, shape, strict=True))
