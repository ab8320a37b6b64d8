"""The examples of C and Rust read JPEG and PNG with their languages' own decoders; Pillow says what the pixels are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import ROOT
from tests.integration.test_bindings_types import BUILDERS, Command, answer, make, refusal
from tests.integration.test_bindings_types import c as by_make
from tests.support import abi_library, needs

pytestmark = pytest.mark.integration

SIZES = {"grey": (8, 1), "rgb": (2, 1)}
"""So small that the example prints every number of the model that answers with its own pixels."""


def c(folder: Path) -> Command:
    needs.libraries("libjpeg", "libpng")
    return by_make(folder)


def rust(folder: Path) -> Command:
    """The crate in pictures/, with the decoder as Debian packages it; its compiled crates are kept for the next run."""
    crates, target = needs.rust_image(), ROOT / "build" / "cargo" / "pictures"
    command = [needs.cargo(), "build", "--offline", "--quiet", "--manifest-path", "pictures/Cargo.toml"]
    command += ["--config", 'source.crates-io.replace-with="debian"', "--config", f'source.debian.directory="{crates}"']
    environment = os.environ | {"CARGO_TARGET_DIR": str(target), "RUSTFLAGS": "-D warnings"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [shutil.move(target / "debug" / "predict", folder / "predict")]


@pytest.mark.parametrize("mode", SIZES)
@pytest.mark.parametrize("build", [c, rust])
def test_colours_are_converted_and_opacity_is_left_out(
    build: Callable[[Path], Command], mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    language, (width, height) = build.__name__, SIZES[mode]
    monkeypatch.setitem(BUILDERS, language, build)
    command = make(language, abi_library.picture_description(width=width, height=height, mode=mode), tmp_path)
    colour = Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 4), np.uint8), "RGBA")
    pictures = {"opacity.png": colour, "colour.png": colour.convert("RGB"), "grey.png": colour.convert("L")}
    pictures |= {"palette.png": colour.convert("RGB").quantize(16), "faint.png": colour.convert("LA")}
    pictures |= {"colour.jpg": colour.convert("RGB"), "grey.jpg": colour.convert("L")}
    for name, picture in pictures.items():
        picture.save(tmp_path / name)
        with Image.open(tmp_path / name) as opened:
            expected = np.asarray(opened.convert("L" if mode == "grey" else "RGB")).ravel()
        said = dict(line.split(": ") for line in answer(command, [tmp_path / name]))["pixels"]
        found = np.array(said.split(), int)
        # Decoders of JPEG need not round alike.
        np.testing.assert_allclose(found, expected, atol=3 if name.endswith("jpg") else 0, rtol=0, err_msg=name)

    (tmp_path / "cut.jpg").write_bytes((tmp_path / "colour.jpg").read_bytes()[:300])
    (tmp_path / "cut.png").write_bytes((tmp_path / "colour.png").read_bytes()[:50])
    colour.resize((9, 1)).save(tmp_path / "wide.png")
    (tmp_path / "text.png").write_text("no picture at all")
    for name, complaint in (
        ("cut.jpg", ""),
        ("cut.png", ""),
        ("wide.png", f"the picture is 9x1 {mode}; the model takes {width}x{height} {mode}"),
        ("text.png", "no binary PPM or PGM"),
    ):
        code, told = refusal(command, [tmp_path / name])
        assert (code, len(told.splitlines())) == (1, 1), told
        assert told.startswith("predict: ")
        assert complaint in told
