"""The CompilationResultProto that tfcompile writes into graph_metadata.o."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from builder.base.errors import CompileError
from builder.compiler.xla.descriptors import load_result_class


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
