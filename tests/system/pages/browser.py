"""One Chromium, what it asked for, what it complained about, and axe-core in it."""

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.build.processes.commands import REPOSITORY

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

AXE_VERSION = "4.14.1"
PATIENCE_SECONDS = 120.0
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    "--force-prefers-reduced-motion",  # on a long list a page that glides to a button is not where the driver clicks
)
_QUIET = ("data", "blob", "about", "chrome", "devtools")
"""Schemes of requests that leave no process."""
_BY_CSS = "css selector"
"""As WebDriver's specification names it."""


class Browser:
    """A browser window of 1280 x 800, and its logs."""

    def __init__(self, driver: "Chrome") -> None:
        from selenium.webdriver.support.ui import WebDriverWait  # selenium takes a time that listing the tests need not

        self.driver = driver
        self.patience = WebDriverWait(driver, PATIENCE_SECONDS)
        self.resize()

    def resize(self, width: int = 1280, height: int = 800, *, dark: bool = False) -> None:
        """Make the window so large, and its user one who likes it dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def run_scripts(self, *, run: bool) -> None:
        """Switch the scripts of pages off, or on again."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not run})

    def open(self, url: str) -> None:
        """Go there by the address bar, with logs that begin now."""
        self.asked(), self.complaints()
        self.driver.get(url)

    def one(self, selector: str) -> "WebElement":
        """Return the first element that a CSS selector finds."""
        return self.driver.find_element(_BY_CSS, selector)

    def all(self, selector: str) -> "list[WebElement]":
        """Return all elements that a CSS selector finds."""
        return self.driver.find_elements(_BY_CSS, selector)

    def text(self, selector: str = "body") -> str:
        """Return the visible text there."""
        return self.one(selector).text

    def script(self, code: str) -> Any:
        """Return what code gives in the page."""
        return self.driver.execute_script(code)

    def wait(self, condition: str) -> None:
        """Wait until an expression in the page is true."""
        self.patience.until(lambda driver: driver.execute_script(f"return {condition}"))

    def choose(self, selector: str, shown: str) -> None:
        """Click there until what this shows is displayed: a busy browser loses clicks on what it has yet to paint."""

        def is_shown(_: object) -> bool:
            if not self.one(shown).is_displayed():
                self.one(selector).click()
            return self.one(shown).is_displayed()

        self.patience.until(is_shown)

    def press(self, key: str) -> bool:
        """Press one key, by selenium's name for it. Always true."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        ActionChains(self.driver).send_keys(getattr(Keys, key)).perform()
        return True

    def focused(self, what: str) -> str:
        """Return a property of the element that has the focus."""
        return str(self.script(f"return document.activeElement.{what}"))

    def asked(self) -> list[str]:
        """Return every address that was asked for since the last time, but for those that are no requests."""
        entries = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        urls = [one["params"]["request"]["url"] for one in entries if one["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if urlsplit(url).scheme not in _QUIET]

    def complaints(self) -> list[str]:
        """Return what the console shows since the last time: errors of scripts, and what a policy has refused."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def violations(self) -> list[str]:
        """Return what axe-core finds wrong with the page as it is."""
        script = f"{axe_core()}\naxe.run().then(arguments[0])"  # in one: the page may load itself again in between
        found = self.driver.execute_async_script(script)["violations"]
        return [f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]}" for each in found]


@cache
def axe_core() -> str:
    """Return axe-core's script; npm fetches it once, into `build/`."""
    script = REPOSITORY / "build" / f"axe-core-{AXE_VERSION}.js"
    if not script.exists():
        with TemporaryDirectory(prefix="axe-core") as folder:
            pack = ("npm", "pack", "--silent", f"axe-core@{AXE_VERSION}")
            done = subprocess.run(pack, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
            assert done.returncode == 0, done.stderr
            with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
                member = archive.extractfile("package/axe.min.js")
                assert member is not None
                text = member.read()
        script.parent.mkdir(exist_ok=True)
        mine = script.with_suffix(f".{os.getpid()}")
        mine.write_bytes(text)
        mine.replace(script)
    return script.read_text("utf-8")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Chromium until the block ends."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    for flag in _FLAGS:
        options.add_argument(flag)
    options.accept_insecure_certs = True  # the tests' own authority is no browser's
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True) as folder:  # it leaves its socket's behind
        service = ChromeService(shutil.which("chromedriver"), env={**os.environ, "TMPDIR": folder})
        driver = Chrome(options=options, service=service)
        driver.set_script_timeout(PATIENCE_SECONDS)
        try:
            yield Browser(driver)
        finally:
            driver.quit()
