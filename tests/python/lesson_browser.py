"""Fixtures for the tests that open the lesson page in Chromium; without one they are skipped."""

import pytest
from chromium import Chromium, find_chromium
from lesson_page import PAGE, Native

if find_chromium() is None:
    pytest.skip("without Chromium the lesson page cannot be opened", allow_module_level=True)


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    return Native(tmp_path_factory.mktemp("lesson"))


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    try:
        browser = Chromium(tmp_path_factory.mktemp("profile"))
    except (EOFError, OSError, TimeoutError) as problem:
        pytest.skip(f"Chromium does not start here: {problem}")
    with browser:
        yield browser


@pytest.fixture
def page(running):
    running.size(1200, 900)
    running.events.clear()
    running.open(PAGE.as_uri())
    yield running
    assert running.complaints() == []
