"""The CompilationResultProto that tfcompile writes into graph_metadata.o, and its schema.

The TensorFlow wheel ships no ``thunk_pb2``, but protoc embeds every FileDescriptorProto as a serialized string in the
shared libraries. Reading it from there gives the schema of exactly this TensorFlow, where hand-copied field numbers
would drift with upstream.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from builder.base.commands import setup_command
from builder.base.errors import CompileError, EnvironmentSetupError
from builder.base.files import write_file

ROOT_FILE = "xla/service/cpu/executable.proto"
ROOT_MESSAGE = "xla.cpu.CompilationResultProto"
LIBRARIES = ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2")

# The top-level fields of FileDescriptorProto (descriptor.proto) and their wire types. Any other field means that the
# bytes are not a descriptor, or that it has ended.
_FIELDS = {1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 2, 9: 2, 10: 0, 11: 0, 12: 2, 14: 0, 15: 2}
_LONGEST = 1 << 22


def read_tensorflow_version() -> str:
    """Return the installed TensorFlow's version, without importing it."""
    for name in ("tensorflow-cpu", "tensorflow"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise EnvironmentSetupError(f"TensorFlow is not installed here; run `{setup_command()}`.")


def load_result_class(cache: Path) -> Any:
    """Load the message class of CompilationResultProto, with its schema kept in ``cache`` per TensorFlow version.

    Raises EnvironmentSetupError when the schema is not in this wheel.
    """
    cached = cache / f"xla-{read_tensorflow_version()}.fds"
    if not cached.exists():
        write_file(cached, _recover_schema().SerializeToString())
    files = descriptor_pb2.FileDescriptorSet.FromString(cached.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for name in ("any", "timestamp", "duration", "struct", "wrappers", "descriptor", "empty"):
        module = importlib.import_module(f"google.protobuf.{name}_pb2")
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(ROOT_MESSAGE))


def _recover_schema() -> descriptor_pb2.FileDescriptorSet:
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise EnvironmentSetupError(f"TensorFlow is not installed here; run `{setup_command()}`.")
    images = []
    for library in LIBRARIES:
        with (Path(spec.origin).parent / library).open("rb") as file:
            images.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    schemas: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    _add_schema(ROOT_FILE, images, schemas)
    result = descriptor_pb2.FileDescriptorSet()
    result.file.extend(schemas.values())
    return result


def _add_schema(name: str, images: list[mmap.mmap], schemas: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    """Add ``name`` to ``schemas`` after everything that it imports, which is the order that a descriptor pool needs."""
    if name in schemas or name.startswith("google/protobuf/"):
        return
    key = bytes([0x0A, len(name)]) + name.encode()
    for image in images:
        for position in _find_occurrences(image, key):
            file = _parse_descriptor(image, position)
            if file is not None and file.name == name:
                for dependency in file.dependency:
                    _add_schema(dependency, images, schemas)
                schemas[name] = file
                return
    raise EnvironmentSetupError(
        f"TensorFlow {read_tensorflow_version()} does not contain the schema {name}; "
        f"coldforge needs the TensorFlow version in requirements/build.txt (run `{setup_command()}`)."
    )


def _find_occurrences(image: mmap.mmap, key: bytes) -> Iterator[int]:
    position = image.find(key)
    while position >= 0:
        yield position
        position = image.find(key, position + 1)


def _parse_descriptor(image: mmap.mmap, start: int) -> descriptor_pb2.FileDescriptorProto | None:
    """Return the descriptor that begins at ``start``, or None; it ends before the first field that it cannot have."""
    end = start
    while end - start < _LONGEST:
        tag, after_tag = _read_varint(image, end)
        field = tag >> 3
        if _FIELDS.get(field) != tag & 7 or (field == 1 and end > start):
            break
        value, end = _read_varint(image, after_tag)
        if tag & 7 == 2:
            end += value
    file = descriptor_pb2.FileDescriptorProto()
    try:
        file.ParseFromString(image[start:end])
    except Exception:  # DecodeError's class differs between protobuf backends
        return None
    return file if file.message_type or file.enum_type else None


def _read_varint(image: mmap.mmap, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(image):
        byte = image[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 63:
            break
        shift += 7
    return value, position


def read_result(metadata: Path, cache: Path) -> Any:
    """Read the xla.cpu.CompilationResultProto of a ``graph_metadata.o``.

    It holds the thunk sequence, the buffer assignment and the HLO module with every constant.
    ``cache`` keeps the recovered protobuf schema. Raises CompileError if the object holds no such message.
    """
    result = load_result_class(cache)()
    try:
        payload = _read_symbol(metadata, "CompilationResult")
        result.ParseFromString(payload)
    except (ELFError, StopIteration, ValueError) as error:
        raise CompileError(
            f"{metadata.name} holds no readable CompilationResultProto ({error}); "
            "delete the build folder and build again."
        ) from error
    return result


def _read_symbol(path: Path, part_of_name: str) -> bytes:
    """Read the bytes of the defined symbol whose name contains ``part_of_name``."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        symbols = elf.get_section_by_name(".symtab")
        if not isinstance(symbols, SymbolTableSection):
            raise ValueError("no symbol table")
        symbol = next(
            s
            for s in symbols.iter_symbols()
            if part_of_name in s.name and s["st_size"] and s["st_shndx"] != "SHN_UNDEF"
        )
        start: int = symbol["st_value"]
        data: bytes = elf.get_section(symbol["st_shndx"]).data()[start : start + symbol["st_size"]]
        return data
