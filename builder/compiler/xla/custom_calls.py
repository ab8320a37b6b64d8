"""The registration of coldforge's own steps as custom calls that XLA compiles.

XLA refuses a call to a name that is not registered. Its registry (xla/service/custom_call_target_registry.h) has no
name in Python, but TensorFlow's library exports it. XLA never makes the call: it becomes a thunk, which ``lower`` turns
into a step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path

from builder.base.commands import setup_command
from builder.base.errors import EnvironmentSetupError

_GLOBAL = "_ZN3xla24CustomCallTargetRegistry6GlobalEv"
_REGISTER = "_ZN3xla24CustomCallTargetRegistry8RegisterERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPvS8_"
_ADDRESS = 1
"""An address of no function. It is always the same, as XLA ends a process that registers two under one name."""


class _StdString(ctypes.Structure):
    """libstdc++'s std::string, over bytes that it does not own."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t), ("local", ctypes.c_char * 16))

    @classmethod
    def from_text(cls, text: str) -> _StdString:
        data = text.encode()
        return cls(data, len(data), b"")


def register_steps(names: Iterable[str]) -> None:
    """Let XLA compile custom calls to ``names`` in this process. Raises EnvironmentSetupError."""
    import tensorflow

    try:
        library = ctypes.CDLL(str(Path(tensorflow.__file__).parent / "libtensorflow_cc.so.2"))
        registry, register = library[_GLOBAL], library[_REGISTER]
    except (OSError, AttributeError) as error:
        raise EnvironmentSetupError(
            f"This TensorFlow's library does not have XLA's custom calls; run `{setup_command()}`."
        ) from error
    registry.restype, registry.argtypes = ctypes.c_void_p, ()
    register.restype = None
    register.argtypes = (ctypes.c_void_p, ctypes.POINTER(_StdString), ctypes.c_void_p, ctypes.POINTER(_StdString))
    for name in names:
        register(registry(), _StdString.from_text(name), _ADDRESS, _StdString.from_text("Host"))
