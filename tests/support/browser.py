"""A headless Chromium: Debian's, which is installed where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

PACKAGES = ["chromium", "chromium-driver"]


def _install() -> None:
    if shutil.which("chromium") and shutil.which("chromedriver"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("there is no Chromium: install Debian's chromium and chromium-driver")
    subprocess.run(["apt-get", "update", "-qq"], capture_output=True, check=False)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"Chromium cannot be installed: {done.stderr.strip()[-300:]}")


@contextmanager
def chromium(*, dark: bool = False, width: int = 1100, height: int = 780) -> Iterator[Any]:
    """A selenium WebDriver; ``dark``: with that colour scheme preferred."""
    _install()
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver"))) as driver:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        yield driver
