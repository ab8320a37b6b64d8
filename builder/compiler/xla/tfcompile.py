"""The compilation of a frozen graph with the tfcompile inside the TensorFlow wheel.

No other module calls TensorFlow's private compiler. It runs in a process of its own, in the sandbox: flags are read
once per process, a crash of the compiler becomes an error with a message, and its stderr can be kept apart.

XLA refuses a custom call to a name that is not registered. Its registry (xla/service/custom_call_target_registry.h) has
no name in Python, but TensorFlow's library exports it. XLA never makes the call: it becomes a thunk, which ``lower``
turns into a step.
"""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from builder.base.commands import setup_command
from builder.base.errors import CompileError, EnvironmentSetupError
from builder.base.files import Say, show_nothing
from builder.base.sandbox import Sandbox
from builder.base.sandbox.process_output import find_last_words, signal_name
from builder.base.targets import Target
from builder.base.tf import IR_FLAGS, XLA_FLAGS
from builder.compiler.xla.constants_file import skip_constants
from builder.importers.graph import FrozenGraph
from builder.importers.rewrites.custom_steps import STEPS

ENTRY_POINT = "coldforge_graph"
"""The prefix of every symbol in graph.o: it is fixed, so that the objects are the same wherever they are built."""

_ONLY_THE_HEADER = re.compile(r"Unsupported thunk type: [\w-]+\.|3D convolution is not implemented\.")
"""The errors of tfcompile where it cannot write graph.h, C++ that is not used here. XLA has compiled the graph by
then, and both objects are written (tensorflow/compiler/aot/thunk_proto_execution_deserializer.cc)."""


@dataclass(frozen=True)
class CompiledGraph:
    """The result of tfcompile for one target: kernels in ``graph.o``, and their metadata in ``graph_metadata.o``."""

    folder: Path
    target: Target
    flags: str  # the effective XLA_FLAGS
    tensorflow: str  # version
    seconds: float

    @property
    def kernels_path(self) -> Path:
        """Path of the kernels."""
        return self.folder / "graph.o"

    @property
    def metadata_path(self) -> Path:
        """Path of the kernels' metadata."""
        return self.folder / "graph_metadata.o"

    @property
    def ir_paths(self) -> tuple[Path, ...]:
        """The kernels as LLVM IR for ``target.xla``, not yet optimised; empty for targets that XLA compiles for."""
        return tuple(sorted(self.folder.glob("graph*.ll")))

    def save(self) -> None:
        """Write the facts that are not in the objects into their folder, for ``load``."""
        facts = {"flags": self.flags, "tensorflow": self.tensorflow, "seconds": round(self.seconds, 3)}
        (self.folder / "compile.json").write_text(json.dumps(facts, indent=1))

    @classmethod
    def load(cls, folder: Path, target: Target) -> CompiledGraph:
        """Load what ``compile_graph`` wrote into ``folder``."""
        return cls(folder, target, **json.loads((folder / "compile.json").read_text()))


def make_xla_flags(target: Target) -> str:
    """Return the XLA_FLAGS of a compilation for ``target``."""
    return IR_FLAGS if target.xla.leaves_ir else XLA_FLAGS


def compile_graph(
    graph: FrozenGraph,
    target: Target,
    folder: Path,
    part: str = "",
    sandbox: Sandbox | None = None,
    detail: Say = show_nothing,
) -> CompiledGraph:
    """Compile ``graph`` for ``target`` into ``folder``, in ``sandbox`` (this machine's when None); 0.1 to 20 s.

    ``part``: a part of every symbol's name, different for each graph whose kernels are in one library.
    ``detail`` receives what XLA prints. The same graph gives the same kernels, byte for byte, and metadata that differs
    in the order of maps at most. Raises CompileError with the compiler's own reason, and as ``Sandbox.run`` does.
    """
    from builder.compiler.xla.compilation_result import read_tensorflow_version

    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    done = (sandbox or Sandbox.from_machine()).run(
        run_tfcompile,
        graph.folder.resolve(),
        target,
        part,
        folder=folder,
        reads=[graph.folder],
        failed=lambda code, said: CompileError(explain_failure(code, said)),
    )
    detail(done.output)
    result = CompiledGraph(
        folder, target, make_xla_flags(target), read_tensorflow_version(), time.monotonic() - started
    )
    if not result.kernels_path.exists() or not result.metadata_path.exists():
        raise CompileError(explain_failure(0, done.output))
    if target.xla.leaves_ir and not result.ir_paths:
        raise CompileError(f"XLA wrote no LLVM IR. coldforge needs the TensorFlow that `{setup_command()}` installs.")
    for leftover in ("graph.h", "graph_constants.o"):
        (folder / leftover).unlink(missing_ok=True)
    result.save()
    return result


def explain_failure(code: int, stderr: str) -> str:
    """Return the message for a compiler process that ended with ``code``, from the lines of ``stderr`` that matter."""
    if code < 0:
        head = f"XLA's compiler crashed ({signal_name(code)})."
        if signal_name(code) == "SIGKILL":
            head += " It was killed from outside, which usually means that memory ran out."
    else:
        head = "XLA cannot compile this graph:"
    return f"{head}\n{find_last_words(code, stderr)}"


def run_tfcompile(graph: Path, target: Target, part: str = "") -> None:
    """Compile the graph in the folder ``graph`` into the current folder, in this process.

    Steps that tfcompile's own runtime lacks raise nothing here: ``lower`` decides which are supported. Raises
    RuntimeError, and what else TensorFlow raises, with the compiler's reason.
    """
    xla = target.xla
    from builder.base.tf import import_tensorflow

    import_tensorflow(leave_ir=xla.leaves_ir)
    from tensorflow.python import _pywrap_tfcompile

    register_steps(STEPS)
    try:
        with skip_constants(find_library(), xla.triple):
            _pywrap_tfcompile.Compile(
                graph=str(graph / "graph.pb"),
                config=str(graph / "config.pbtxt"),
                cpp_class=f"coldforge::Graph{part}",
                target_triple=xla.triple,
                target_cpu=xla.cpu,
                target_features="",
                entry_point=f"{ENTRY_POINT}{part}",
                out_function_object="graph.o",
                out_metadata_object="graph_metadata.o",
                out_header="graph.h",
                out_constant_buffers_object="graph_constants.o",
                gen_name_to_index=False,
                gen_program_shape=False,
            )
    except RuntimeError as error:
        objects = (Path("graph.o"), Path("graph_metadata.o"))
        if not _ONLY_THE_HEADER.fullmatch(str(error)) or not all(path.exists() for path in objects):
            raise
    if xla.leaves_ir:
        # There is one file for each part that XLA compiles on its own; the other files are for debugging XLA.
        for number, path in enumerate(sorted(Path("ir").glob("*.ir-no-opt.ll"))):
            path.replace(f"graph{number}.ll")
        shutil.rmtree("ir")


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
    try:
        library = ctypes.CDLL(str(find_library()))
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


def find_library() -> Path:
    """Return the path of TensorFlow's library, which contains tfcompile."""
    import tensorflow

    return Path(tensorflow.__file__).parent / "libtensorflow_cc.so.2"
