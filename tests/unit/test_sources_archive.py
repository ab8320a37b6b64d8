"""Archives of models: what is in them is written within the folder, or refused."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.base.errors import ImportModelError
from builder.sources.archive import choose_model, find_models, list_names, unpack_archive
from builder.sources.transfer import Bounds


def tar(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz", form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def plain(name: str, data: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), data


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def zipped(members: dict[str, bytes], mode: int = 0, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, method
            archive.writestr(info, data)
    return buffer.getvalue()


def unpacked(folder: Path, data: bytes) -> dict[str, bytes]:
    """What is written for the archive ``data``, by name; nothing else is anywhere below ``folder``."""
    (folder / "a").write_bytes(data)
    (folder / "into").mkdir()
    try:
        unpack_archive(folder / "a", folder / "into", "the archive", Bounds(bytes=1_000_000, files=10))
    finally:
        assert sorted(path.name for path in folder.iterdir()) == ["a", "into"]
        assert not any(path.is_symlink() for path in folder.rglob("*"))
    return {name: (folder / "into" / name).read_bytes() for name in list_names(folder / "into")}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar(tmp_path: Path, mode: str) -> None:
    folder = tarfile.TarInfo("./variables")
    folder.type = tarfile.DIRTYPE
    long = "n" * 150
    data = tar((folder, b""), plain("./saved_model.pb", b"graph"), plain(f"variables/{long}", bytes(70_000)), mode=mode)
    assert unpacked(tmp_path, data) == {"saved_model.pb": b"graph", f"variables/{long}": bytes(70_000)}


def test_a_zip(tmp_path: Path) -> None:
    assert unpacked(tmp_path, zipped({"a/": b"", "a/b": b"c", "d": b""})) == {"a/b": b"c", "d": b""}


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "absolute": (lambda: tar(plain("/etc/cron.d/x")), "leads elsewhere"),
    "parent": (lambda: tar(plain("a/../../x")), "leads elsewhere"),
    "backslash": (lambda: zipped({"a\\..\\x": b""}), "leads elsewhere"),
    "control": (lambda: tar(plain("a\x1b[2Jb")), "leads elsewhere"),
    "zip parent": (lambda: zipped({"../x": b""}), "leads elsewhere"),
    "long": (lambda: tar(plain("n" * 256)), "too long"),
    "deep": (lambda: tar(plain("/".join("n" * 33))), "too long"),
    "symbolic link": (lambda: tar(special("a", tarfile.SYMTYPE, "/etc")), "neither a folder nor a plain file"),
    "hard link": (lambda: tar(plain("b"), special("a", tarfile.LNKTYPE, "b")), "neither a folder nor a plain file"),
    "device": (lambda: tar(special("a", tarfile.CHRTYPE)), "neither a folder nor a plain file"),
    "pipe": (lambda: tar(special("a", tarfile.FIFOTYPE)), "neither a folder nor a plain file"),
    "zip link": (lambda: zipped({"a": b"/etc"}, stat.S_IFLNK | 0o777), "neither a folder nor a plain file"),
    "twice": (lambda: tar(plain("a"), plain("./a")), "two members called"),
    "file and folder": (lambda: tar(plain("a"), plain("a/b")), "a file and a folder"),
    "many": (lambda: tar(*(plain(f"f{i}") for i in range(50))), "more than 10 files"),
    "many folders": (lambda: zipped({f"d{i}/": b"" for i in range(50)}), "more than 10 files"),
    "large": (lambda: tar(plain("a", bytes(1_000_001))), "more than 1,000,000 bytes"),
    "large together": (lambda: zipped({str(i): bytes(300_000) for i in range(4)}), "more than 1,000,000 bytes"),
    "packed otherwise": (lambda: zipped({"a": b"x"}, method=zipfile.ZIP_LZMA), "not common"),
    "no archive": (lambda: b"no archive", "not an archive"),
    "empty": (lambda: b"", "not an archive"),
    "cut tar": (lambda: tar(plain("a", bytes(range(256)) * 99), mode="w")[:9000], "not a whole archive"),
    "cut gzip": (lambda: tar(plain("a", bytes(range(256)) * 99))[:-20], "not a whole archive"),
    "cut zip": (lambda: zipped({"a": b"x"})[:-10], "not a whole archive"),
    "no tar inside": (lambda: gzip.compress(b"x" * 2000), "not a whole archive"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(tmp_path: Path, name: str) -> None:
    make, why = REFUSED[name]
    with pytest.raises(ImportModelError, match=why) as caught:
        unpacked(tmp_path, make())
    assert "\x1b" not in str(caught.value)


def test_a_header_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    """Extended headers are read at once: what they may have is bounded, whatever the archive says."""
    head = tarfile.TarInfo("x")
    head.type, head.size = tarfile.XHDTYPE, 1 << 30
    data = gzip.compress(head.tobuf(tarfile.USTAR_FORMAT) + bytes(8 << 20))
    with pytest.raises(ImportModelError, match="headers are too large"):
        unpacked(tmp_path, data)


def test_a_zip_that_declares_a_directory_of_gigabytes(tmp_path: Path) -> None:
    data = bytearray(zipped({"a": b"x"}) + bytes(80 << 20))
    end = data.index(b"PK\x05\x06")
    size = 70 << 20
    record = bytearray(data[end : end + 22])
    record[12:16] = size.to_bytes(4, "little")
    record[16:20] = (len(data) - 22 - size - end).to_bytes(4, "little")
    with pytest.raises(ImportModelError, match="headers are too large"):
        unpacked(tmp_path, bytes(data[:-22]) + bytes(record))


class TestTheModel:
    def test_the_only_saved_model(self) -> None:
        names = ["readme", "top/m/saved_model.pb", "top/m/variables/x.h5", "top/m/assets/inner/saved_model.pb"]
        assert choose_model(names, None, "it") == "top/m"

    def test_the_archive_itself_is_one(self) -> None:
        assert choose_model(["saved_model.pb", "keras_metadata.pb"], None, "it") == "."

    def test_one_of_several(self) -> None:
        names = ["a/saved_model.pb", "b/saved_model.pb"]
        assert choose_model(names, "./b/", "it") == "b"
        with pytest.raises(ImportModelError, match="has 2 that may be meant; name one of them as `file`: a, b"):
            choose_model(names, None, "it")
        with pytest.raises(ImportModelError, match="no model c"):
            choose_model(names, "c", "it")

    def test_a_model_of_transformers(self) -> None:
        names = ["m/config.json", "m/model.safetensors", "m/2_Dense/config.json", "m/2_Dense/model.safetensors"]
        assert find_models([*names, "m/onnx/a.onnx"]) == {"m": "transformers", "m/onnx/a.onnx": "onnx"}
        assert choose_model([*names, "m/onnx/a.onnx"], None, "it") == "m"
        assert choose_model([*names, "m/tf/saved_model.pb"], None, "it") == "m/tf"

    def test_a_file(self) -> None:
        names = ["data/model.keras", "readme"]
        assert choose_model(names, None, "it") == "data/model.keras"
        assert choose_model(names, "data/model.keras", "it") == "data/model.keras"
        with pytest.raises(ImportModelError, match=r"Did you mean data/model\.keras"):
            choose_model(names, "model.keras", "it")

    def test_none(self) -> None:
        with pytest.raises(ImportModelError, match="has no model in it"):
            choose_model(["readme"], None, "it")
