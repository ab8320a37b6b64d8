"""``python -m benchmarks.pack``: an archive that measures on a machine with nothing but Python, such as a Graviton.

It has the modules that measure, and of each network the libraries, inputs and TensorFlow's answers. What is in it runs
under Python 3.9, which Amazon Linux 2023 has, and needs no package; only the peers do.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import held_out
from benchmarks.engines import ENGINES, INT8, KINDS, OURS, OURS_INT8
from benchmarks.machine import VERSION
from benchmarks.models import FOLDER, READY, ROOT, SAMPLES, Network, named
from benchmarks.prepare import prepare, ready_name
from builder import __version__
from builder.targets import ARM64, TARGETS, Target, host_target, target_named

SHOWN = ("emotion", "digits", "age_gender", "mobilenet_v2")
PEERS = {"onnxruntime": "onnxruntime", "litert": "ai-edge-litert"}
"""Those that have packages for arm64: our name and PyPI's."""

MODULES = (
    *("__init__", "answers", "cold", "compare", "held_out", "latency", "machine", "machines", "models", "plot"),
    *("process", "report", "run", "tables", "worker"),
    *(f"engines/{name}" for name in ("__init__", "arrays", "coldforge", "litert", "onnxruntime")),
)
"""What measures: ``benchmarks.run`` and all that it imports, and the engines."""

HELD_BYTES = 8_000_000
"""Of the inputs of one network that int8 engines are judged by; they are noise, which cannot be compressed."""

AWAY = Path(__file__).parent / "away"


def pack(networks: Sequence[Network], target: Target, peers: Sequence[str], output: Path) -> Path:
    """Make what is missing, and write the archive ``output``; ``peers``: of ``PEERS``, whose models come along."""
    suffix = "" if target == host_target() else target.suffix
    wanted = [OURS, OURS_INT8, *peers, *(f"{name}_int8" for name in peers)]
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / output.name.partition(".")[0]
        for name in MODULES:
            _copy(Path(__file__).parent / f"{name}.py", root / "benchmarks" / f"{name}.py")
        for path in AWAY.iterdir():
            if path.suffix in (".sh", ".md"):
                _copy(path, root / path.name)
        (root / "peers.txt").write_text("".join(f"{pin}\n" for pin in _pins(peers)))
        for network in networks:
            prepare(network, [name for name in wanted if name in INT8], target, peers=bool(peers))
            _add(network, wanted, suffix, root / network.folder.relative_to(ROOT))
        version = root / VERSION.relative_to(ROOT)
        version.write_text(f"{__version__}\n")
        output.parent.mkdir(parents=True, exist_ok=True)
        _write(root, output)
    return output


def _add(network: Network, wanted: Sequence[str], suffix: str, to: Path) -> None:
    """What is measured of ``network``, of the engines ``wanted``, into the folder ``to``."""
    ready = json.loads((network.folder / ready_name(suffix)).read_text())
    for name in KINDS.keys() & (ENGINES.keys() | INT8.keys()):
        if name not in wanted:
            ready["failed"][name] = "not in the archive"
        elif name not in ready["failed"]:
            model = Path(KINDS[name].model)
            ours = suffix if name in (OURS, OURS_INT8) else ""
            _copy(network.folder / f"{model.parent}{ours}" / model.name, to / model)
    for number in range(SAMPLES):
        for kind in ("in", "out"):
            _copy(network.folder / "keras" / f"{number}.{kind}", to / "keras" / f"{number}.{kind}")
    held = network.folder / held_out.FOLDER
    most = max(4, HELD_BYTES // (held / "0.in").stat().st_size)
    for number in range(min(most, held_out.runs(network))):
        for kind in ("in", "out"):
            _copy(held / f"{number}.{kind}", to / held_out.FOLDER / f"{number}.{kind}")
    (to / READY).write_text(json.dumps(ready, indent=1))


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, to)


def _pins(peers: Sequence[str]) -> list[str]:
    """``NAME==VERSION`` of each peer's package, as ``make bench`` measures it."""
    lines = (ROOT / "requirements" / "bench.txt").read_text(encoding="utf-8").splitlines()
    packages = [PEERS[name] for name in peers]
    return [line.split()[0] for line in lines if line.partition("==")[0] in packages]


def _write(root: Path, output: Path) -> None:
    """The same bytes for the same files."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = 0
        info.mode = 0o755 if info.isdir() or info.name.endswith(".sh") else 0o644
        return info

    with (
        output.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, 0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(root.rglob("*")):
            archive.add(path, str(path.relative_to(root.parent)), recursive=False, filter=plain)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pack", description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"{' '.join(SHOWN)} when left out")
    names = [target.name for target in TARGETS]
    parser.add_argument("--target", choices=names, default=ARM64.name, help="what it is for (default: %(default)s)")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[], help="engines whose models come along")
    parser.add_argument("--output", type=Path, help="the archive; build/bench/coldforge-bench-TARGET.tar.gz")
    options = parser.parse_args(arguments)
    target = target_named(options.target)
    output = options.output or FOLDER / f"coldforge-bench-{target.name}.tar.gz"
    pack([named(name) for name in options.networks or SHOWN], target, options.peers, output)
    print(f"{output}: {output.stat().st_size / 1e6:.0f} MB; unpack it there, and run ./run.sh", file=sys.stderr)


if __name__ == "__main__":
    main()
