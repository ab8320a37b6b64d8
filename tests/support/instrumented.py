"""Libraries whose C gcc has instrumented: to find races and wrong accesses, or to count what is run.

``link`` links a test's library as the builder does, unless ``OBJECTS`` names a folder of instrumented objects. So the
same tests run once more on those: ``run_tests`` does that in a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from builder.base.project import RUNTIME, cache_folder
from builder.base.targets import X86_64
from builder.compiler.emit import GeneratedSources
from builder.compiler.link.shared_library import (
    AUDIO_SOURCES,
    BASELINE_SOURCES,
    KERNEL_SOURCES,
    TABLE_SOURCES,
    audio_flags,
    format_exports_map,
    format_kernel_table,
    link_library,
    list_public_names,
)
from builder.compiler.weights_file import FILE
from tests.support.fused import HAS

OBJECTS = "COLDFORGE_TEST_OBJECTS"
"""Names the folder of ``compile_objects``."""

DECODERS = "libaudio.so"
"""In that folder: what recordings are read with."""

VARIANTS = {"CF_DYNAMIC": "dynamic.c", "CF_PARTS": "parts.c"}
"""Macros with which the ABI is another, and the further file that it has then. The folder has one of each name."""

ROOT = Path(__file__).parents[2]
CACHE = cache_folder() / "zig"

BASE = ("-std=c11", "-g", "-march=x86-64-v3", "-fPIC", "-Wall", "-Wextra", "-Werror", "-DCF_STACK=(8 << 20)")
ADDRESS = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
THREAD = ("-O0", "-fsanitize=thread", "-Wno-tsan")  # which speaks of fences that are not modelled

_V3 = X86_64.levels[0]
_LEVELS = tuple(replace(level, fused=_V3.fused, integer=_V3.integer) for level in X86_64.levels)
_TARGET = replace(X86_64, levels=_LEVELS)
"""One copy of the kernels, whatever the processor: sanitizers have no more to say of the others."""


def compile_objects(folder: Path, flags: Sequence[str], *, kernels: bool = True) -> None:
    """Into ``folder``, all of a library that is the same for every model, compiled with ``flags``.

    ``kernels``: the kernels as well, which take most of the time. Without, they are as gcc makes them.
    """
    sources = folder / "sources"
    sources.mkdir(parents=True)
    texts = {f"{table}_tables.c": format_kernel_table(_TARGET, table) for table in TABLE_SOURCES}
    for name, text in texts.items():
        (sources / name).write_text(text)
    names = ("abi/model.c", "abi/weights.c", "abi/cascade.c", "platform/cpu_x86_64.c", *BASELINE_SOURCES)
    _compile([*flags], [*(sources / name for name in texts), *(RUNTIME / name for name in names)], folder)
    for macro, further in VARIANTS.items():
        (folder / macro).mkdir()
        _compile([*flags, f"-D{macro}"], [RUNTIME / "abi" / name for name in ("model.c", further)], folder / macro)
    own = [*flags] if kernels else ["-O0"]
    _compile(own, [RUNTIME / name for name in KERNEL_SOURCES], folder)
    for table, source in TABLE_SOURCES.items():
        (copy,) = _TARGET.list_copies(table)
        _compile(
            [*own, f"-DCF_TABLE={copy.table}", *HAS, "-o", f"{copy.table}.o"],
            [RUNTIME / source],
            folder,
        )
    (folder / "flags.json").write_text(json.dumps(list(flags)))


def compile_decoders(folder: Path, flags: Sequence[str]) -> None:
    """Into ``folder``, what a model that takes sound has besides, as a library of its own."""
    sources = [str(RUNTIME / name) for name in AUDIO_SOURCES]
    # Without -O1, gcc keeps all of miniaudio, of which a part has no definition here. The rest makes it half as slow.
    own = [*flags, "-O1", "-fno-inline", "-g1", *audio_flags(cache_folder())]
    _gcc([*own, "-shared", *sources, "-lm", "-o", str(folder / DECODERS)], folder)


def link(sources: GeneratedSources, kernels: Sequence[Path], folder: Path) -> Path:
    """``libmodel.so`` in ``folder``, of XLA's object files ``kernels`` and all else that a library has."""
    if OBJECTS not in os.environ:
        return link_library(sources, kernels, X86_64, folder, CACHE).path
    objects = Path(os.environ[OBJECTS])
    exports, library = folder / "exports.map", folder / "libmodel.so"
    exports.write_text(format_exports_map(list_public_names(sources)))
    inside = [str(sources.folder / "weights.S")]
    if sources.outside:
        shutil.copy(sources.outside, folder / FILE)
    parts = {path.name: path for path in sorted(objects.glob("*.o"))}
    for flag in sources.flags:  # no test has several
        parts |= {path.name: path for path in (objects / flag.removeprefix("-D")).glob("*.o")}
    if not sources.outside:
        del parts["weights.o"]
    used = [str(path.resolve()) for path in (*sources.programs, *parts.values(), *kernels)]
    flags = [*sources.flags, *json.loads((objects / "flags.json").read_text()), "-shared", "-Wl,-z,nodelete"]
    flags += [f"-Wl,--version-script={exports}", *([] if sources.outside else inside)]
    _gcc([*flags, *used, "-lm", "-lpthread", "-o", str(library.resolve())], sources.folder)
    return library


def _compile(flags: Sequence[str], sources: Sequence[Path], folder: Path) -> None:
    _gcc([*flags, "-c", *map(str, sources)], folder)


def _gcc(arguments: Sequence[str], folder: Path) -> None:
    command = ["gcc", *BASE, f"-I{RUNTIME}", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def flags() -> list[str]:
    """Of this run's objects; none where the libraries are the builder's own."""
    found = os.environ.get(OBJECTS)
    return [*BASE, *json.loads((Path(found) / "flags.json").read_text())] if found else []


def preloaded(library: str) -> dict[str, str]:
    """What a Python needs that loads instrumented libraries: gcc's ``library`` before any other."""
    found = subprocess.run(["gcc", f"-print-file-name={library}"], capture_output=True, text=True, check=True)
    return {"LD_PRELOAD": str(Path(found.stdout.strip()).resolve())}


def run_tests(objects: Path, arguments: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """pytest with ``arguments`` on libraries of the ``objects``, in a process of its own."""
    options = ["-q", "-s", "-p", "no:cacheprovider"]
    command = [*_without_randomisation(), sys.executable, "-m", "pytest", *options, *arguments]
    own = os.environ | {OBJECTS: str(objects)} | environment
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=False)


def _without_randomisation() -> list[str]:
    """Of addresses: older sanitizers refuse layouts that newer kernels give."""
    command = ["setarch", "--addr-no-randomize"]
    allowed = shutil.which(command[0]) and not subprocess.run([*command, "true"], check=False).returncode
    return command if allowed else []
