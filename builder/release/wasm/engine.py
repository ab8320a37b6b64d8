"""A compiled module in wasmtime: the C ABI of model.h, called through the module's memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.base.errors import VerifyError


class WasmTrap(VerifyError):
    """The module asked the engine to stop it: an access outside its memory, a stack overflow, an impossible cast."""


@dataclass(frozen=True)
class WasmSlot:
    """A cf_feed or cf_fetch: ``size`` bytes at ``address``."""

    address: int
    size: int


class WasmInstance:
    """One instance of the module at a path. Addresses are offsets into its memory.

    Raises VerifyError when the engine refuses it, or it imports anything from its host.
    """

    def __init__(self, path: Path) -> None:
        import wasmtime

        self._wasmtime: Any = wasmtime
        engine = wasmtime.Engine()
        try:
            module = wasmtime.Module.from_file(engine, str(path))
        except wasmtime.WasmtimeError as error:
            raise VerifyError(f"{path.name} cannot be loaded: {error}") from error
        if imports := [f"{i.module}.{i.name}" for i in module.imports]:
            raise VerifyError(f"{path.name} imports {', '.join(imports)}; it must import nothing.")
        self._store: Any = wasmtime.Store(engine)
        self._exports: Any = wasmtime.Instance(self._store, module, []).exports(self._store)

    def call_function(self, name: str, *arguments: int) -> int:
        """Call the exported function ``name``; return 0 for a function without a result. Raises WasmTrap."""
        try:
            return int(self._exports[name](self._store, *arguments) or 0)
        except (self._wasmtime.Trap, self._wasmtime.WasmtimeError) as error:
            raise WasmTrap(f"{name} trapped: {str(error).splitlines()[0]}") from error

    def write(self, address: int, data: bytes) -> None:
        self._exports["memory"].write(self._store, data, address)

    def read(self, address: int, size: int) -> bytes:
        return bytes(self._exports["memory"].read(self._store, address, address + size))

    def read_string(self, address: int) -> str:
        """Return the string that ends with a zero at ``address``."""
        parts = bytearray()
        while b"\0" not in parts:
            end = min(address + len(parts) + 4096, int(self._exports["memory"].data_len(self._store)))
            parts += self.read(address + len(parts), end - address - len(parts))
        return bytes(parts[: parts.index(b"\0")]).decode()

    def allocate_bytes(self, size: int) -> int:
        address = self.call_function("cf_alloc", size)
        if not address:
            raise VerifyError(f"the module could not allocate {size:,} bytes")
        return address

    def read_description(self) -> str:
        return self.read_string(self.call_function("cf_describe"))

    def open_model(self) -> int:
        """Open the model and return its address. Raises VerifyError when it cannot be opened."""
        pointer = self.allocate_bytes(4)
        status = self.call_function("cf_open", 0, pointer)
        (model,) = struct.unpack("<I", self.read(pointer, 4))
        self.call_function("cf_free", pointer)
        if status or not model:
            raise VerifyError(
                f"cf_open failed with status {status}: {self.read_string(self.call_function('cf_last_error', 0))}"
            )
        return int(model)

    def write_slots(self, slots: Sequence[WasmSlot]) -> int:
        """Write an array of cf_feed or cf_fetch into the module's memory, to be freed, and return its address."""
        address = self.allocate_bytes(8 * max(1, len(slots)))
        self.write(address, b"".join(struct.pack("<II", s.address, s.size) for s in slots))
        return address
