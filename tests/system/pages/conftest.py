"""One browser for all these tests: it takes seconds to start."""

from collections.abc import Iterator

import pytest

from tests.needed import skip_without
from tests.system.pages.browser import Browser, chromium


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser that has been nowhere."""
    skip_without("chromium", "chromedriver", "npm")
    with chromium() as browser:
        yield browser
