"""A headless Chromium: Debian's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.needs import needs


@contextmanager
def chromium(*, dark: bool = False, width: int = 1100, height: int = 780, phone: bool = False) -> Iterator[Any]:
    """A selenium WebDriver with a camera that shows a test pattern; ``dark``: with that colour scheme preferred.

    ``phone``: of 390 by 844 pixels, touched.
    """
    browser, driver_program = needs("chromium"), needs("chromedriver", "chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}",
                 "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=Service(driver_program)) as driver:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        if phone:
            size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        yield driver
