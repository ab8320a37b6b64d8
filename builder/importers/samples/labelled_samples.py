"""A user's images, recordings and texts, perhaps in a folder for each label, as the function decodes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.base.errors import UsageError
from builder.config import AudioSpec, ImageSpec, ModelSpec, OutputSpec
from builder.config.tensor import TensorSpec
from builder.importers.samples.golden_inputs import make_text_feeds

_IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"}

_TYPES = {0: "u1", 1: "<i2", 3: "<i4", 4: "<f4", 5: "<f8"}
"""NumPy's names of ``cf_pcm`` in runtime/audio/audio.h, except for 24 bits, for which it has no name."""
_S24 = 2


def read_labelled_images(
    folder: Path, spec: ModelSpec, most: int | None = None
) -> tuple[Array, NDArray[np.int64] | None, str]:
    """Return the images in ``folder``, or in its folders, whose names are labels: uint8 [n, height, width, channels].

    The classes and the name of the output with these labels follow, if there are labels. ``most``: the largest number,
    evenly from all. Raises UsageError if there are no images, or if a folder's name is not a label.
    """
    assert spec.image is not None
    files, labels, output = _list_labelled_files(folder, spec, _IMAGES, "images")
    if most is not None and len(files) > most:
        indices = [int(i) for i in np.linspace(0, len(files) - 1, most)]
        files, labels = [files[i] for i in indices], None if labels is None else labels[indices]
    return np.stack([decode_image(file.read_bytes(), spec.image, str(file)) for file in files]), labels, output


def decode_image(data: bytes, image: ImageSpec, where: str = "an image") -> Array:
    """Decode the image file ``data`` as the function does: uint8 [height, width, channels]; ``where`` names it.

    Raises UsageError if it cannot be decoded.
    """
    from handler.budget import RequestLimits
    from handler.description import ImageInput
    from handler.errors import HandlerError
    from handler.image import read_pixels

    target = ImageInput(**{name: getattr(image, name) for name in ImageInput._fields})._replace(feed=image.feed or "")
    try:
        pixels = read_pixels(data, where, target, RequestLimits())
    except HandlerError as error:
        raise UsageError(f"{error.message}.") from error
    return np.frombuffer(pixels, np.uint8).reshape(image.height, image.width, image.channels)


def read_labelled_recordings(folder: Path, spec: ModelSpec) -> tuple[Array, NDArray[np.int64] | None, str]:
    """Return the windows of the WAV files in ``folder``, or in its folders, named by label: float32 [n, length].

    The classes and the name of the output with these labels follow, if there are labels. The files must have the
    model's rate, since the library, which resamples, is not built yet. Raises UsageError for other files, if there are
    none, and if a folder's name is not a label.
    """
    assert spec.audio is not None
    files, classes, output = _list_labelled_files(folder, spec, {".wav"}, "WAV files")
    recordings = [_read_windows(file, spec.audio) for file in files]
    labels = None if classes is None else np.repeat(classes, [len(windows) for windows in recordings])
    return np.concatenate(recordings), labels, output


def _read_windows(path: Path, audio: AudioSpec) -> Array:
    """Return the windows, float32 [count, length]; the last one is filled up with zeros."""
    from handler.audio import count_windows
    from handler.description import AudioInput

    samples = _read_mono(path, audio.rate)
    target = AudioInput(audio.feed or "", audio.rate, audio.length, audio.step)
    count = count_windows(len(samples), target)
    padded = np.pad(samples, (0, audio.length))
    return np.stack([padded[at : at + audio.length] for at in range(0, count * audio.step, audio.step)])


def _read_mono(path: Path, rate: int) -> NDArray[np.float32]:
    """Return the mean of all channels, -1 to 1."""
    from handler.audio import read_audio_header
    from handler.errors import HandlerError

    try:
        header = read_audio_header(path.read_bytes())
    except HandlerError as error:
        raise UsageError(f"{path} {error.message}.") from error
    if header.kind is None or header.rate != rate or not header.frames:
        raise UsageError(
            f"{path} is a {header.format} file of {header.frames:,} samples at {header.rate:,} Hz; samples must be WAV "
            f"files at the model's own rate, {rate:,} Hz: convert it, as with `ffmpeg -i IN -ar {rate} OUT.wav`."
        )
    if header.kind == _S24:
        wide = np.zeros((header.frames * header.channels, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(header.samples, np.uint8).reshape(-1, 3)
        values = wide.view("<i4") / 2.0**31
    else:
        values = np.frombuffer(header.samples, _TYPES[header.kind])
        if values.dtype.kind == "u":
            values = values.astype(np.float64) / 128 - 1
        elif values.dtype.kind == "i":
            values = values / 2.0 ** (8 * values.dtype.itemsize - 1)
    return np.asarray(values.reshape(-1, header.channels).mean(axis=1, dtype=np.float64).astype(np.float32))


def read_labelled_texts(
    path: Path, spec: ModelSpec, feeds: Sequence[TensorSpec]
) -> tuple[dict[str, Array], NDArray[np.int64] | None, str]:
    """Return the feeds of texts by name, [n, length]; a text is a line of a file, or a file in a folder or its folders.

    Names of folders in it are labels. The classes and the name of the output with these labels follow, if there are
    labels. A tab is between the texts of a pair. Raises UsageError if there are no texts, if one is not UTF-8 or no
    pair, and if a folder's name is not a label.
    """
    assert spec.text is not None
    classes, output = None, ""
    if path.is_dir():
        files, classes, output = _list_labelled_files(path, spec, {".txt"}, "text files")
        texts = [_read_text(file).strip() for file in files]
    else:
        texts = [line for line in _read_text(path).splitlines() if line.strip()]
    if not texts:
        raise UsageError(f"{path} has no text.")
    items = [tuple(text.split("\t")) if spec.text.pairs else (text,) for text in texts]
    if wrong := [item for item in items if len(item) != 1 + spec.text.pairs]:
        raise UsageError(f"{path}: {wrong[0][0][:60]!r} is no pair: write a tab between its two texts.")
    return make_text_feeds(items, spec.text, feeds), classes, output


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text.") from None


def _list_labelled_files(
    folder: Path, spec: ModelSpec, suffixes: Collection[str], what: str
) -> tuple[list[Path], NDArray[np.int64] | None, str]:
    """Return the files in a folder, without labels, or in its folders, with the classes of the folders' names.

    The last value is the name of the output with these labels. ``suffixes``: of the files, in lower case. ``what``
    names them. Raises UsageError if there are no files, or if a folder's name is not a label.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder.")
    if loose := _list_folder(folder, suffixes):
        return loose, None, ""
    folders = [inner for inner in sorted(folder.iterdir()) if inner.is_dir()]
    labelled = [(file, inner.name) for inner in folders for file in _list_folder(inner, suffixes)]
    if not labelled:
        raise UsageError(f"{folder} has no {what} ({', '.join(sorted(suffixes))}), and neither have its folders.")
    output = find_labelled_output(spec, {name for _, name in labelled})
    classes = [_find_class(name, output, folder) for _, name in labelled]
    return [file for file, _ in labelled], np.array(classes, np.int64), output.name


def _list_folder(folder: Path, suffixes: Collection[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes and path.is_file())


def find_labelled_output(spec: ModelSpec, names: set[str] | None = None) -> OutputSpec:
    """Return the classification with the labels; if there are several, the first that has all ``names``."""
    outputs = [output for output in spec.outputs if output.kind == "classification"]
    if not outputs:
        raise UsageError(
            f"{spec.name} has no classification, so there is nothing to compare labels with: give inputs without "
            "labels."
        )
    return next((o for o in outputs if names and names <= set(o.labels)), outputs[0])


def _find_class(name: str, output: OutputSpec, folder: Path) -> int:
    if name in output.labels:
        return output.labels.index(name)
    if not output.labels and name.isdecimal():
        return int(name)
    labels = ", ".join(output.labels) or "the numbers of its classes"
    raise UsageError(f"{folder / name} is not a label of the output {output.name}; its labels are {labels}.")
