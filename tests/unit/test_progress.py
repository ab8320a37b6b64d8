"""What is seen while a command runs: plain lines, or a terminal that lives. The terminal is a real one (pty)."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from builder.base.errors import CompileError
from builder.base.progress import Progress, choose_screen, format_bytes
from builder.base.project import Project
from builder.base.sandbox import KernelFeatures, ProcessLimits, Sandbox
from builder.base.sandbox.process_output import select_own_lines
from builder.base.sandbox.sandbox_client import _make_environment
from builder.base.screen import PlainScreen
from builder.base.targets import X86_64
from builder.cli import main
from builder.config import ModelSpec, Source
from builder.pipeline.workspace import Workspace
from tests.conftest import ROOT

SCRIPT = """
import sys, time
from builder.base.progress import Progress
progress = Progress()
with progress.show_stage("verify", "libmodel.so [red]x[/red]") as outcome:
    for case in range(3):
        progress.show_step(case, 3, f"case {case}")
        time.sleep(0.15)
    progress.show_lines("said meanwhile")
with progress.show_transfer("model.keras", 4_000_000, done=1_000_000) as advance:
    for _ in range(3):
        advance(1_000_000)
        time.sleep(0.15)
print("result")
"""
ESCAPE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


def on_a_terminal(environment: Mapping[str, str], columns: int = 100) -> tuple[str, str]:
    """What SCRIPT shows on a terminal of that width as its standard error, and what on its standard output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {k: v for k, v in os.environ.items() if k not in ("CI", "NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    shown: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 4096):
                shown.append(piece)
        except OSError:  # the other end is closed
            pass

    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env=kept | {"TERM": "xterm-256color"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    output, _ = process.communicate(timeout=60)
    reader.join()
    os.close(ours)
    assert process.returncode == 0
    return b"".join(shown).decode(), output.decode()


def test_a_terminal_shows_what_goes_on_and_keeps_what_ended() -> None:
    shown, output = on_a_terminal({})
    assert output == "result\n"
    text = ESCAPE.sub("", shown)
    assert "verify     libmodel.so [red]x[/red]: case 1" in text  # no markup of a model's is followed
    assert "1 of 3" in text
    assert "2.0/4.0 MB" in text
    assert "0:00:00" in text
    kept = [line.strip() for line in text.replace("\r", "\n").split("\n")]
    assert "said meanwhile" in kept
    assert any(re.fullmatch(r"verify     libmodel.so \[red\]x\[/red\] · [\d.]+ s", line) for line in kept)
    assert any(
        re.fullmatch(r"download   model.keras · 3.0 MB, after 1.0 MB that were there · [\d.]+ s", line) for line in kept
    )
    assert "\x1b[1m" in shown
    assert re.search(r"\x1b\[(?:\d+;)*3[0-7]", shown)


def test_a_narrow_terminal_shortens_the_description_alone() -> None:
    text = ESCAPE.sub("", on_a_terminal({}, columns=60)[0])
    lines = [line for line in text.replace("\r", "\n").split("\n") if "0:00:0" in line]
    assert any(re.search(r"verify     lib.*… .* 1 of 3 0:00:0\d$", line) for line in lines)
    assert any(re.search(r"mod.*… .* 2\.0/4\.0 MB .* 0:00:0\d$", line) for line in lines)
    assert all(len(line) <= 60 for line in lines)


def test_no_color_is_heeded() -> None:
    shown, _ = on_a_terminal({"NO_COLOR": "1"})
    assert "2 of 3" in ESCAPE.sub("", shown)
    assert not re.search(r"\x1b\[(?:\d+;)*[34]\d", shown)


@pytest.mark.parametrize("environment", [{"CI": "true"}, {"TERM": "dumb"}])
def test_a_terminal_that_nobody_watches_gets_plain_lines(environment: dict[str, str]) -> None:
    shown, _ = on_a_terminal(environment)
    assert "\x1b" not in shown
    assert [line.partition(" · ")[0] for line in shown.splitlines()] == [
        "said meanwhile",
        "  verify     libmodel.so [red]x[/red]",
        "  download   model.keras",
    ]


def test_without_rich_and_without_a_terminal_there_are_plain_lines() -> None:
    done = subprocess.run([sys.executable, "-S", "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "result\n"
    assert len(done.stderr.splitlines()) == 3
    assert isinstance(choose_screen(io.StringIO(), {"TERM": "xterm"}), PlainScreen)


def test_a_stage_that_fails_is_said_and_a_quiet_one_is_not() -> None:
    for quiet, expected in ((False, "  link       x — failed\n"), (True, "")):
        stream = io.StringIO()
        progress = Progress(stream, quiet=quiet)
        with pytest.raises(KeyError), progress.show_stage("link", "x"):
            raise KeyError
        progress.show_lines("") if quiet else None
        assert stream.getvalue() == expected
        assert not progress.open


def test_what_other_programs_print_is_shown_only_if_asked_for() -> None:
    for verbose, expected in ((False, ""), (True, "  | I0000 noise\n  | more\\x1b[2J\n")):
        stream = io.StringIO()
        Progress(stream, verbose=verbose).show_detail("I0000 noise\nmore\x1b[2J\n")
        assert stream.getvalue() == expected


def test_a_models_own_words_are_told_from_tensorflows() -> None:
    log = """
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1763825000.123456    4242 cpu_feature_guard.cc:210] This TensorFlow binary is optimized to use
To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow
2026-11-22 18:00:00.123456: W tensorflow/core/framework/op_kernel.cc:1844] OP_REQUIRES failed
\t [[{{node model/Lu}}]]
E0000 00:00:1763825000.123456    4242 mlir_bridge_pass_util.cc:70] Failed to parse function_1: input input[0] expected
\tIn {{node while/cond/strided_slice}}
  hello from a Lambda layer
self.x is 3
"""
    assert select_own_lines(log) == ["  hello from a Lambda layer", "self.x is 3"]


def noise() -> None:
    """A job that says what TensorFlow does, and something of its own."""
    print("I0000 00:00:1763825000.123456    4242 service.cc:153] XLA service initialized\nmine", flush=True)


@pytest.mark.parametrize("verbose", [False, True])
def test_tensorflows_noise_reaches_the_screen_only_if_asked_for(verbose: bool, tmp_path: Path) -> None:
    """In a real process of the sandbox, which is told how much to log, too."""
    stream = io.StringIO()
    sandbox = Sandbox(
        ProcessLimits(memory=2 << 30, seconds=60), KernelFeatures.from_machine(), ("tests.unit.test_progress",), verbose
    )
    spec = ModelSpec(tmp_path / "model.toml", "m", "1", Source("graph_def", tmp_path / "m.pb"))
    ws = Workspace(spec, Project(tmp_path), X86_64, Progress(stream, verbose=verbose), sandbox)
    ws.progress.shown.add(sandbox.kernel.describe_missing())  # a kernel without Landlock says so
    ws.run_sandboxed(noise, folder=tmp_path, reads=[], failed=lambda code, said: CompileError(f"{code} {said}"))
    lines = stream.getvalue().splitlines()
    if verbose:
        assert [line[:10] for line in lines] == ["  | I0000 ", "  | mine"]
    else:
        assert lines == ["  the model says: mine"]
    levels = [_make_environment({}, verbose=told)["TF_CPP_MIN_LOG_LEVEL"] for told in (False, True)]
    assert levels == ["2", "0"]


def test_quiet_and_verbose_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["where", "--quiet", "--verbose"]) == 2
    assert "not allowed with" in capsys.readouterr().err


def test_sizes() -> None:
    found = [format_bytes(n) for n in (0, 999, 1000, 12_345_678, 5_000_000_000_000)]
    assert found == ["0 B", "999 B", "1.0 kB", "12.3 MB", "5000.0 GB"]
