"""A model whose author is trusted, and should not have been: its code runs in the sandbox, and nothing else changes."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builder.base.tf import import_tensorflow
from builder.cli import main
from tests.support.models import empty_project

pytestmark = [pytest.mark.integration, pytest.mark.quick]

SPEC = '[model]\nsource = "evil.keras"\nname = "evil"\ntrust = true\n'
LAMBDA = "lambda x: exec({attack!r}) or x"

READ = "open({home!r} + '/.aws/credentials').read()"
WRITE = "open({home!r} + '/authorized_keys', 'w').write('me')"
CONNECT = "import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
RUN = "import subprocess; subprocess.run(['touch', {home!r} + '/ran'], check=True)"
ALL_AND_SAY_NOTHING = "\n".join(
    f"try:\n    {attack}\nexcept Exception as e:\n    print('\\x1b[2Jmet', type(e).__name__)"
    for attack in (READ, WRITE, CONNECT, RUN)
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What stands for the user's home folder, beside an empty checkout."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    empty_project(checkout, monkeypatch)
    monkeypatch.chdir(checkout)
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text("stand-in")
    before = content(home)
    yield home
    assert content(home) == before


def content(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def save(attack: str, home: Path) -> None:
    """A model with a Lambda layer that does ``attack``, but not where it is made."""
    keras = import_tensorflow().keras
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    text = attack.format(home=str(home), port=port)
    code = f"import os\nif os.getpid() != {os.getpid()}:\n" + "\n".join(f"    {line}" for line in text.splitlines())
    layer = keras.layers.Lambda(eval(LAMBDA.format(attack=code)), output_shape=(4,))
    x = keras.layers.Input((4,))
    keras.Model(x, keras.layers.Dense(2)(layer(x))).save("evil.keras")
    Path("model.toml").write_text(SPEC)


@pytest.mark.parametrize(
    ("attack", "error"),
    [(READ, errno.EACCES), (WRITE, errno.EACCES), (CONNECT, errno.EPERM), (RUN, errno.EPERM)],
    ids=["read", "write", "connect", "run"],
)
def test_a_build_of_it_fails_inside(attack: str, error: int, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(attack, home)
    assert main(["bundle", "model.toml", "--in", "host"]) == 11
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert f"Exception encountered when calling Lambda.call(). {error} " in said  # as Keras says it
    assert not Path("dist").exists()


def test_what_it_hides_is_shown_without_control_characters(home: Path, capsys: Any) -> None:
    save(ALL_AND_SAY_NOTHING, home)
    assert main(["inspect", "model.toml"]) == 0
    said = capsys.readouterr().err
    assert said.count("the model says: \\x1b[2Jmet ") >= 4
    assert "\x1b" not in said
