"""The files beside an .onnx file are found in it, wherever a tensor may be, and only below its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.base.errors import ImportModelError
from builder.config import Source
from builder.importers.onnx_data import list_source_files


def field(number: int, content: bytes | str) -> bytes:
    """Encode a field of a protobuf message that holds text, bytes or another message."""
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def tensor(location: str) -> bytes:
    """Encode a tensor of 200 float32, with its name, whose data is 8 bytes into a file."""
    entries = [field(13, field(1, key) + field(2, value)) for key, value in (("location", location), ("offset", "8"))]
    return bytes([8, 0xC8, 1, 16, 1]) + field(8, "weight" * 40) + b"".join(entries) + bytes([0x70, 1])


NODE = field(5, field(1, "value") + field(5, tensor("weights.bin")))
PLACES = {
    "a weight": field(7, field(5, tensor("weights.bin"))),
    "a constant": field(7, field(1, field(4, "Constant") + NODE)),
    "a constant in a branch": field(7, field(1, field(5, field(6, field(1, NODE))))),
    "a function": field(25, field(1, "f") + field(7, NODE)),
}


def list_files(folder: Path, model: bytes, form: str = "onnx") -> list[str]:
    (folder / "model.onnx").write_bytes(bytes([8, 10]) + model)
    source = Source(form, folder / "model.onnx")  # type: ignore[arg-type]
    return [path.name for path in list_source_files(source, folder / "model.onnx")]


@pytest.mark.parametrize("place", PLACES)
def test_files_are_found_at_each_place_of_a_tensor(place: str, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"")
    assert list_files(tmp_path, PLACES[place] * 2) == ["model.onnx", "weights.bin"]
    assert list_files(tmp_path, PLACES[place], "tflite") == ["model.onnx"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match=r'"weights.bin", which is not beside it'):
        list_files(tmp_path, PLACES["a weight"])


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "link", "a\nb"])
def test_a_file_elsewhere_is_refused(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ImportModelError, match="outside of its own folder"):
        list_files(folder, field(7, field(5, tensor(location))))


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_broken_file_is_left_to_its_own_reader(cut: int, tmp_path: Path) -> None:
    model = field(7, field(5, tensor("x" * 9)))
    assert list_files(tmp_path, b"\xff" * 20 + model[:cut]) == ["model.onnx"]
    assert list_files(tmp_path, model[: -len(model) + cut]) == ["model.onnx"]
