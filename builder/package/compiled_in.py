"""The parts that are compiled into libmodel.so: coldforge's runtime, XLA, Eigen and the compiler's own library.

Their versions and licences are those of the packages that they come from: TensorFlow's wheel and zig's.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from pathlib import Path

from builder import __version__
from builder.base.commands import setup_command
from builder.base.errors import EnvironmentSetupError
from builder.base.project import cache_folder
from builder.package.components import OURS, LicensedPart, Wheel, read_own_licence
from builder.sources.miniaudio import ARCHIVE, HEADER, SHA256, VERSION, unpack_miniaudio

_RULE = "-" * 80


def library_parts(library: str, versions: Mapping[str, str], *, sound: bool = False) -> tuple[LicensedPart, ...]:
    """Return the parts compiled into the file ``library`` (its path in Lambda).

    ``versions``: the manifest's. ``sound``: whether the model takes sound. Raises EnvironmentSetupError when a package
    that made the library is not installed here.
    """
    paths, tensorflow, zig = (library,), versions["tensorflow"], versions["zig"]
    eigen = _read_package_file("tensorflow-cpu", "tensorflow/include/Eigen/Version")
    version = re.search(r'EIGEN_VERSION_STRING "([^"]+)"', eigen)
    return (
        LicensedPart(
            ref="coldforge:runtime",
            name="coldforge runtime",
            version=__version__,
            licence=OURS,
            inside=paths,
            about="the program's steps, the kernels and the C ABI (builder/runtime)",
            texts=(read_own_licence(),),
        ),
        LicensedPart(
            ref="openxla:xla",
            name="XLA",
            version=tensorflow,
            licence="Apache-2.0",
            inside=paths,
            purl=f"pkg:pypi/tensorflow-cpu@{tensorflow}#tensorflow/include/xla",
            about="of TensorFlow's wheel of this version: the kernels that it generates, and what they inline",
            texts=(_read_package_file("tensorflow-cpu", "tensorflow/include/LICENSE"),),
        ),
        LicensedPart(
            ref="tensorflow:eigen",
            name="Eigen",
            version=version[1] if version else "",
            licence="MPL-2.0",
            inside=paths,
            purl=f"pkg:pypi/tensorflow-cpu@{tensorflow}#tensorflow/include/Eigen",
            about="functions that XLA inlines in kernels, such as tanh; a library without such kernels has none of it",
            texts=(
                _read_notice_section(
                    _read_package_file("tensorflow-cpu", "tensorflow/THIRD_PARTY_NOTICES.txt"), "Eigen"
                ),
            ),
        ),
        LicensedPart(
            ref="zig:compiler-rt",
            name="compiler-rt",
            version=zig,
            licence="MIT AND (Apache-2.0 WITH LLVM-exception)",
            inside=paths,
            purl=f"pkg:pypi/ziglang@{zig}#ziglang/lib/compiler_rt",
            about="of zig's wheel of this version; the linker takes what is called, which may be nothing",
            texts=(
                _read_package_file("ziglang", "ziglang/LICENSE"),
                _read_package_file("ziglang", "ziglang/lib/libunwind/LICENSE.TXT"),
            ),
        ),
        *([_make_decoder_part(paths)] if sound else []),
    )


def _make_decoder_part(inside: tuple[str, ...]) -> LicensedPart:
    text = (unpack_miniaudio(cache_folder()) / HEADER).read_text(encoding="utf-8")
    return LicensedPart(
        ref=f"pkg:pypi/miniaudio@{VERSION}",
        name="miniaudio",
        version=VERSION,
        licence="MIT-0",
        inside=inside,
        purl=f"pkg:pypi/miniaudio@{VERSION}",
        about=f"{HEADER} of this package decodes FLAC and MP3; only in libraries of models that take sound",
        wheel=Wheel(ARCHIVE, SHA256),
        texts=(text.rpartition("ALTERNATIVE 2 - MIT No Attribution\n")[2].strip("=*/\n "),),
    )


def _read_package_file(package: str, name: str) -> str:
    """Read a text of an installed package. Raises EnvironmentSetupError."""
    try:
        file = importlib.metadata.distribution(package).locate_file(name)
        return Path(str(file)).read_text(encoding="utf-8")
    except (importlib.metadata.PackageNotFoundError, OSError) as error:
        raise EnvironmentSetupError(
            f"{package}'s {name} cannot be read ({error}): run `{setup_command()}` again."
        ) from error


def _read_notice_section(notices: str, name: str) -> str:
    """Return the section of TensorFlow's THIRD_PARTY_NOTICES.txt on one project."""
    _, _, rest = notices.partition(f"{_RULE}\n== {name}\n")
    if not rest:
        raise EnvironmentSetupError(f"TensorFlow's THIRD_PARTY_NOTICES.txt says nothing of {name}.")
    return re.split(rf"\n{_RULE}\n+(?:{_RULE}\n)?== ", rest)[0].strip()
