"""Fixtures of the Python tests: the built program and the data beside the repository.

    .venv/bin/python -m pytest tests/python --build-dir build/dev
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_training import small_text

ROOT = Path(__file__).resolve().parent.parent.parent


def pytest_addoption(parser):
    parser.addoption("--build-dir", default="build/dev", help="where the program was built")


class Program:
    """Runs `prenorm` with arguments and gives the completed process; fails the test on an
    unexpected exit code, showing what was printed."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, expect=0, stdin="", timeout=600, env=None):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PRENORM_")}
        done = subprocess.run(
            [str(self.path), *map(str, arguments)],
            input=stdin if isinstance(stdin, bytes) else stdin.encode(),
            capture_output=True,
            timeout=timeout,
            env={**clean, **(env or {})},
            check=False,
        )
        # Surrogates carry bytes that are not UTF-8 through to the test.
        done.out = done.stdout.decode("utf-8", "surrogateescape")
        done.err = done.stderr.decode("utf-8", "surrogateescape")
        assert expect is None or done.returncode == expect, (
            f"{' '.join(map(str, arguments))}\nexit code {done.returncode}, expected {expect}\n"
            f"{done.out[-2000:]}\n{done.err[-2000:]}"
        )
        return done


def pytest_terminal_summary(terminalreporter):
    """The counts of the suites that are not our own, also where all passed."""
    reports = sys.modules.get("sample_cases")
    if reports is None or not reports.Report.all:
        return
    terminalreporter.section("cases of PyTorch and ONNX through prenorm apply")
    for report in reports.Report.all:
        for line in report.lines():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def prenorm(request):
    folder = Path(request.config.getoption("--build-dir"))
    path = (folder if folder.is_absolute() else ROOT / folder) / "prenorm"
    assert path.exists(), f"{path}: expected the built program; run cmake --build first"
    return Program(path)


@pytest.fixture(scope="session")
def shared():
    """Data that lies beside the repository, where there is any."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip("no shared data beside the repository")
    return path


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    """A text of about 20,000 characters, the same every time, with some structure to learn."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(small_text(600), encoding="utf-8")
    return path
